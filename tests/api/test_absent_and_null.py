"""The rule of docs/reference/requests.md: which fields an answer has follows from the request alone."""

from __future__ import annotations

import pytest

from tests.conftest import trained, two_class_rows

PRICES = {"age": 1.1, "pulse": 2.2, "pain": 7.07}


@pytest.fixture(scope="module")
def forest(service):
    learner = {"kind": "random_forest", "n_estimators": 5, "calibration": "none"}
    order = {"model": "absent", "learner": learner, "data": two_class_rows(60), "feature_costs": PRICES}
    return trained(service, order)


@pytest.mark.parametrize("more", [{}, {"budget": 100}, {"benefits": [[0, -1], [-10, 5]]}])
def test_a_case_has_the_same_fields_until_it_is_decided(service, forest, more):
    """Nothing known, one value known, all known; sums of prices are written as the prices are."""
    values = {"age": 60, "pulse": 80, "pain": "mild"}
    known = [{name: values[name] for name in list(values)[:count]} for count in range(4)]
    answers = [service.post("/acquire", json={"model": "absent", "known": case, **more}).json() for case in known]

    assert answers[-1]["status"] == "decided", answers
    assert len({tuple(answer) for answer in answers}) == 1, answers
    assert [answer["spent"] for answer in answers] == [0, 1.1, 3.3, 10.37]
    assert [answer["remaining"] for answer in answers] == ([100, 98.9, 96.7, 89.63] if "budget" in more else [None] * 4)
