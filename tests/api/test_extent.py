"""Work is estimated before memory is taken for it, and long answers are written in parts."""

from __future__ import annotations

import json

import numpy as np
import orjson
import pyarrow as pa
import pytest

from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import ARROW
from app.features import Feature, Schema
from app.usecases import acquire, benefit, predict
from tests.api.column_bodies import arrow, npy
from tests.conftest import serving, settings_for, trained, two_class_rows

WORDS = Schema([Feature("a", "numeric"), Feature("w", "categorical", ("x", "y"))])
NPY = {"Content-Type": "application/x-npy"}


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

    assert json_bytes(document) == orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A service that has 64 MB for requests."""
    with serving(settings_for(tmp_path_factory.mktemp("small"), request_memory_mb=64)) as client:
        trained(client, {"model": "ward", "learner": {"kind": "logistic"}, "data": two_class_rows(200)})
        data = two_class_rows(200)
        plain = data | {"features": ["age", "pulse"], "rows": [row[:2] for row in data["rows"]]}
        trained(client, {"model": "plain", "learner": {"kind": "logistic"}, "data": plain})
        trained(client, {"model": "wood", "learner": {"kind": "budget_forest"}, "data": data})
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
    content, headers = (
        (body, NPY) if isinstance(body, bytes) else (json.dumps(body), {"Content-Type": "application/json"})
    )
    response = small.post(path, params=query, content=content, headers=headers)

    assert response.status_code == 413, response.text[:300]


def test_a_dictionary_that_comes_back_is_charged_as_it_is_spelt_out(small):
    """A column of one word: 1.4 kB of Parquet made an answer of 502 MB."""
    n = 80_000
    word = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["x" * 900])
    body = arrow({"age": np.ones(n), "pulse": np.ones(n), "w": word})
    query = {"model": "plain", "rule": "most_probable", "keep": "w"}
    answer = small.post("/predict", params=query, content=body, headers={"Content-Type": ARROW, "Accept": ARROW})

    assert answer.status_code == 413, answer.text[:300]


def test_bounds_on_answers(monkeypatch, small):
    monkeypatch.setattr(predict, "LARGEST_ANSWER", 10)
    monkeypatch.setattr(benefit, "MAX_CELLS", 5)
    monkeypatch.setattr(acquire, "MAX_CELLS", 5)
    rows = [[1, 2, "mild"]]
    for n, status in ((2, 200), (3, 413)):
        question = {"model": "ward", "rule": "most_probable", "instances": rows * n}
        assert small.post("/predict", json=question).status_code == status
    for actions, status in ((2, 200), (3, 413)):
        assert (
            small.post("/models/ward/benefit", json={"benefits": [[0] * actions, [1] * actions]}).status_code == status
        )
    for n, status in ((1, 200), (2, 413)):
        assert small.post("/acquire", json={"model": "wood", "instances": [{}] * n}).status_code == status
