"""What replayed alternatives earn beside what was done, and what that proves."""

from dataclasses import replace

import numpy as np
import pytest

from app.outcomes.decision import UNKNOWN
from app.usecases.outcome_report.slices import slices
from app.usecases.replay import Alternative, documents
from tests.usecases.outcome_worlds import day_of_cases, terms_of

MATRIX = np.array([[0.0, -1.0], [-2.0, 1.0]])
TERMS = [terms_of(tuple(map(tuple, MATRIX.tolist())))]


def part(rng, n, *, told=None, known=1.0, truth=None):
    """Cases that were decided at random, with truths that both actions earn equally from."""
    if truth is None:
        truth = np.where(rng.random(n) < known, rng.random(n) < 0.25, UNKNOWN)
    done = rng.integers(0, 2, n)
    benefit = np.full(n, np.nan) if told is None else told(MATRIX[np.maximum(truth, 0), done])
    cases = day_of_cases(rng, n, terms=TERMS)
    (found,) = slices(replace(cases, truth=truth.astype(np.int32), choice=done.astype(np.int32), benefit=benefit))
    return found


def tallied(cases, *choices, **options):
    """The figures of alternatives that choose so in the same cases."""
    found = [Alternative(None, {}) for _ in choices]
    for each, choice in zip(found, choices, strict=True):
        each.add(cases, choice)
    return documents(found, **{"selective": False} | options)


@pytest.mark.parametrize("told", [lambda earned: earned - 3, lambda earned: 0.5 * earned, lambda earned: earned + 7])
def test_benefits_that_were_told_are_on_neither_side_of_the_difference(told):
    rng = np.random.default_rng(1)
    cases = part(rng, 2_000, told=told)
    choice = rng.integers(0, 2, 2_000)
    (found,) = tallied(cases, choice)

    before, after = MATRIX[cases.truth, cases.choice], MATRIX[cases.truth, choice]
    assert found["done"]["mean"] == pytest.approx(before.mean())
    assert found["mean"] == pytest.approx(after.mean())
    assert found["difference"]["mean"] == pytest.approx((after - before).mean())
    assert found["difference"]["differing"] == np.count_nonzero(before != after)
    assert found["verdict"] == "undecided"


def test_the_one_of_many_alternatives_that_is_better_is_found():
    """And none of those that alone would seem so."""
    rng, n = np.random.default_rng(5), 500
    cases = part(rng, n)
    wise = np.where(rng.random(n) < 0.3, MATRIX.argmax(axis=1)[cases.truth], cases.choice)
    found = tallied(cases, *rng.integers(0, 2, (40, n)), wise, cases.choice)

    assert [one["verdict"] for one in found] == ["undecided"] * 40 + ["better", "same"]
    assert sum(one["difference"]["low"] > 0 or one["difference"]["high"] < 0 for one in found[:-1]) >= 4
    assert found[-1]["adjusted_p_value"] == 1


@pytest.mark.parametrize(
    ("n", "share", "options", "reason"),
    [
        (60, 0.2, {}, "cases differ; 30"),
        (200, 0.9, {}, "fewer than 30 cases of a class"),
        (2_000, 0.9, {"late": "no day is old enough"}, "no day is old enough"),
        (2_000, 0.9, {"selective": True}, "more often after some actions"),
        (2_000, None, {}, "may be chance"),
        (2_000, 0.9, {}, None),
        (2_000, 0.0, {"late": "no day is old enough"}, None),
    ],
)
def test_what_is_undecided_says_why(n, share, options, reason):
    """An alternative that knows the truth in a share of the cases, or that decides at random."""
    rng = np.random.default_rng(5)
    best, rare = MATRIX.argmax(axis=1), (np.arange(n) < 20) if n == 200 else None
    cases = part(rng, n, known=0.5 if options.get("selective") else 1.0, truth=rare)
    choice = rng.integers(0, 2, n)
    if share is not None:
        knows = (rng.random(n) < share) & (cases.truth >= 0)
        choice = np.where(
            knows, best[np.maximum(cases.truth, 0)], np.where(cases.truth < 0, 1 - cases.choice, cases.choice)
        )
    (found,) = tallied(cases, choice, **options)

    assert (found["verdict"] == "undecided") == (reason is not None)
    assert reason is None if found["reason"] is None else reason in found["reason"]
    if share == 0.9 and "late" in options:
        assert "no day is old enough" in found["difference"]["basis"]


def test_a_gain_that_a_class_without_a_case_could_outweigh_is_no_verdict():
    cases = part(np.random.default_rng(6), 200, truth=np.zeros(200))
    (found,) = tallied(replace(cases, choice=np.ones(200, dtype=np.int32)), np.zeros(200, dtype=int))
    assert found["difference"]["mean"] > 0
    assert found["verdict"] == "undecided"
    assert "fewer than 30 cases of a class" in found["reason"]
