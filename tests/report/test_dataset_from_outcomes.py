"""Recorded instances and their truth become a data set, with its lineage."""

from dataclasses import replace

import numpy as np
import orjson
import pytest

from app.outcomes.decision import Terms
from tests.conftest import trained, two_class_rows
from tests.outcomes.records import decided
from tests.report.outcome_worlds import recorded_with_late_truths

MATRIX = [[0, -1], [-10, 5]]


@pytest.fixture(scope="module")
def client(service):
    learned(service, "dataset-ward")
    return service


def recorded(
    client, rows, truths=(), model="dataset-ward", *, instances=True, benefits=MATRIX
):
    """The ids of decisions about these rows, of which the first have a known truth."""
    body = {
        "model": model,
        "instances": rows,
        "benefits": benefits,
        "record": {"instances": instances},
    }
    answer = client.post("/predict", json=body)
    assert answer.status_code == 200, answer.text
    tell(client, answer.json()["ids"][: len(truths)], truths)
    return answer.json()["ids"]


def tell(client, ids, truths):
    outcomes = [
        {"id": id_, "truth": truth} for id_, truth in zip(ids, truths, strict=True)
    ]
    assert not ids or client.post("/outcomes", json={"outcomes": outcomes}).json()[
        "accepted"
    ] == len(ids)


def learned(client, model, **data):
    trained(
        client,
        {
            "model": model,
            "learner": {"kind": "logistic"},
            "data": data or two_class_rows(),
        },
    )


def terms_of(model):
    return Terms(
        "predict",
        model,
        1,
        "expected_benefit",
        ("healthy", "ill"),
        ("wait", "treat"),
        ((0, -1), (-10, 5)),
    )


def made(client, **body):
    return client.post("/datasets/from-outcomes", json={"model": "dataset-ward"} | body)


def test_instances_with_their_truth_are_a_data_set_to_train_on(client, database):
    refused = made(client)
    assert refused.status_code == 409
    rows = [[50.0 + i, 70.5, ("mild", "strong", "new word")[i % 3]] for i in range(8)]
    rows[3][0] = None
    recorded(client, rows, ["healthy", "ill"] * 3)
    recorded(client, rows[:3], ["ill"] * 3, instances=False)
    partly = replace(terms_of("dataset-ward"), verb="acquire")
    asked = decided(
        database, 1, terms=partly, instance=orjson.dumps({"age": 3}).decode()
    )
    tell(client, asked, ["ill"])

    answer = made(client, name="dataset-seen")
    assert answer.status_code == 201, answer.text
    dataset = answer.json()
    assert dataset["from"] == {
        "model": "dataset-ward", "versions": [1], "since": None, "until": None, "rows": 6,
        "left_out": {"without_instance": 3, "without_truth": 2, "of_acquire": 1, "of_other_action": 0}, "warnings": [],
    }  # fmt: skip
    assert [(each["name"], each["type"]) for each in dataset["features"]] == [
        ("age", "numeric"), ("pulse", "numeric"), ("pain", "categorical")
    ]  # fmt: skip
    assert (dataset["rows"], dataset["labels"], dataset["classes"]) == (
        6,
        ["label"],
        ["healthy", "ill"],
    )
    assert client.get(answer.headers["location"]).json() == dataset
    moments = dataset["columns"][-1]
    assert dataset["kept"] == [moments["name"]] == ["decided_at"]
    assert (moments["form"], moments["missing"]) == ("date", 0)
    assert client.get("/datasets/dataset-seen").json()["id"] == dataset["id"]
    order = {
        "learner": {"kind": "logistic"},
        "data": {"dataset": "dataset-seen"},
        "holdout": 0,
    }
    again = order | {"model": "dataset-ward"}
    assert trained(client, again)["model"] == {"name": "dataset-ward", "version": 2}

    with_new_truths = made(client, since="2020-01-01", until="2021-01-01")
    assert with_new_truths.status_code == 409
    assert "no recorded decision" in with_new_truths.json()["detail"]


def test_the_columns_are_the_features_of_the_latest_version(client):
    """An earlier one may have others, the label among them."""
    rng = np.random.default_rng(2)
    rows = [
        [float(age), float(other), "ab"[i % 2]]
        for i, (age, other) in enumerate(rng.normal(60, 5, (40, 2)))
    ]
    labels = ["healthy", "ill"] * 20
    earlier = {"features": ["age", "label", "ward"], "rows": rows, "labels": labels}
    learned(client, "dataset-moved", **earlier)
    recorded(client, rows, labels, "dataset-moved")
    learned(client, "dataset-moved")

    dataset = made(client, model="dataset-moved")

    assert dataset.status_code == 201, dataset.text
    assert [each["name"] for each in dataset.json()["features"]] == ["age"]
    assert (dataset.json()["rows"], dataset.json()["labels"]) == (40, ["label"])

    recorded(
        client,
        [{"age": 60, "pulse": 70 + i, "pain": None} for i in range(2)],
        labels[:2],
        "dataset-moved",
    )
    dataset = made(client, model="dataset-moved")
    assert [each["name"] for each in dataset.json()["features"]] == ["age", "pulse"]


def test_dates_that_cannot_be_shown_and_other_spellings_are_those_of_training(client):
    """A number of days may be anything; of a category the data set has one spelling."""
    words = [
        [f"2026-01-{i % 28 + 1:02}", ("True", "False", "7", "u")[i % 4]]
        for i in range(40)
    ]
    data = {
        "features": ["day", "mark"],
        "rows": words,
        "labels": ["healthy", "ill"] * 20,
    }
    learned(client, "dataset-days", **data)
    rows = [
        [1e9, True],
        [-1e300, "true"],
        ["2026-02-01", 7],
        [20480, "7.0"],
        [None, "FALSE"],
    ]
    recorded(client, rows, ["healthy", "ill", "ill", "healthy", "ill"], "dataset-days")

    dataset = made(client, model="dataset-days")

    assert dataset.status_code == 201, dataset.text
    days, marks, *_ = dataset.json()["columns"]
    assert days["examples"] == ["-1e+300", "2026-02-01", "1000000000"]
    assert (sorted(marks["examples"]), marks["distinct"]) == (["7", "False", "True"], 3)


def test_values_that_are_no_longer_of_the_kind_of_the_feature_are_refused(client):
    """An earlier version had words where the latest one has numbers."""
    words = {
        "features": ["age"],
        "rows": [["old"], ["young"]] * 20,
        "labels": ["healthy", "ill"] * 20,
    }
    learned(client, "dataset-typed", **words)
    recorded(client, words["rows"], words["labels"], "dataset-typed")
    learned(client, "dataset-typed", **words | {"rows": [[60.5], [20.5]] * 20})

    answer = made(client, model="dataset-typed")

    assert answer.status_code == 409
    assert "'age'" in answer.json()["detail"]


def test_a_data_set_of_selected_truths_says_so(client):
    """Truth is known after one action alone: the data set that is learned from is no fair sample."""
    learned(client, "dataset-chosen")
    rows = [[20.0 + i, 70.5, "mild"] for i in range(60)]
    for benefits, truths in (
        ([[1, 0], [1, 0]], []),
        ([[0, 1], [0, 1]], ["healthy", "ill"] * 30),
    ):
        recorded(client, rows, truths, "dataset-chosen", benefits=benefits)

    answer = made(client, model="dataset-chosen")
    assert answer.status_code == 201, answer.text
    (warning,) = answer.json()["from"]["warnings"]

    assert warning.startswith("truth is known more often after some actions")


def test_weights_make_truths_that_exploration_reached_a_fair_sample(client):
    """Truth is known after the treatment alone, and some are treated at random: 1 / P(known) counts the
    rows of those who would not be treated as often as they occur.
    """
    model = "dataset-explored"
    learned(client, model)
    rows = [[20.0 + i, 70.5, "mild"] for i in range(200)]
    body = {"model": model, "instances": rows, "explore": 0.5}
    ids = []
    for benefits in ([[1, 0], [1, 0]], [[0, 1], [0, 1]]):
        order = body | {"benefits": benefits, "record": {"instances": True}}
        answer = client.post("/predict", json=order).json()
        treated = [
            i for i, d in enumerate(answer["decisions"]) if d == answer["actions"][1]
        ]
        ids.append([answer["ids"][i] for i in treated])
        tell(
            client,
            ids[-1],
            ["healthy", "ill"] * (len(treated) // 2) + ["ill"] * (len(treated) % 2),
        )

    dataset = made(client, model=model).json()
    (warning,) = dataset["from"]["warnings"]
    columns = {column["name"]: column for column in dataset["columns"]}

    assert "rows have the weight 1 / P(their truth became known)" in warning
    assert "0 weights are capped at 100" in warning
    assert dataset["rows"] == len(ids[0]) + len(ids[1])
    assert columns["truth_weight"]["type"] == "weight"
    # Of the untreated one in four became known, of the treated three in four.
    weights = [float(text) for text in columns["truth_weight"]["examples"]]
    assert sorted(weights) == pytest.approx([4 / 3, 4], rel=0.01)
    job = trained(
        client,
        {
            "model": "dataset-weighed",
            "learner": {"kind": "logistic"},
            "data": {"dataset": dataset["id"]},
        },
    )
    assert job["status"] == "succeeded"


def test_truths_of_days_of_which_many_are_to_come_are_left_out(client, database):
    model = "dataset-new"
    learned(client, model)
    instance = orjson.dumps({"age": 50.0, "pulse": 70.5, "pain": "mild"}).decode()
    known = recorded_with_late_truths(database, terms_of(model), instance)

    dataset = made(client, model=model).json()
    found = dataset["from"]
    assert dataset["rows"] == found["rows"]  # of all days

    (warning,) = found["warnings"]
    assert "still to come" in warning
    assert 0 < found["rows"] < known
    assert found["rows"] + found["left_out"]["without_truth"] == 2_000
