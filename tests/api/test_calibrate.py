"""Scores of another system become a model that takes scores for instances."""

import numpy as np
import pytest

from tests.messages import says

N = 300
BENEFITS = {"clean": {"keep": 0, "drop": -5}, "spam": {"keep": -1, "drop": 1}}


def scored(n=N, seed=0):
    """Log-odds of the class `clean`, off by a factor of 2, and labels."""
    rng = np.random.default_rng(seed)
    s = rng.normal(0, 2, n)
    clean = rng.random(n) < 1 / (1 + np.exp(-s / 2))
    return s.round(3).tolist(), ["clean" if one else "spam" for one in clean]


def order(**changes):
    scores, labels = scored()
    body = {
        "model": "mails",
        "scores": scores,
        "classes": ["spam", "clean"],
        "labels": labels,
    } | changes
    return {name: value for name, value in body.items() if value is not ...}


def calibrated(service, body):
    response = service.post("/calibrate", json=body, headers={"Prefer": "wait=60"})
    assert response.status_code == 200, response.text
    assert response.json()["status"] == "succeeded", response.json()
    return response.json()


@pytest.fixture(scope="module")
def mails(service):
    return calibrated(service, order())


def test_the_model_takes_scores_and_keeps_the_order_of_the_classes(service, mails):
    version = f"mails:{mails['model']['version']}"
    body = {
        "model": version,
        "instances": [[-6], [0.3], [6]],
        "benefits": BENEFITS,
        "explain": True,
    }
    answer = service.post("/predict", json=body).json()
    assert answer["classes"] == ["spam", "clean"]
    assert answer["decisions"][::2] == ["drop", "keep"]
    clean = [row[1] for row in answer["probabilities"]]
    np.testing.assert_allclose(
        clean, 1 / (1 + np.exp(-np.array([-3, 0.15, 3]))), atol=0.08
    )
    assert len(answer["explanations"]) == 3
    named = {
        "model": version,
        "instances": [{"score": 6}],
        "benefits": BENEFITS,
        "limits": {"drop": 0},
    }
    assert service.post("/predict", json=named).json()["decisions"] == ["keep"]


def test_an_absurd_score_or_none_is_answered_safely(service, mails):
    far = {"model": "mails", "instances": [[1e300], [-1e300]], "benefits": BENEFITS}
    answer = service.post("/predict", json=far).json()
    assert np.min(answer["probabilities"]) >= 1 / (N + 2) - 1e-12
    assert any("score" in warning for warning in answer["warnings"])
    none = service.post(
        "/predict",
        json={"model": "mails", "instances": [[0.1], [None]], "benefits": BENEFITS},
    )
    assert none.status_code == 422
    assert none.json()["errors"] == [says("/instances/1", "no probabilities")]


def test_probabilities_of_three_classes_that_are_integers(service):
    rng = np.random.default_rng(1)
    P = rng.dirichlet([1, 1, 1], 200)
    y = (rng.random(200)[:, None] > P.cumsum(axis=1)).sum(axis=1)
    classes = [30, 10, 20]
    body = order(
        scores=...,
        model="three",
        probabilities=P.tolist(),
        classes=classes,
        labels=[classes[k] for k in y],
    )
    calibrated(service, body)
    request = {
        "model": "three",
        "instances": [
            {"30": 0.8, "10": 0.1, "20": 0.1},
            {"10": 0.9, "20": 0.1, "30": 0},
        ],
    }
    answer = service.post("/predict", json=request | {"rule": "most_probable"}).json()
    assert answer["classes"] == classes
    assert answer["decisions"] == [30, 10]
    wrong = service.post(
        "/predict",
        json=request | {"instances": [[0.8, 0.8, 0.1]], "rule": "most_probable"},
    )
    assert wrong.json()["errors"] == [says("/instances/0", "no probabilities")]


def test_scores_that_rank_well_are_taken_whatever_their_means(service):
    """Eight rows of the second class have a mark in place of a score; the classes are booleans."""
    rng = np.random.default_rng(3)
    ill = rng.random(300) < 0.3
    s = rng.normal(size=300) + 2 * ill
    s[np.flatnonzero(ill)[:8]] = -999
    assert s[ill].mean() < s[~ill].mean()
    body = order(
        model="marked",
        scores=s.tolist(),
        classes=[False, True],
        labels=ill.tolist(),
        holdout=0,
    )
    assert not any(
        "rank" in warning for warning in calibrated(service, body)["warnings"]
    )
    request = {
        "model": "marked",
        "instances": [[-2], [3], [-999]],
        "rule": "most_probable",
    }
    answer = service.post("/predict", json=request).json()
    assert (answer["classes"], answer["decisions"][:2]) == ([0, 1], [0, 1])
    unclear = order(
        model="unclear",
        scores=[1, 2, 3, 4, 1, 2, 4, 3],
        labels=["spam", "clean"] * 4,
        holdout=0,
    )
    assert any(
        "hardly rank" in warning for warning in calibrated(service, unclear)["warnings"]
    )
