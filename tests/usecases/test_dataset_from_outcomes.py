"""Recorded instances and their truth become a data set, with its lineage."""

from __future__ import annotations

import io
from time import time

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.outcomes.decision import DAY, Terms, day_of
from tests.conftest import database_of, trained, two_class_rows
from tests.messages import says
from tests.outcomes.records import decided, told

MATRIX = [[0, -1], [-10, 5]]


@pytest.fixture(scope="module")
def client(service):
    order = {"model": "dataset-ward", "learner": {"kind": "logistic"}, "data": two_class_rows()}
    trained(service, order)
    trained(service, order | {"model": "dataset-other"})
    return service


@pytest.fixture(scope="module")
def database(client):
    with database_of(client) as database:
        yield database


def recorded(client, rows, **record):
    body = {"model": "dataset-ward", "instances": rows, "benefits": MATRIX, "record": record or True}
    answer = client.post("/predict", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["ids"]


def tell(client, ids, truths):
    outcomes = [{"id": id_, "truth": truth} for id_, truth in zip(ids, truths, strict=True)]
    assert client.post("/outcomes", json={"outcomes": outcomes}).json()["accepted"] == len(ids)


def made(client, **body):
    return client.post("/datasets/from-outcomes", json={"model": "dataset-ward"} | body)


def test_instances_with_their_truth_are_a_data_set_to_train_on(client, database):
    refused = made(client)
    assert refused.status_code == 409
    rows = [[50.0 + i, 70.5, ("mild", "strong", "new word")[i % 3]] for i in range(8)]
    rows[3][0] = None
    ids = recorded(client, rows, instances=True)
    tell(client, ids[:6], ["healthy", "ill"] * 3)
    tell(client, recorded(client, rows[:3]), ["ill"] * 3)
    partly = Terms(
        "acquire",
        "dataset-ward",
        1,
        "expected_benefit",
        ("healthy", "ill"),
        ("wait", "treat"),
        ((0.0, -1.0), (-10.0, 5.0)),
    )
    asked = decided(database, 1, terms=partly, instance=orjson.dumps({"age": 3}).decode())
    tell(client, asked, ["ill"])

    answer = made(client, name="dataset-seen")
    assert answer.status_code == 201, answer.text
    dataset = answer.json()
    assert dataset["from"] == {
        "model": "dataset-ward", "versions": [1], "since": None, "until": None, "rows": 6,
        "left_out": {"without_instance": 3, "without_truth": 2, "of_acquire": 1}, "warnings": [],
    }  # fmt: skip
    assert [(each["name"], each["type"]) for each in dataset["features"]] == [
        ("age", "numeric"), ("pulse", "numeric"), ("pain", "categorical")
    ]  # fmt: skip
    assert (dataset["rows"], dataset["labels"], dataset["classes"]) == (6, ["label"], ["healthy", "ill"])
    assert client.get(answer.headers["location"]).json() == dataset
    assert client.get("/datasets/dataset-seen").json()["id"] == dataset["id"]
    again = {
        "model": "dataset-ward",
        "learner": {"kind": "logistic"},
        "data": {"dataset": "dataset-seen"},
        "holdout": 0,
    }
    assert trained(client, again)["model"] == {"name": "dataset-ward", "version": 2}

    with_new_truths = made(client, since="2020-01-01", until="2021-01-01")
    assert with_new_truths.status_code == 409
    assert "no recorded decision" in with_new_truths.json()["detail"]


def test_the_columns_are_the_features_of_the_latest_version(client):
    """An earlier one may have others, the label among them."""
    rng = np.random.default_rng(2)
    rows = [[float(age), float(other), "ab"[i % 2]] for i, (age, other) in enumerate(rng.normal(60, 5, (40, 2)))]
    labels = ["healthy", "ill"] * 20
    earlier = {"features": ["age", "label", "ward"], "rows": rows, "labels": labels}
    trained(client, {"model": "dataset-moved", "learner": {"kind": "logistic"}, "data": earlier})
    instances = [dict(zip(earlier["features"], row, strict=True)) for row in rows]
    body = {"model": "dataset-moved", "instances": instances, "benefits": MATRIX, "record": {"instances": True}}
    answer = client.post("/predict", json=body)
    assert answer.status_code == 200, answer.text
    tell(client, answer.json()["ids"], labels)
    trained(client, {"model": "dataset-moved", "learner": {"kind": "logistic"}, "data": two_class_rows()})

    dataset = made(client, model="dataset-moved")

    assert dataset.status_code == 201, dataset.text
    assert [each["name"] for each in dataset.json()["features"]] == ["age"]
    assert (dataset.json()["rows"], dataset.json()["labels"]) == (40, ["label"])

    body["instances"] = [{"age": 60, "pulse": 70 + i, "pain": None} for i in range(2)]
    tell(client, client.post("/predict", json=body).json()["ids"], labels[:2])
    dataset = made(client, model="dataset-moved")
    assert [each["name"] for each in dataset.json()["features"]] == ["age", "pulse"]


def test_many_rows_are_the_data_set_of_their_values(client):
    """Written some at a time; whole numbers as large as floats hold, missing values, text that looks like a number."""
    rng = np.random.default_rng(5)
    n = 20_000  # more than are written at once
    words = rng.choice(["007", "7", 'é,"\n', "NA"], n).tolist()
    numbers = rng.integers(50, 90, n).tolist()
    rows = [[2.0**53 + 2 * i, number, word] for i, (number, word) in enumerate(zip(numbers, words, strict=True))]
    rows[0], rows[-1] = [None, 60, None], [1.5, None, "NA"]
    labels = ["healthy", "ill"] * (n // 2)
    order = {"features": ["age", "pulse", "pain"], "rows": rows[:400], "labels": labels[:400]}
    trained(client, {"model": "dataset-many", "learner": {"kind": "logistic"}, "data": order})
    body = {"model": "dataset-many", "benefits": MATRIX, "record": {"instances": True}}
    for start in range(0, n, 5_000):
        ids = client.post("/predict", json=body | {"instances": rows[start : start + 5_000]}).json()["ids"]
        tell(client, ids, labels[start : start + 5_000])
    dataset = made(client, model="dataset-many").json()
    age, pulse, pain = zip(*rows, strict=True)
    sink = io.BytesIO()
    pq.write_table(pa.table({"age": pa.array(age), "pulse": pulse, "pain": pain, "label": labels}), sink)
    sent = {"content": sink.getvalue(), "headers": {"Content-Type": "application/vnd.apache.parquet"}}
    plain = client.post("/datasets?label=label", **sent).json()

    assert plain["rows"] == n
    for name in ("rows", "features", "classes", "ignored"):
        assert dataset[name] == plain[name], name


def test_values_that_are_no_longer_of_the_kind_of_the_feature_are_refused(client):
    """An earlier version had words where the latest one has numbers."""
    words = {"features": ["age"], "rows": [["old"], ["young"]] * 20, "labels": ["healthy", "ill"] * 20}
    trained(client, {"model": "dataset-typed", "learner": {"kind": "logistic"}, "data": words})
    body = {"model": "dataset-typed", "instances": words["rows"], "benefits": MATRIX, "record": {"instances": True}}
    tell(client, client.post("/predict", json=body).json()["ids"], words["labels"])
    numbers = words | {"rows": [[60.5], [20.5]] * 20}
    trained(client, {"model": "dataset-typed", "learner": {"kind": "logistic"}, "data": numbers})

    answer = made(client, model="dataset-typed")

    assert answer.status_code == 409
    assert "'age'" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"model": "nobody"}, 404, says("/model", "nobody")),
        ({"since": "soon"}, 422, says("/since", "ISO 8601")),
        ({"name": ""}, 422, says("/name", "1 to 200")),
        ({"label": "x"}, 422, says("/label", "not permitted")),
    ],
)
def test_what_cannot_be_made_is_refused(client, body, status, error):
    answer = made(client, **body)
    assert answer.status_code == status, answer.text
    assert answer.json()["errors"] == [error]


def test_a_data_set_of_selected_truths_says_so(client):
    """Truth is known after one action alone: the data set that is learned from is no fair sample."""
    trained(client, {"model": "dataset-chosen", "learner": {"kind": "logistic"}, "data": two_class_rows()})
    rows = [[20.0 + i, 70.5, "mild"] for i in range(60)]
    for benefits in ([[1, 0], [1, 0]], [[0, 1], [0, 1]]):
        body = {"model": "dataset-chosen", "instances": rows, "benefits": benefits, "record": {"instances": True}}
        ids = client.post("/predict", json=body).json()["ids"]
    tell(client, ids, ["healthy", "ill"] * 30)

    answer = made(client, model="dataset-chosen")
    assert answer.status_code == 201, answer.text
    (warning,) = answer.json()["from"]["warnings"]

    assert warning.startswith("truth is known more often after some actions")


def test_truths_of_days_of_which_many_are_to_come_are_left_out(client, database):
    """The ill are known within the hour, the healthy after three days; the last rows would all be ill."""
    model, now = "dataset-new", time()
    trained(client, {"model": model, "learner": {"kind": "logistic"}, "data": two_class_rows()})
    terms = Terms("predict", model, 1, "expected_benefit", ("healthy", "ill"), ("wait", "treat"), ((0, -1), (-10, 5)))
    rng, known = np.random.default_rng(3), 0
    instance = orjson.dumps({"age": 50.0, "pulse": 70.5, "pain": "mild"}).decode()
    for day in range(day_of(now) - 40, day_of(now)):
        at = DAY * day + 3_600.0
        truths = (rng.random(50) < 0.5).astype(int)
        ids = decided(database, 50, terms=terms, at=at, instance=instance)
        for truth, lag in ((1, 600.0), (0, 3 * DAY)):
            some = [id_ for id_, own in zip(ids, truths.tolist(), strict=True) if own == truth and at + lag < now]
            told(database, some, [truth] * len(some), terms=terms, day=day, received_at=at + lag)
            known += len(some)

    found = made(client, model=model).json()["from"]

    (warning,) = found["warnings"]
    assert "still to come" in warning
    assert 0 < found["rows"] < known
    assert found["rows"] + found["left_out"]["without_truth"] == 2_000
