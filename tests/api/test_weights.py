"""Row weights over HTTP: a sample that has too few of one class, and weights that make it fair."""

import numpy as np
import pytest

from tests.conftest import trained

BENEFITS = [[0, -1], [-4, 2]]


def sample(n=240, seed=0):
    """Rows of a population whose class 1 has the share 1/4, one in two of it drawn: weight 2; and class 0, all."""
    random = np.random.default_rng(seed)
    y = (random.random(n) < 1 / 7).astype(int)
    rows = (random.normal(size=(n, 2)) + y[:, None]).round(2)
    return {
        "features": ["a", "b"],
        "rows": rows.tolist(),
        "labels": y.tolist(),
        "weights": np.where(y == 1, 2.0, 1.0).tolist(),
    }


@pytest.fixture(scope="module")
def weighted(service):
    data = sample()
    order = {"model": "weighty", "learner": {"kind": "logistic"}, "data": data}
    return trained(service, order | {"benefits": BENEFITS}), data


def test_a_model_of_weighted_rows_counts_them_everywhere(service, weighted):
    """The card's priors, the evaluation and the curve are those of the rows repeated as often as they weigh."""
    job, data = weighted
    y = np.array(data["labels"])
    share = 2 * y.sum() / (2 * y.sum() + (1 - y).sum())
    version = job["model"]["version"]
    card = service.get(f"/models/weighty/versions/{version}").json()
    report = service.post("/models/weighty/benefit", json={"benefits": BENEFITS}).json()
    unweighted = data | {"weights": None}
    order = {"model": "weightless", "learner": {"kind": "logistic"}, "data": unweighted}
    trained(service, order)
    means = []
    for model in ("weighty", "weightless"):
        question = {"model": model, "instances": data["rows"], "benefits": BENEFITS}
        answer = service.post("/predict", json=question).json()
        means.append(np.mean(answer["probabilities"], axis=0)[1])

    assert card["class_priors"]["1"] == pytest.approx(share)
    assert report["priors"]["1"] == pytest.approx(share)
    assert card["metrics"]["benefit"] == pytest.approx(
        report["expected_benefit"]["benefit"]
    )
    assert card["ignored"] == ["weight of the row"]
    assert means[0] > means[1] + 0.05


def test_probabilities_with_weights_earn_what_repeated_rows_earn(service):
    random = np.random.default_rng(1)
    p = random.random(80).round(3)
    y = (random.random(80) < p).astype(int)
    weights = random.integers(1, 4, 80)
    rows = np.repeat(np.arange(80), weights)
    questions = [
        {
            "probabilities": [[1 - q, q] for q in p[index].tolist()],
            "classes": [0, 1],
            "labels": y[index].tolist(),
            "benefits": BENEFITS,
            "points": 5,
        }
        for index in (np.arange(80), rows)
    ]
    questions[0]["weights"] = weights.tolist()
    weighted, repeated = (service.post("/benefit", json=q).json() for q in questions)
    assert weighted["curve"] == [
        {name: pytest.approx(value) for name, value in point.items()}
        for point in repeated["curve"]
    ]
    for one, other in zip(weighted["rules"], repeated["rules"], strict=True):
        if not one["cross_validated"]:
            assert one["benefit"] == pytest.approx(other["benefit"])
            width = np.ptp(one["interval"])
            assert width > 1.1 * np.ptp(other["interval"])


@pytest.mark.parametrize(
    ("weights", "place"),
    [
        ([1, 1, 1], "/weights"),
        ([1, 0, 1, 1], "/weights/1"),
        ([1, 1, -1, 1], "/weights/2"),
        ([1, 1, 1, 1e9], "/weights/3"),
        ([1, 1, "1", 1], "/weights/2"),
    ],
)
def test_what_is_no_weight_is_refused_at_its_place(service, weights, place):
    question = {
        "probabilities": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]],
        "classes": [0, 1],
        "labels": [0, 1, 1, 1],
        "benefits": BENEFITS,
    }
    response = service.post("/benefit", json=question | {"weights": weights})
    assert response.status_code == 422
    assert response.json()["errors"][0]["loc"] == place
    order = {
        "model": "refused",
        "learner": {"kind": "logistic"},
        "data": {
            "features": ["x"],
            "rows": [[1], [2], [3], [4]],
            "labels": [0, 1, 1, 0],
            "weights": weights,
        },
    }
    response = service.post("/train", json=order)
    assert response.status_code == 422
    assert response.json()["errors"][0]["loc"] == f"/data{place}"


def test_learners_are_compared_on_weighted_rows(service):
    """An upload with a column of weights: `same_for_all` takes the action that is best with them."""
    data = sample()
    lines = ["a,b,w,y"]
    lines += [
        f"{a},{b},{w},{y}"
        for (a, b), w, y in zip(
            data["rows"], data["weights"], data["labels"], strict=True
        )
    ]
    dataset = service.post(
        "/datasets",
        files={"file": ("t.csv", "\n".join(lines).encode())},
        data={"label": "y", "types": '{"w": "weight"}'},
    ).json()
    y = np.array(data["labels"])
    w = np.array(data["weights"])
    order = {
        "dataset": dataset["id"],
        "learners": [{"kind": "logistic"}],
        "benefits": BENEFITS,
        "folds": 2,
    }
    job = service.post("/compare", json=order, headers={"Prefer": "wait=60"}).json()
    table = job["result"]["table"]
    same = next(row for row in table if row["rule"] == "same_for_all")
    means = [np.average(np.array(BENEFITS)[y, a], weights=w) for a in (0, 1)]
    assert same["benefit"] == pytest.approx(max(means))
    assert dataset["columns"][2]["type"] == "weight"


def test_scores_are_calibrated_on_weighted_rows(service):
    random = np.random.default_rng(3)
    y = random.integers(0, 2, 120)
    scores = (random.normal(size=120) + y).round(2)
    order = {
        "model": "calibrated-weights",
        "scores": scores.tolist(),
        "labels": y.tolist(),
        "classes": [0, 1],
        "weights": np.where(y == 1, 3.0, 1.0).tolist(),
        "holdout": 0,
    }
    job = service.post("/calibrate", json=order, headers={"Prefer": "wait=60"}).json()
    version = job["model"]["version"]
    card = service.get(f"/models/calibrated-weights/versions/{version}").json()
    share = 3 * y.sum() / (3 * y.sum() + (1 - y).sum())
    assert card["class_priors"]["1"] == pytest.approx(share)
    order["weights"][5] = 0
    response = service.post("/calibrate", json=order)
    assert response.json()["errors"][0]["loc"] == "/weights/5"


def test_no_guarantee_is_made_on_rows_of_unequal_weights(service, weighted):
    limit = {"action": "treat", "otherwise": "wait", "wrong": ["0"], "at_most": 0.3}
    body = {"benefits": BENEFITS, "actions": ["wait", "treat"], "guarantee": limit}
    response = service.post("/models/weighty/benefit", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["loc"] == "/guarantee"
