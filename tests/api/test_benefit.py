"""`POST /models/{ref}/benefit` over real HTTP."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import trained, two_class_rows

BENEFITS = [[0, -1], [-10, 5]]


def test_two_classes(service, ward):
    """The best threshold beats every point of the curve and both rules, and mu is its share of the bound."""
    report = service.post(f"/models/{ward}/benefit", json={"benefits": BENEFITS, "points": 51}).json()

    assert len(report["curve"]) == 51
    assert report["benefit"] >= max(point["benefit"] for point in report["curve"])
    assert report["benefit"] >= report["expected_benefit"]["benefit"] - 1e-12
    assert report["benefit"] >= report["cost_blind"]["benefit"] - 1e-12
    assert report["mu"] == pytest.approx(report["benefit"] / report["upper_bound"])
    assert report["upper_bound"] == pytest.approx(5 * report["priors"]["ill"])
    assert report["posterior_threshold"] == pytest.approx(1 / 16)
    assert np.sum(report["confusion"]) == report["rows"] == np.sum(report["cost_blind"]["confusion"])


def test_the_benefit_follows_from_the_confusion_matrix(service, ward):
    report = service.post(f"/models/{ward}/benefit", json={"benefits": BENEFITS}).json()

    for rule in (report, report["expected_benefit"], report["cost_blind"]):
        earned = np.sum(np.array(rule["confusion"]) * np.array(BENEFITS)) / report["rows"]
        assert rule["benefit"] == pytest.approx(earned)


def test_more_actions_than_classes(service, ward):
    """Without thresholds, any number of actions."""
    report = service.post(f"/models/{ward}/benefit", json={"benefits": [[0, -1, -0.5], [-10, 5, 3]]}).json()

    assert report["threshold"] is None
    assert report["curve"] is None
    assert np.shape(report["confusion"]) == (2, 3)


def test_priors_reweigh(service, ward):
    """With all the weight on one class, the bound and the benefit are that class's alone."""
    body = {"benefits": BENEFITS, "priors": {"healthy": 0.0, "ill": 1.0}}
    report = service.post(f"/models/{ward}/benefit", json=body).json()

    assert report["upper_bound"] == 5
    assert report["benefit"] == pytest.approx(5)
    assert report["mu"] == pytest.approx(1)


def test_a_bound_that_is_not_positive_has_no_mu(service, ward):
    report = service.post(f"/models/{ward}/benefit", json={"benefits": [[0, -1], [-5, 0]]}).json()

    assert report["upper_bound"] == 0
    assert report["mu"] is None
    assert any("bound" in warning for warning in report["warnings"])


def test_three_classes(service):
    data = two_class_rows(150)
    data["labels"] = [i % 3 for i in range(150)]
    trained(service, {"model": "three", "learner": {"kind": "cost_naive_bayes"}, "data": data})
    report = service.post("/models/three/benefit", json={"benefits": [[2, -1, 0], [0, 1, 0], [-3, 0, 4]]}).json()

    assert report["classes"] == [0, 1, 2]
    assert np.shape(report["confusion"]) == (3, 3)
    assert report["benefit"] == report["expected_benefit"]["benefit"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"benefits": [[1, 2]]}, "/benefits"),
        ({"benefits": [[1, 2], [3]]}, "/benefits/1"),
        ({"benefits": []}, "/benefits"),
        ({"benefits": [BENEFITS]}, "/benefits/0/0"),
        ({}, "/benefits"),
        ({"benefits": BENEFITS, "points": 1}, "/points"),
        ({"benefits": BENEFITS, "priors": {"ill": 1}}, "/priors"),
    ],
)
def test_bad_input(service, ward, body, place):
    response = service.post(f"/models/{ward}/benefit", json=body)

    assert response.status_code == 422
    assert place in [flaw["loc"] for flaw in response.json()["errors"]]


def test_unknown_model(service):
    assert service.post("/models/nobody/benefit", json={"benefits": BENEFITS}).status_code == 404
