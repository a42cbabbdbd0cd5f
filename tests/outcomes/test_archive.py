"""Reading recorded decisions, from SQL and from sealed days."""

from __future__ import annotations

import numpy as np
import pytest

from app.outcomes.decision import DAY, UNKNOWN, Terms
from tests.outcomes.records import LOAN, decided, told

MONDAY = 20_000 * DAY
CASH = Terms("predict", "loan", 2, "expected_benefit", ("bad", "late", "good"), ("refuse", "grant"))


def test_cases_are_what_was_written(database, archive):
    p = [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]
    ids = decided(database, 3, at=[MONDAY, MONDAY + 5, MONDAY + 9], probabilities=p, choice=[0, 1, 1], client="desk")
    told(database, ids[1:2], [1], day=20_000, actions=[0], benefits=[-2.5], at=MONDAY + 60, received_at=MONDAY + 70)

    (found,) = archive.cases("loan", with_ids=True, with_instances=True)

    order = [found.ids.index(id_) for id_ in ids]
    assert (found.day, found.terms, found.keys) == (20_000, [LOAN], ["desk"])
    assert found.at[order].tolist() == [MONDAY, MONDAY + 5, MONDAY + 9]
    assert found.probabilities[order].tolist() == p
    assert found.choice[order].tolist() == [0, 1, 1]
    assert found.expected[order] == pytest.approx([0.9 * 0 - 0.1, 0.8 - 1.0, 0.6 - 2.0])
    assert found.truth[order].tolist() == [UNKNOWN, 1, UNKNOWN]
    assert found.action[order].tolist() == [UNKNOWN, 0, UNKNOWN]
    assert found.benefit[order][1] == -2.5
    assert (found.outcome_at[order][1], found.received_at[order][1]) == (MONDAY + 60, MONDAY + 70)
    assert np.isnan(found.propensity).all()
    assert np.isnan(found.benefit[order][[0, 2]]).all()
    assert found.instances == [None] * 3


def test_terms_with_fewer_classes_are_filled_up(database, archive):
    decided(database, 4, terms=[LOAN, CASH], at=MONDAY)

    (found,) = archive.cases("loan")

    fewer = np.array([len(found.terms[term].classes) for term in found.term]) == 2
    assert found.probabilities.shape == (4, 3)
    assert np.isnan(found.probabilities[:, 2]).tolist() == fewer.tolist()
    assert np.nansum(found.probabilities, axis=1) == pytest.approx(1)
    assert np.isnan(found.expected).tolist() == (~fewer).tolist()


def test_only_what_is_asked_for_is_read(database, archive):
    moments = [MONDAY + hour * 3600 for hour in range(72)]
    decided(database, 72, terms=[LOAN, CASH], at=moments)
    decided(database, terms=Terms("predict", "other", 1, "map", ("a", "b"), ("a", "b")), at=MONDAY)

    def read(**asked):
        return sorted(np.concatenate([part.at for part in archive.cases("loan", **asked)] or [[]]).tolist())

    assert read() == moments
    assert read(since=MONDAY + 3600, until=MONDAY + 30 * 3600) == moments[1:30]
    assert read(versions={2}) == moments[1::2]
    assert read(versions={3}) == read(since=MONDAY + 3 * DAY) == read(until=MONDAY) == []
    assert [part.day for part in archive.cases("loan")] == [20_000, 20_001, 20_002]


def test_decisions_are_located(database, archive):
    (one,) = decided(database, at=MONDAY + 5, ids=["c-1"])
    (two,) = decided(database, terms=CASH, at=MONDAY - 5)

    found = archive.locate([one, two, "none"])

    assert set(found) == {one, two}
    assert (found[one].model, found[one].version, found[one].day, found[one].files) == ("loan", 1, 20_000, ())
    assert (found[two].version, found[two].day) == (2, 19_999)
    assert (found[two].terms.classes, found[two].terms.actions) == (("bad", "late", "good"), ("refuse", "grant"))


def test_what_is_located_has_the_variance_of_its_promise(database, archive):
    P = (0.2, 0.8)
    ids = decided(database, 2, choice=[0, 1], probabilities=[P, P], at=MONDAY)

    found = archive.locate(ids)

    for id_, (bad, good) in zip(ids, ((0.0, -1.0), (-5.0, 1.0)), strict=True):
        mean = P[0] * bad + P[1] * good
        assert found[id_].variance == pytest.approx(P[0] * (bad - mean) ** 2 + P[1] * (good - mean) ** 2)


def test_nothing_recorded(archive):
    assert list(archive.cases("loan")) == []
    assert archive.locate([]) == archive.locate(["a"]) == {}
