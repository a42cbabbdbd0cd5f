"""Probabilities of any system take the place of a model and instances."""

from __future__ import annotations

import numpy as np
import pytest

from tests.api.column_bodies import npy
from tests.conftest import two_class_rows

CLASSES = ["healthy", "ill"]
P = [[0.9, 0.1], [0.4, 0.6], [0.05, 0.95]]
BENEFITS = [[0, -1], [-10, 5]]
ASKED = {"probabilities": P, "classes": CLASSES, "benefits": BENEFITS, "actions": ["wait", "treat"]}
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


def test_rows_that_do_not_sum_to_1_are_refused(service):
    asked = ASKED | {"probabilities": [[9, 1], [0.2, 0.3]]}
    refused = service.post("/predict", json=asked)
    assert [error["loc"] for error in refused.json()["errors"]] == ["/probabilities/0", "/probabilities/1"]
    assert "sum to 10" in refused.text


def test_the_report_judges_the_rows_that_were_sent(service):
    rng = np.random.default_rng(2)
    p = rng.random(400)
    ill = rng.random(400) < p
    P, B = np.column_stack([1 - p, p]), np.array(BENEFITS, dtype=float)
    asked = {"probabilities": P.tolist(), "classes": CLASSES, "labels": np.where(ill, "ill", "healthy").tolist()}
    asked |= {"benefits": BENEFITS}

    def reported(headers=None, **more):
        return service.post("/benefit", json=asked | more, headers=headers)

    report, swapped = reported(actions=["wait", "treat"]).json(), reported(classes=CLASSES[::-1]).json()
    shifted = reported(priors={"healthy": 0.99, "ill": 0.01}).json()
    chart = reported({"Accept": "image/svg+xml"}).text

    assert ("model" in report, report["rows"], report["actions"]) == (False, 400, ["wait", "treat"])
    assert report["expected_benefit"]["benefit"] == pytest.approx(B[ill.astype(int), (P @ B).argmax(axis=1)].mean())
    assert report["posterior_threshold"] == pytest.approx(1 / 16)
    assert {rule["rule"] for rule in report["rules"]} >= {"expected_benefit", "threshold_posterior", "same_for_all"}
    told = [any("in the order of 'classes'" in warning for warning in one["warnings"]) for one in (report, swapped)]
    assert told == [False, True]
    assert shifted["priors"] == {"healthy": 0.99, "ill": 0.01}
    assert chart.startswith("<svg")
    assert "the probabilities sent" in chart


def test_text_in_the_query_is_checked_as_in_a_body(service):
    for query in ({"classes": '["a\\u0000", "b"]', "benefits": "[[1, 0], [0, 1]]"},):
        answer = service.post("/predict", params=query, content=npy(P), headers={"Content-Type": "application/x-npy"})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["loc"] == "/classes/0"
