"""Probabilities of any system take the place of a model and instances."""

import numpy as np
import pytest

from tests.conftest import two_class_rows

CLASSES = ["healthy", "ill"]
BENEFITS = [[0, -1], [-10, 5]]
RULES = [
    {},
    {"rule": "most_probable", "benefits": None, "actions": None},
    {"rule": "threshold"},
    {"rule": "threshold", "threshold": 0.5},
    {"rule": "hierarchical", "benefits": None, "actions": None, "costs": {"majority": "healthy", "C_HD": 4, "C_DH": 1}},
]


def test_decisions_are_those_of_a_model_with_these_probabilities(service, ward):
    rows = two_class_rows(30)["rows"]
    for rule in RULES:
        asked = {"benefits": BENEFITS, "actions": ["wait", "treat"]} | rule
        by_model = service.post("/predict", json={"model": ward, "instances": rows} | asked).json()
        given = {"probabilities": by_model["probabilities"], "classes": by_model["classes"]}
        answer = service.post("/predict", json=given | asked)
        assert answer.status_code == 200, answer.text
        del by_model["model"]
        assert answer.json() == by_model


def test_the_report_judges_the_rows_that_were_sent(service):
    rng = np.random.default_rng(2)
    p = rng.random(400)
    ill = rng.random(400) < p
    P, B = np.column_stack([1 - p, p]), np.array(BENEFITS, dtype=float)
    asked = {"probabilities": P.tolist(), "classes": CLASSES, "labels": np.where(ill, "ill", "healthy").tolist()}
    asked |= {"benefits": BENEFITS}
    priors = {"healthy": 0.99, "ill": 0.01}
    report, swapped, shifted = (
        service.post("/benefit", json=asked | more).json()
        for more in ({"actions": ["wait", "treat"]}, {"classes": CLASSES[::-1]}, {"priors": priors})
    )
    chart = service.post("/benefit", json=asked, headers={"Accept": "image/svg+xml"}).text

    assert ("model" in report, report["rows"], report["actions"]) == (False, 400, ["wait", "treat"])
    assert report["expected_benefit"]["benefit"] == pytest.approx(B[ill.astype(int), (P @ B).argmax(axis=1)].mean())
    told = [any("in the order of 'classes'" in warning for warning in one["warnings"]) for one in (report, swapped)]
    assert told == [False, True]
    assert shifted["priors"] == priors
    assert chart.startswith("<svg")
    assert "the probabilities sent" in chart
