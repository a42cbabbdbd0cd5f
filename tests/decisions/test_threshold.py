"""Cuts on the probability of class 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.decisions.benefit import decide, irrelevance
from app.decisions.threshold import HoldoutScores, decide_by_threshold, posterior_threshold
from app.errors import Invalid
from tests.reference import decisions as reference


def both(p1):
    return np.column_stack([1 - p1, p1])


def test_equal_to_the_expected_benefits_for_matrices_of_all_signs():
    """10,000 random matrices, and posteriors that include 0 and 1; d < 0 turns round."""
    rng = np.random.default_rng(1)
    turned = constant = 0
    for _ in range(10_000):
        B = rng.normal(size=(2, 2)) * 10.0 ** rng.uniform(-20, 20, size=(1 + (rng.random() < 0.5), 1))
        p1 = np.append(rng.random(20), [0.0, 1.0])
        cut = posterior_threshold(B)
        turned += cut.above == 0
        constant += bool(irrelevance(B))

        assert decide_by_threshold(p1, cut).tolist() == decide(both(p1), B).choice.tolist()
        assert math.isfinite(cut.value)

    assert turned > 3_000
    assert constant > 3_000


@given(st.lists(st.integers(-4, 4), min_size=4, max_size=4), st.integers(0, 16))
def test_equal_to_the_expected_benefits_on_exact_ties(cells, sixteenths):
    """Small integers and binary fractions: d = 0, t* = 0, t* = 1 and p1 = t* all occur, without rounding."""
    B, p1 = np.array(cells, dtype=float).reshape(2, 2), np.array([sixteenths / 16])

    assert decide_by_threshold(p1, posterior_threshold(B)).tolist() == decide(both(p1), B).choice.tolist()


@given(st.lists(st.integers(-3, 3) | st.floats(-1e150, 1e150), min_size=4, max_size=4))
def test_a_cut_outside_0_1_warns_and_one_inside_does_not(cells):
    """The same matrices warn here as in `irrelevance`, also where the quotient is rounded to 0 or 1."""
    B = np.array(cells, dtype=float).reshape(2, 2)
    cut = posterior_threshold(B)
    inside = cut.value is not None and 0 < cut.value < 1

    assert inside is (not irrelevance(B))
    assert bool(cut.warnings) is (not inside or cut.above == 0)


def test_who_dominates_is_named():
    for B, better in [
        ([[0, 1], [0, 2]], "go"),
        ([[1, 0], [2, 0]], "wait"),
        ([[0, 3], [1, 0]], None),
        ([[0, 0], [0, 5]], "go"),
        ([[0, 0], [5, 0]], "wait"),
        ([[0, 3], [0, 1]], "go"),
    ]:
        cut = posterior_threshold(np.array(B, dtype=float), ["wait", "go"])
        if better is None:
            assert "BELOW" in cut.warnings[0]
            assert (cut.above, cut.below) == (0, 1)
        else:
            assert f"action {better!r} is at least as good" in cut.warnings[0]


@pytest.mark.parametrize(
    ("B", "action"), [([[2, 1], [4, 3]], 0), ([[1, 2], [3, 4]], 1), ([[5, 5], [1, 1]], 0), ([[0, 0], [0, 0]], 0)]
)
def test_without_a_slope_the_action_is_constant(B, action):
    cut = posterior_threshold(np.array(B, dtype=float))

    assert (cut.value, cut.above, cut.below, len(cut.warnings)) == (None, action, action, 1)


def holdout(rng, *, n=40, levels=12):
    """Scores with many ties, both classes present."""
    y = np.append([0, 1], rng.integers(0, 2, n))
    return np.clip(rng.normal(0.4 + 0.2 * y, 0.2), 0, 1).round(int(np.log10(levels)) + 1), y


def test_the_best_cut_equals_trying_them_all():
    """Random scores, matrices of all signs, with and without priors, against a scan row by row."""
    rng = np.random.default_rng(2)
    for trial in range(300):
        scores, y = holdout(rng, n=int(rng.integers(0, 40)))
        B = rng.normal(size=(2, 2)) if trial % 2 else rng.integers(-3, 4, (2, 2)).astype(float)
        priors = rng.dirichlet(np.ones(2)) if trial % 3 else None
        asked = HoldoutScores(scores, y)
        cut, benefit = asked.best(B, priors)
        weights = np.bincount(y) / len(y) if priors is None else priors
        slope = B[1, 1] - B[1, 0] + B[0, 0] - B[0, 1]
        best = reference.best_mean_benefit(scores.tolist(), y.tolist(), B, int(slope >= 0), weights)

        assert benefit == pytest.approx(best, abs=1e-12)
        assert asked.benefit(cut, B, priors) == pytest.approx(best, abs=1e-12)
        chosen = decide_by_threshold(scores, cut)
        earned = sum(weights[k] * B[k, chosen[y == k]].mean() for k in (0, 1))
        assert earned == pytest.approx(best, abs=1e-12)


def test_the_cut_lies_midway_between_scores_or_just_outside():
    scores, y = np.array([0.1, 0.2, 0.6, 0.7]), np.array([0, 0, 1, 1])
    asked = HoldoutScores(scores, y)

    assert asked.best(np.eye(2))[0].value == pytest.approx(0.4)
    assert asked.best(-np.eye(2))[0].value == pytest.approx(0.4)
    misled = HoldoutScores(scores, 1 - y)
    assert misled.best(np.array([[1.0, 0.0], [0.0, 5.0]]))[0].value == math.nextafter(0.1, -1)
    assert misled.best(np.array([[5.0, 0.0], [0.0, 1.0]]))[0].value == math.nextafter(0.7, 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_equally_good_cuts_are_told_by_exact_arithmetic(sign):
    """Shares such as 3/7 are rounded; cuts that earn the same in truth are equal all the same."""
    rng = np.random.default_rng(5)
    for _ in range(1_000):
        scores, y = holdout(rng, n=int(rng.integers(0, 20)))
        B = sign * np.diag(rng.integers(1, 4, 2)).astype(float)
        cut, _ = HoldoutScores(scores, y).best(B)
        expected = reference.best_decisions(scores.tolist(), y.tolist(), B, int(sign > 0))

        assert decide_by_threshold(scores, cut).tolist() == expected


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_with_no_number_between_them_are_still_parted(sign):
    low = 0.3
    scores, y = np.array([low, math.nextafter(low, 1)]), np.array([0, 1])
    B = sign * np.eye(2)
    cut, benefit = HoldoutScores(scores, y).best(B)

    assert benefit == max(B[0]) / 2 + max(B[1]) / 2
    assert B[y, decide_by_threshold(scores, cut)].mean() == benefit


def test_where_one_action_dominates_there_is_no_cut():
    asked = HoldoutScores(np.array([0.1, 0.2, 0.6, 0.7]), np.array([0, 1, 0, 1]))
    cut, benefit = asked.best(np.array([[0.0, 1.0], [0.0, 2.0]]), actions=["wait", "go"])

    assert (cut.value, cut.above, cut.below) == (None, 1, 1)
    assert "'go'" in cut.warnings[0]
    assert benefit == 1.5


def test_the_curve_is_the_mean_benefit_at_every_threshold():
    rng = np.random.default_rng(3)
    for _ in range(40):
        scores, y = holdout(rng)
        B, priors = rng.integers(-3, 4, (2, 2)).astype(float), rng.dirichlet(np.ones(2))
        thresholds, benefits = HoldoutScores(scores, y).curve(B, 21, priors)
        above = int(B[1, 1] - B[1, 0] + B[0, 0] - B[0, 1] >= 0)
        expected = [reference.mean_benefit(scores, y, B, (t, above, 1 - above), priors) for t in thresholds]

        assert thresholds.tolist() == np.linspace(0, 1, 21).tolist()
        assert benefits.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("y", [[0, 0, 0], [1, 1, 1], [0, 1, 2]])
def test_a_hold_out_needs_both_classes(y):
    with pytest.raises(Invalid, match="rows of both classes"):
        HoldoutScores(np.array([0.1, 0.2, 0.3]), np.array(y))
