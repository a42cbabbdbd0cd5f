"""A client that openapi-python-client generates from the OpenAPI document, against a running service."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.conftest import two_class_rows

NAME = "generated_client"  # not that of clients/python
ROWS = two_class_rows(4, seed=5)["rows"]
QUESTION = {
    "model": "ward",
    "instances": ROWS,
    "benefits": [[0, -1], [-10, 5]],
    "actions": ["wait", "treat"],
}


class Generated:
    """The generated package, and its client of the service."""

    def __init__(self, url: str) -> None:
        self.client = importlib.import_module(NAME).Client(base_url=url)

    @property
    def models(self) -> ModuleType:
        return importlib.import_module(f"{NAME}.models")

    def call(self, operation: str, *path: Any, **options: Any) -> Any:
        """What the function of an operation returns: status, and the parsed answer."""
        return importlib.import_module(f"{NAME}.api.{operation}").sync_detailed(
            *path, client=self.client, **options
        )


@pytest.fixture(scope="module")
def generated(
    service: httpx.Client, ward: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Generated]:
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(service.get("/openapi.json").text)
    # Of the generator's two last steps the second: without it, Python warns of the code.
    hooks = f"post_hooks: ['{Path(sys.executable).with_name('ruff')} format .']\n"
    (folder / "config.yml").write_text(f"{hooks}package_name_override: {NAME}\n")
    command = [
        Path(sys.executable).with_name("openapi-python-client"),
        "generate",
        "--meta",
        "none",
    ]
    command += [
        "--path",
        "openapi.json",
        "--config",
        "config.yml",
        "--output-path",
        NAME,
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not be generated" not in done.stdout, done.stdout
    sys.path.insert(0, str(folder))
    found = Generated(str(service.base_url))
    yield found
    found.client.get_httpx_client().close()
    sys.path.remove(str(folder))


def test_train_list_and_predict(generated, service):
    order = {
        "model": "generated",
        "learner": {"kind": "logistic"},
        "data": two_class_rows(60),
    }
    job = generated.call(
        "train.train",
        body=generated.models.TrainRequest.from_dict(order),
        prefer="wait=60",
    ).parsed
    assert generated.call("jobs.get_job", job.id).parsed.status == "succeeded"
    listed = generated.call("models.list_models", page_size=500).parsed
    assert {"ward", "generated"} <= {model.name for model in listed.models}
    assert generated.call("models.get_version", "ward", 1).parsed.classes == [
        "healthy",
        "ill",
    ]

    response = generated.call(
        "predict.predict", body=generated.models.PredictRequest.from_dict(QUESTION)
    )
    assert response.status_code == 200
    assert (
        response.parsed.decisions
        == service.post("/predict", json=QUESTION).json()["decisions"]
    )
    assert response.parsed.model.name == "ward"


def test_objects_decide_as_rows_do(generated, service):
    """Typed, and read from JSON: `/predict` and `/acquire` take cases by the names of their features."""
    names = generated.call("models.get_version", "ward", 1).parsed.features
    cases = [dict(zip((one.name for one in names), row, strict=True)) for row in ROWS]
    words = {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
    models = generated.models
    typed = models.PredictRequest(
        model="ward",
        instances=[models.Case.from_dict(case) for case in cases],
        benefits=models.MatrixByName.from_dict(words),
    )
    read = models.PredictRequest.from_dict(
        {"model": "ward", "instances": cases, "benefits": words}
    )
    expected = service.post("/predict", json=QUESTION).json()["decisions"]

    for body in (typed, read):
        assert generated.call("predict.predict", body=body).parsed.decisions == expected
    known = models.AcquireRequest(model="ward", known=models.Case.from_dict({}))
    assert known.to_dict()["known"] == {}
    assert read.to_dict()["instances"] == cases


def test_names_of_classes_can_be_typed(generated):
    """A class of an inline schema has the names of all that is around it."""
    folder = Path(generated.models.__file__).parent
    names = re.findall(
        r"^class (\w+)",
        "".join(module.read_text() for module in folder.glob("*.py")),
        re.MULTILINE,
    )

    assert [
        name for name in names if name.count("AdditionalProperty") > 1 or len(name) > 45
    ] == []


def test_errors_are_parsed(generated):
    body = generated.models.PredictRequest.from_dict(QUESTION | {"model": "nothing"})
    missing = generated.call("predict.predict", body=body)
    other = generated.call("inference_protocol.v2_model", "nothing")

    assert missing.status_code == other.status_code == 404
    assert missing.parsed.errors[0].loc == "/model"
    assert "'nothing'" in other.parsed.error
