"""Triton's Python client, unchanged, against a running service."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from tritonclient.http import (
    InferenceServerClient,
    InferInput,
    InferRequestedOutput,
    InferResult,
)
from tritonclient.utils import InferenceServerException

from tests.conftest import two_class_rows

ROWS = two_class_rows(5, seed=5)["rows"]
TYPES = {
    "age": (np.float64, "FP64"),
    "pulse": (np.float32, "FP32"),
    "pain": (np.object_, "BYTES"),
}
STAKES = {"benefits": "[[0, -1], [-10, 5]]", "actions": '["wait", "treat"]'}


@pytest.fixture(scope="module")
def triton(service: httpx.Client, ward: str) -> Iterator[InferenceServerClient]:
    with InferenceServerClient(
        f"{service.base_url.host}:{service.base_url.port}"
    ) as client:
        yield client


@pytest.fixture(scope="module")
def expected(service: httpx.Client, ward: str) -> dict:
    body = {
        "model": ward,
        "benefits": [[0, -1], [-10, 5]],
        "actions": ["wait", "treat"],
    }
    rows = [[age, float(np.float32(pulse)), pain] for age, pulse, pain in ROWS]
    return service.post("/predict", json={**body, "instances": rows}).json()


def inputs(*, binary: bool = False) -> list[InferInput]:
    found = []
    for j, (name, (kind, datatype)) in enumerate(TYPES.items()):
        values = np.array([[row[j]] for row in ROWS], dtype=kind)
        found.append(
            InferInput(name, list(values.shape), datatype).set_data_from_numpy(
                values, binary_data=binary
            )
        )
    return found


def same(result: InferResult, expected: dict) -> None:
    decisions = result.as_numpy("decisions").tolist()
    assert [
        each.decode() if isinstance(each, bytes) else each for each in decisions
    ] == expected["decisions"]
    np.testing.assert_array_equal(
        result.as_numpy("probabilities"), expected["probabilities"]
    )
    np.testing.assert_array_equal(
        result.as_numpy("expected_benefits"), expected["expected_benefits"]
    )


def test_health_and_metadata(triton):
    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready("ward")
    assert triton.is_model_ready("ward", "1")
    assert not triton.is_model_ready("nothing")
    assert triton.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert [
        each["name"] for each in triton.get_model_metadata("ward", "1")["inputs"]
    ] == list(TYPES)


@pytest.mark.parametrize("binary", [None, True, False])
@pytest.mark.parametrize("binary_inputs", [True, False])
def test_infer(triton, expected, binary, binary_inputs):
    """In binary data, the client's default, and in JSON; None names no outputs."""
    names = ("decisions", "probabilities", "expected_benefits")
    outputs = None
    if binary is not None:
        outputs = [InferRequestedOutput(name, binary_data=binary) for name in names]
    result = triton.infer(
        "ward",
        inputs(binary=binary_inputs),
        outputs=outputs,
        request_id="7",
        parameters=STAKES,
    )

    described = {each["name"]: each for each in result.get_response()["outputs"]}
    assert ("data" in described["decisions"]) == (binary is False)
    assert result.get_response()["id"] == "7"
    same(result, expected)


def test_errors_are_the_clients_exceptions(triton):
    for model, sent, options, status, named in (
        ("nothing", inputs(), {}, "404", "'nothing'"),
        ("ward", inputs()[:2], {}, "400", "'pain'"),
        ("ward", inputs(), {"request_compression_algorithm": "gzip"}, "415", ""),
    ):
        with pytest.raises(InferenceServerException) as refused:
            triton.infer(model, sent, **options)
        assert refused.value.status() == status
        assert named in refused.value.message()
