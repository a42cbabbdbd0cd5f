"""Sums of replayed alternatives, and what they prove."""

from __future__ import annotations

import numpy as np
import pytest

from app.usecases.outcome_report.ways import THIN
from app.usecases.replay_tally import Part, Tally, documents

MATRIX = np.array([[0.0, -1.0], [-2.0, 1.0]])


def part(rng, n, *, told=None, B=MATRIX, known=1.0):
    """Cases that were decided at random, with truths that both actions earn equally from."""
    truth = np.where(rng.random(n) < known, (rng.random(n) < 0.25).astype(int), -1)
    done = rng.integers(0, 2, n)
    benefits = np.full(n, np.nan) if told is None else told(B[np.maximum(truth, 0), done])
    P, term = np.tile([0.75, 0.25], (n, 1)), np.zeros(n, dtype=int)
    return Part(("no", "yes"), ("wait", "treat"), B[None], P, term, done, truth, benefits)


@pytest.mark.parametrize("told", [lambda earned: earned - 3, lambda earned: 0.5 * earned, lambda earned: earned + 7])
def test_benefits_that_were_told_are_on_neither_side_of_the_difference(told):
    rng = np.random.default_rng(1)
    cases = part(rng, 2_000, told=told)
    choice = rng.integers(0, 2, 2_000)
    tally = Tally()
    tally.add(cases, choice)
    (found,) = documents([tally], selective=False)

    before, after = MATRIX[cases.truth, cases.done], MATRIX[cases.truth, choice]
    assert found["done"]["mean"] == pytest.approx(before.mean())
    assert found["mean"] == pytest.approx(after.mean())
    assert found["difference"]["mean"] == pytest.approx((after - before).mean())
    assert found["difference"]["differing"] == np.count_nonzero(before != after)
    assert found["verdict"] == "undecided"
    apart = {"cases": 2_000, "total": pytest.approx((cases.told - before).sum())}
    assert found["told_benefits"] == apart | {
        "basis": found["basis"],
        "mean": pytest.approx((cases.told - before).mean()),
    }


def test_without_benefits_that_were_told_there_is_nothing_apart():
    rng = np.random.default_rng(2)
    tally = Tally()
    tally.add(part(rng, 100, known=0.5), rng.integers(0, 2, 100))
    assert documents([tally], selective=False)[0]["told_benefits"] is None


def alternatives(rng, n, choices):
    """Figures of alternatives, of which each has its own way with the same cases."""
    cases, tallies = part(rng, n), []
    for choose in choices:
        tallies.append(Tally())
        tallies[-1].add(cases, choose(cases))
    return documents(tallies, selective=False)


def test_of_many_alternatives_that_are_no_better_hardly_any_is_called_so():
    rng = np.random.default_rng(3)
    runs = [alternatives(rng, 300, [lambda cases: rng.integers(0, 2, len(cases.done))] * 20) for _ in range(8)]

    def seems(one):
        return one["difference"]["low"] > 0 or one["difference"]["high"] < 0

    assert sum(any(map(seems, run)) for run in runs) >= 3
    assert [one for run in runs for one in run if one["verdict"] != "undecided"] == []


def test_the_one_of_many_alternatives_that_is_better_is_found():
    rng = np.random.default_rng(4)
    best = MATRIX.argmax(axis=1)

    def at_random(cases):
        return rng.integers(0, 2, len(cases.done))

    def wise(cases):
        return np.where(rng.random(len(cases.done)) < 0.3, best[cases.truth], cases.done)

    def same(cases):
        return cases.done

    found = alternatives(rng, 500, [at_random] * 10 + [wise, same] + [at_random] * 10)
    assert [one["verdict"] for one in found] == ["undecided"] * 10 + ["better", "same"] + ["undecided"] * 10
    assert found[11]["adjusted_p_value"] == 1


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
    cases, best = part(rng, n, known=0.5 if options.get("selective") else 1.0), MATRIX.argmax(axis=1)
    if n == 200:
        cases.truth[np.flatnonzero(cases.truth == 1)[20:]] = 0
    choice = rng.integers(0, 2, n)
    if share is not None:
        knows = (rng.random(n) < share) & (cases.truth >= 0)
        choice = np.where(
            knows, best[np.maximum(cases.truth, 0)], np.where(cases.truth < 0, 1 - cases.done, cases.done)
        )
    tally = Tally()
    tally.add(cases, choice)
    (found,) = documents([tally], **{"selective": False} | options)

    assert (found["verdict"] == "undecided") == (reason is not None)
    assert reason is None if found["reason"] is None else reason in found["reason"]
    if share == 0.9 and "late" in options:
        assert "no day is old enough" in found["difference"]["basis"]


def test_a_gain_that_a_class_without_a_case_could_outweigh_is_no_verdict():
    cases, tally = part(np.random.default_rng(6), 200), Tally()
    cases.truth[:] = 0
    tally.add(cases, np.zeros(200, dtype=int))
    (found,) = documents([tally], selective=False)
    assert found["difference"]["mean"] > 0
    assert (found["verdict"], found["reason"]) == ("undecided", THIN)
