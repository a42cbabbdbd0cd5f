"""What would take more memory or work than there is is refused before it is made; long answers go in parts."""

import io
import json
from contextlib import suppress

import httpx
import numpy as np
import orjson
import pyarrow as pa
import pytest

from app.api.codecs.arrow import table_of_arrow
from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import ARROW
from app.api.codecs.npy import array_of_npy
from payoff.errors import Invalid
from tests.api.column_bodies import arrow, free, npy
from tests.conftest import serving, settings_for, trained, two_class_rows

NPY = "application/x-npy"


@pytest.mark.parametrize("size", [0, 1, 1000, 60_000, 150_001])
def test_what_is_written_in_parts_is_the_same_document(size):
    rng = np.random.default_rng(size)
    document = {
        "a": [1, "x"],
        "p": rng.random((size, 3)),
        "v": rng.random(size),
        "k": rng.integers(0, 9, size),
        "z": {},
    }

    assert json_bytes(document) == orjson.dumps(
        document, option=orjson.OPT_SERIALIZE_NUMPY
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A service that has 64 MB for requests."""
    with serving(
        settings_for(tmp_path_factory.mktemp("small"), request_memory_mb=64)
    ) as client:
        data = two_class_rows(200)
        plain = data | {
            "features": ["age", "pulse"],
            "rows": [row[:2] for row in data["rows"]],
        }
        for model, learner, rows in (
            ("ward", "logistic", data),
            ("plain", "logistic", plain),
            ("wood", "budget_forest", data),
        ):
            trained(
                client, {"model": model, "learner": {"kind": learner}, "data": rows}
            )
        yield client


@pytest.mark.parametrize(
    ("path", "query", "body"),
    [
        ("/predict", {"model": "plain", "rule": "most_probable"}, npy(np.ones((3_000_000, 2), np.uint8))),
        ("/predict", {"model": "plain", "rule": "most_probable"}, npy(np.ones((700_000, 2), np.uint8))),
        ("/retrieve", {"setting": "binary", "loss": '{"name": "am"}'}, npy(np.ones(3_000_000, np.uint8))),
        ("/retrieve", {"setting": "multilabel", "loss": '{"name": "am"}'}, npy(np.ones((500_000, 1), np.uint8))),
        ("/predict", {}, {"model": "ward", "rule": "most_probable", "instances": [[1, 2, "mild"]] * 150_000}),
        ("/acquire", {}, {"model": "wood", "instances": [{"age": 1}] * 60_000}),
        ("/acquire/simulate", {}, {"model": "wood", "rows": [[1, 2, "mild"]] * 150_000, "labels": ["ill"] * 150_000}),
        ("/train", {}, {"model": "x", "learner": {"kind": "logistic"},
                        "data": {"features": ["a"], "rows": [[1]] * 300_000, "labels": [0] * 300_000}}),
        ("/models/ward/benefit", {}, {"benefits": [[1] * 60_000] * 2}),
        ("/models/ward/benefit", {}, {"benefits": [[1] * 40_000] * 2}),
    ],
    ids=["rows", "answer", "items", "sets", "instances", "cases", "simulated", "inline", "cells", "rows and actions"],
)  # fmt: skip
def test_what_needs_more_memory_than_there_is_gets_413(small, path, query, body):
    """The same for every route: few bytes can ask for many."""
    is_npy = isinstance(body, bytes)
    headers = {"Content-Type": NPY if is_npy else "application/json"}
    content = body if is_npy else json.dumps(body)
    response = small.post(path, params=query, content=content, headers=headers)

    assert response.status_code == 413, response.text[:300]


def test_a_dictionary_that_comes_back_is_charged_as_it_is_spelt_out(small):
    """A column of one word: 1.4 kB of Parquet made an answer of 502 MB."""
    n = 80_000
    word = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["x" * 900])
    body = arrow({"age": np.ones(n), "pulse": np.ones(n), "w": word})
    query = {"model": "plain", "rule": "most_probable", "keep": "w"}
    answer = small.post(
        "/predict",
        params=query,
        content=body,
        headers={"Content-Type": ARROW, "Accept": ARROW},
    )

    assert answer.status_code == 413, answer.text[:300]


def spelt_out(letters: int, rows: int) -> pa.DictionaryArray:
    """A column of one word, whose body takes a byte for each row."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), ["x" * letters])


@pytest.mark.parametrize(
    ("letters", "columns"), [(1000, 1), (300, 3)], ids=["one column", "all together"]
)
def test_text_that_comes_back_is_bounded_whatever_the_memory(
    service, ward, letters, columns
):
    """57 kB of Parquet became an answer of 461 MB: what is in full more than 64 MB is not made."""
    n, names = 80_000, [f"w{i}" for i in range(columns)]
    words = {name: spelt_out(letters, n) for name in names}
    body = arrow(
        {"age": np.ones(n), "pulse": np.ones(n), "pain": ["mild"] * n, **words}
    )
    query = {"model": ward, "rule": "most_probable", "keep": ",".join(names)}
    answer = service.post(
        "/predict", params=query, content=body, headers={"Content-Type": ARROW}
    )

    assert answer.status_code == 413, answer.text[:300]
    assert "at most 67,108,864 are" in answer.json()["detail"]


ROWS = [[1, 2, "mild"]]
ASKED = {"model": "ward", "rule": "most_probable"}
RETRIEVED = {"setting": "binary", "loss": {"name": "f_beta"}}
TWO = {"model": "ward", "instances": ROWS * 2}
P = "probabilities"
CASES = {"model": "woods", "instances": [{}]}
BOUNDS = [  # the bound, the path, a body within it, and one beyond
    (
        "answering.decide.LARGEST_ANSWER",
        10,
        "/predict",
        ASKED | {"instances": ROWS * 2},
        ASKED | {"instances": ROWS * 3},
    ),
    (
        "answering.benefit.MAX_CELLS",
        5,
        "/models/ward/benefit",
        {"benefits": [[0] * 2] * 2},
        {"benefits": [[0] * 3] * 2},
    ),
    (
        "answering.acquire.MAX_CELLS",
        5,
        "/acquire",
        CASES,
        CASES | {"instances": [{}] * 2},
    ),
    (
        "answering.retrieve.LARGEST_ANSWER",
        3,
        "/retrieve",
        {P: [0.1] * 4},
        {P: [0.1] * 4, "marginals": True},
    ),
    ("requests.losses.MAX_SETS", 3, "/retrieve", {P: [[]] * 3}, {P: [[]] * 4}),
    ("requests.losses.MAX_ITEMS", 6, "/retrieve", {P: [0.5] * 6}, {P: [0.5] * 7}),
    (
        "requests.losses.MAX_ITEMS",
        6,
        "/retrieve",
        {P: [[0.5] * 4]},
        {P: [[0.5] * 4] * 2},
    ),
    ("requests.losses.MAX_ITEMS", 3, "/retrieve", TWO, TWO | {"setting": "multiclass"}),
]


@pytest.mark.usefixtures("ward", "forest")
@pytest.mark.parametrize(("name", "most", "path", "within", "beyond"), BOUNDS)
def test_bounds_on_what_is_asked_and_answered(
    service, monkeypatch, name, most, path, within, beyond
):
    monkeypatch.setattr(f"app.{name}", most)
    base = RETRIEVED if path == "/retrieve" else {}
    assert service.post(path, json=base | within).status_code == 200
    assert service.post(path, json=base | beyond).status_code == 413


QUERY = {"setting": "multilabel", "loss": json.dumps({"name": "f_beta"})}


def retrieved(service: httpx.Client, content: bytes) -> httpx.Response:
    return service.post(
        "/retrieve", params=QUERY, content=content, headers={"Content-Type": NPY}
    )


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """A .npy file that says what it holds, and holds nothing."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"shape": shape, "fortran_order": False, "descr": kind}
    )
    return file.getvalue()


SHAPES = [
    (10**9, 0),
    (10**13,),
    (10**13, 10**13),
    (-1,),
    (3, -4),
    (0, 2**62, 2**62),
    (1,) * 70,
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_larger_than_the_body_is_rejected(service, shape):
    """Neither one that the body is too short for, nor one that no array has; a header alone allocates nothing."""
    assert retrieved(service, header(shape)).status_code == 422


def test_arrays_are_read_in_their_memory_order():
    """Both orders, either end first, and only what the header speaks of; the result can be written to."""
    rows = np.arange(6.0).reshape(2, 3)
    for array in (rows, np.asfortranarray(rows), np.arange(3, dtype=">f4")):
        read = array_of_npy(npy(array) + b"more", free)
        assert read.tolist() == array.tolist()
        assert read.flags.writeable


def test_compressed_and_delta_dictionaries_are_rejected():
    words = pa.array(["a" * 999, "b"]).dictionary_encode()
    with pytest.raises(Invalid, match="compressed"):
        table_of_arrow(arrow({"w": words}, compression="zstd"), free)
    more = pa.array(["a" * 999, "b", "c"]).dictionary_encode()
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(
        sink, pa.schema({"w": words.type}), options=options
    ) as writer:
        for column in (words, more):
            writer.write_batch(pa.record_batch({"w": column}))
    with pytest.raises(Invalid, match="delta"):
        table_of_arrow(sink.getvalue().to_pybytes(), free)
    assert table_of_arrow(arrow({"w": words}), free)["w"].to_pylist() == [
        "a" * 999,
        "b",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_corrupt_streams_are_rejected_or_read(seed):
    """Whatever byte is wrong: an Invalid, or a table."""
    rng = np.random.default_rng(seed)
    body = bytearray(
        arrow({"w": pa.array(["a", "b"]).dictionary_encode(), "x": [1.0, 2.0]})
    )
    for _ in range(50):
        spoilt = bytearray(body)
        spoilt[rng.integers(len(body))] = rng.integers(256)
        with suppress(Invalid):
            assert table_of_arrow(bytes(spoilt), free).num_columns in range(3)
