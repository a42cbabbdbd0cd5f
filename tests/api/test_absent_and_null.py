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


@pytest.mark.thorough
def test_a_job_has_the_same_fields_in_every_state(service, forest):
    order = {"model": "absent-other", "learner": {"kind": "logistic"}, "data": two_class_rows(40)}
    impossible = order | {"learner": {"kind": "benefit_logistic"}, "benefits": [[0, 1], [1, 0]]}
    queued = service.post("/train", json=order).json()
    failed = service.post("/train", json=impossible, headers={"Prefer": "wait=60"}).json()

    assert (queued["model"], queued["error"], queued["finished_at"]) == (None, None, None)
    assert failed["status"] == "failed"
    assert list(queued) == list(failed) == list(forest)


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


def test_a_model_has_the_same_fields_without_versions(service, forest):
    versions = service.get("/models/absent").json()
    order = {"model": "emptied", "learner": {"kind": "logistic"}, "data": two_class_rows(40)}
    trained(service, order)
    assert service.delete("/models/emptied/versions/1").status_code == 204
    empty = service.get("/models/emptied").json()

    assert empty["latest"] is None
    assert list(empty) == list(versions)
