"""`POST /retrieve` over real HTTP: settings, forms of bodies and answers, models, and every way to get it wrong."""

import json

import httpx
import numpy as np
import pytest

from tests.api.column_bodies import npy
from tests.conftest import trained

NPY = "application/x-npy"
F1 = {"name": "f_beta"}
RAGGED = [[0.9, 0.4, 0.35], [], [0.6, 0.45, 0.4, 0.1], [0.2]]


def test_the_loss_curve_as_a_chart(service):
    """With the set that was chosen; the curve need not be asked for."""
    asked = {"probabilities": RAGGED, "setting": "multilabel", "loss": F1}
    chart = service.post("/retrieve", json=asked, headers={"Accept": "image/svg+xml"})
    first = service.post("/retrieve", json=asked).json()["sets"][0]

    assert (chart.headers["content-type"], chart.headers["vary"]) == (
        "image/svg+xml",
        "Accept",
    )
    assert chart.text.count("<path ") == len(RAGGED)
    assert (
        f"retrieved: {first['k']} of 3 items, {first['expected_loss']:.3g}"
        in chart.text
    )


def ask(service: httpx.Client, **question: object) -> httpx.Response:
    return service.post("/retrieve", json={"setting": "binary", "loss": F1, **question})


def sets(service: httpx.Client, **question: object) -> list[dict]:
    response = ask(service, **question)
    assert response.status_code == 200, response.text
    return response.json()["sets"]


@pytest.fixture(scope="module")
def topics(service: httpx.Client) -> str:
    """A trained model of three labels on a number and a category, with a hold-out."""
    rng = np.random.default_rng(0)
    length, tone = rng.normal(size=160), rng.choice(["calm", "loud"], 160)
    applies = np.column_stack(
        (length > 0, (tone == "loud") | (length > 1), length < -0.5)
    )
    applies ^= rng.random((160, 3)) < 0.1
    names = np.array(["long", "noisy", "short"])
    data = {
        "features": ["length", "tone"],
        "rows": [
            [number, word]
            for number, word in zip(
                length.round(3).tolist(), tone.tolist(), strict=True
            )
        ],
        "labels": [names[row].tolist() for row in applies],
    }
    trained(
        service,
        {
            "model": "topics",
            "learner": {"kind": "multilabel_logistic"},
            "data": data,
            "holdout": 0.3,
        },
    )
    return "topics"


TEXTS = [[1.5, "loud"], [-1.2, "calm"], [0.1, None]]


def post(
    service: httpx.Client,
    content: bytes,
    kind: str,
    accept: str = "*/*",
    **query: object,
) -> httpx.Response:
    asked = {"setting": "multilabel", "loss": F1, **query}
    params = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in asked.items()
    }
    return service.post(
        "/retrieve",
        params=params,
        content=content,
        headers={"Content-Type": kind, "Accept": accept},
    )


def test_numpy_gives_the_same_answer_as_json(service):
    """A set, and a set in each row."""
    P = np.random.default_rng(0).random((7, 5))
    for given in (P, P[0]):
        plainly = sets(
            service, setting="multilabel", probabilities=given.tolist(), curve=True
        )
        assert post(service, npy(given), NPY, curve=True).json()["sets"] == plainly
    assert (
        post(service, npy(P[None]), NPY).json()["errors"][0]["loc"] == "/probabilities"
    )


def test_marginals_are_the_probabilities_that_were_used(service, topics, ward):
    """In every setting; for a model in the order of its labels."""
    for given in (RAGGED, [0.9, 0.2, 0.4], []):
        plainly = sets(
            service, setting="multilabel", probabilities=given, marginals=True
        )
        assert [one["marginals"] for one in plainly] == (
            given if given is RAGGED else [given]
        )

    asked = {"setting": "multilabel", "model": topics, "instances": TEXTS}
    answer = ask(service, **asked, marginals=True).json()
    again = sets(
        service,
        setting="multilabel",
        probabilities=[one["marginals"] for one in answer["sets"]],
    )
    names = [[answer["labels"][i] for i in one["selected"]] for one in again]
    assert [one["selected"] for one in answer["sets"]] == names
    assert "marginals" not in ask(service, **asked).json()["sets"][0]
    (one,) = sets(
        service, model=ward, instances=[[70, 88, "strong"]] * 2, marginals=True
    )
    assert len(one["marginals"]) == 2


def test_two_classes_make_one_set_of_the_instances(service, ward):
    """The probability of the second class decides, or of the one that is named."""
    rows = [[70, 88, "strong"], [30, 60, "mild"], [55, None, "mild"]]
    asked = {"model": ward, "instances": rows, "rule": "most_probable"}
    P = np.array(service.post("/predict", json=asked).json()["probabilities"])
    for positive, column in (
        ({}, 1),
        ({"positive": "ill"}, 1),
        ({"positive": "healthy"}, 0),
    ):
        answer = ask(service, model=ward, instances=rows, **positive).json()
        ((found,), (expected,)) = (
            answer["sets"],
            sets(service, probabilities=P[:, column].tolist()),
        )
        assert found.pop("selected") == expected.pop("selected")
        assert found == pytest.approx(expected, abs=found["error_bound"])
        assert answer["model"] == {"name": "ward", "version": 1}
        assert answer["positive"] == ["healthy", "ill"][column]
    assert sets(service, model=ward, instances=[])[0]["selected"] == []


def test_sets_of_instances_for_any_class_or_label(service, ward, topics):
    """Of one label that is named, or with `average` of each, over all instances: as of the columns of probabilities."""
    for model, setting, rows in (
        (topics, "multilabel", TEXTS),
        (ward, "multiclass", [[70, 88, "strong"]] * 3),
    ):
        asked = {"model": model, "instances": rows, "loss": {"name": "mcc"}, "k_max": 2}
        marginals = [
            one["marginals"]
            for one in sets(service, **asked, setting=setting, marginals=True)
        ]
        answer = ask(service, **asked, setting=setting, average="macro").json()
        given = {"loss": asked["loss"], "k_max": 2}
        for place, label in enumerate(answer["labels"]):
            column = [row[place] for row in marginals]
            (one,) = sets(service, **given, probabilities=column)
            (named,) = sets(service, **asked, positive=label)
            for found in (answer["sets"][place], named):
                assert found["selected"] == one["selected"]
                assert found["expected_loss"] == pytest.approx(
                    one["expected_loss"], abs=1e-12
                )
        again = ask(
            service, **given, setting=setting, average="macro", probabilities=marginals
        ).json()
        assert (again["sets"], again["average"]) == (answer["sets"], "macro")
        assert "correction" not in answer
    ragged = ask(service, setting="multilabel", average="macro", probabilities=RAGGED)
    assert ragged.json()["errors"][0]["loc"] == "/probabilities/1"


def test_classes_and_labels_of_a_model_are_named(service, ward, topics):
    """Every instance has its own set, of the model's classes (multiclass) or labels (multilabel)."""
    rows = [[70, 88, "strong"], [30, 60, "mild"]]
    answer = ask(
        service, setting="multiclass", model=ward, instances=rows, k_min=2
    ).json()
    assert (
        [sorted(found["selected"]) for found in answer["sets"]]
        == [answer["labels"]] * 2
        == [["healthy", "ill"]] * 2
    )
    answer = ask(service, setting="multilabel", model=topics, instances=TEXTS).json()
    assert answer["labels"] == ["long", "noisy", "short"]
    assert answer["sets"][1]["selected"] == ["short"]
    unseen = ask(
        service, setting="multilabel", model=topics, instances=[[0.1, "shrill"]]
    ).json()
    assert unseen["sets"][0] == answer["sets"][2]
    assert "'shrill'" in unseen["warnings"][0]


def test_predict_and_benefit_reject_a_model_of_several_labels(service, topics):
    """Actions are for exclusive classes: the answer says where to ask instead."""
    question = {
        "model": topics,
        "instances": TEXTS,
        "benefits": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    }
    for path, body in (
        ("/predict", question),
        (f"/models/{topics}/benefit", {"benefits": question["benefits"]}),
    ):
        response = service.post(path, json=body)
        assert (response.status_code, "/retrieve" in response.json()["detail"]) == (
            422,
            True,
        )


def test_no_rows_of_classes_give_no_sets(service):
    """In every form alike; of independent items an empty list is a set."""
    assert sets(service, setting="multiclass", probabilities=[]) == []
    for shape, others in ((0, 1), ((0, 3), 0)):
        body = npy(np.empty(shape))
        assert [one["selected"] for one in post(service, body, NPY).json()["sets"]] == [
            []
        ] * others
        assert post(service, body, NPY, setting="multiclass").json()["sets"] == []


def test_an_array_of_sets_without_items_is_refused(service):
    """128 bytes stated a million of them, and were answered with 137 MB."""
    (flaw,) = post(service, npy(np.empty((1_000_000, 0))), NPY).json()["errors"]

    assert flaw["loc"] == "/probabilities"
    assert "[1000000, 0]; each set must have an item" in flaw["msg"]
