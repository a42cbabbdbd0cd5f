"""Cuts on the probability of class 1."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.decisions.benefit import decide, irrelevance
from payoff.decisions.threshold import (
    HoldoutScores,
    decide_by_threshold,
    posterior_threshold,
)
from payoff.errors import Invalid
from tests.reference import decisions as reference


def both(p1):
    return np.column_stack([1 - p1, p1])


def test_equal_to_the_expected_benefits_for_matrices_of_all_signs():
    """10,000 random matrices, and posteriors that include 0 and 1; d < 0 turns round."""
    rng = np.random.default_rng(1)
    turned = constant = 0
    for _ in range(10_000):
        B = rng.normal(size=(2, 2)) * 10.0 ** rng.uniform(
            -20, 20, size=(1 + (rng.random() < 0.5), 1)
        )
        p1 = np.append(rng.random(20), [0.0, 1.0])
        cut = posterior_threshold(B)
        turned += cut.above == 0
        constant += bool(irrelevance(B))

        assert (
            decide_by_threshold(p1, cut).tolist() == decide(both(p1), B).choice.tolist()
        )
        assert math.isfinite(cut.value)

    assert turned > 3_000
    assert constant > 3_000


@given(
    st.lists(st.integers(-3, 3) | st.floats(-1e150, 1e150), min_size=4, max_size=4),
    st.integers(0, 16),
)
def test_exact_ties_are_decided_alike_and_a_cut_outside_0_1_warns(cells, sixteenths):
    """Small integers and binary fractions: d = 0, t* = 0, t* = 1 and p1 = t* all occur, without
    rounding. The same matrices warn here as in `irrelevance`, also where the quotient is rounded to
    0 or 1.
    """
    B, p1 = np.array(cells, dtype=float).reshape(2, 2), np.array([sixteenths / 16])
    cut = posterior_threshold(B)
    inside = cut.value is not None and 0 < cut.value < 1

    if all(isinstance(cell, int) for cell in cells):
        assert (
            decide_by_threshold(p1, cut).tolist() == decide(both(p1), B).choice.tolist()
        )
    assert inside is (not irrelevance(B))
    assert bool(cut.warnings) is (not inside or cut.above == 0)


@pytest.mark.parametrize(
    ("B", "better"),
    [
        ([[0, 1], [0, 2]], 1), ([[0, 0], [0, 5]], 1), ([[0, 3], [0, 1]], 1), ([[1, 2], [3, 4]], 1),
        ([[1, 0], [2, 0]], 0), ([[0, 0], [5, 0]], 0), ([[2, 1], [4, 3]], 0), ([[0, 0], [0, 0]], 0),
    ],
)  # fmt: skip
def test_the_dominating_action_is_named(B, better):
    """There is no cut on the hold-out, either; without a slope none at all."""
    B = np.array(B, dtype=float)
    cut = posterior_threshold(B, ["wait", "go"])
    assert f"action {['wait', 'go'][better]!r} is at least as good" in cut.warnings[0]
    if B[1, 1] - B[1, 0] == B[0, 1] - B[0, 0]:
        assert (cut.value, cut.above, cut.below, len(cut.warnings)) == (
            None,
            better,
            better,
            1,
        )
    best, benefit = HoldoutScores(
        np.array([0.1, 0.2, 0.6, 0.7]), np.array([0, 1, 0, 1])
    ).best(B)
    assert (best.value, best.above, best.below) == (None, better, better)
    assert benefit == B[:, better].mean()


def test_a_negative_slope_is_warned_about():
    cut = posterior_threshold(np.array([[0.0, 3.0], [1.0, 0.0]]), ["wait", "go"])
    assert "BELOW" in cut.warnings[0]
    assert (cut.above, cut.below) == (0, 1)


def holdout(rng, n):
    """Scores with many ties, some of them neighbouring floats, both classes present."""
    y = np.append([0, 1], rng.integers(0, 2, n))
    scores = np.clip(rng.normal(0.4 + 0.2 * y, 0.2), 0, 1).round(2)
    return np.where(rng.random(n + 2) < 0.1, np.nextafter(scores, 1), scores), y


def test_the_best_cut_is_the_best_of_all_in_exact_arithmetic():
    """Matrices of all signs, with and without priors. Shares such as 3/7 are rounded; cuts that
    earn the same in truth are equal all the same.
    """
    rng = np.random.default_rng(2)
    for trial in range(1_500):
        scores, y = holdout(rng, int(rng.integers(0, 30)))
        B = (
            rng.normal(size=(2, 2))
            if trial % 3 == 0
            else rng.integers(-3, 4, (2, 2)).astype(float)
        )
        if trial % 3 == 2:
            B = np.diag(np.diag(B))
        priors = rng.dirichlet(np.ones(2)) if trial % 6 == 0 else None
        cut, benefit = HoldoutScores(scores, y).best(B, priors)
        best, decisions = reference.best_decisions(
            scores.tolist(), y.tolist(), B, priors
        )

        assert benefit == pytest.approx(float(best), abs=1e-12)
        if not irrelevance(B):
            assert decide_by_threshold(scores, cut).tolist() == decisions


def test_the_cut_lies_midway_between_scores_or_just_outside():
    scores, y = np.array([0.1, 0.2, 0.6, 0.7]), np.array([0, 0, 1, 1])
    ordered = HoldoutScores(scores, y)

    assert ordered.best(np.eye(2))[0].value == pytest.approx(0.4)
    assert ordered.best(-np.eye(2))[0].value == pytest.approx(0.4)
    misled = HoldoutScores(scores, 1 - y)
    assert misled.best(np.array([[1.0, 0.0], [0.0, 5.0]]))[0].value == math.nextafter(
        0.1, -1
    )
    assert misled.best(np.array([[5.0, 0.0], [0.0, 1.0]]))[0].value == math.nextafter(
        0.7, 1
    )


def test_the_curve_is_the_mean_benefit_at_every_threshold():
    """Of scores at the threshold, too."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        scores, y = holdout(rng, 40)
        B, priors = rng.integers(-3, 4, (2, 2)).astype(float), rng.dirichlet(np.ones(2))
        thresholds, benefits = HoldoutScores(scores, y).curve(B, 21, priors)
        above = int(B[1, 1] - B[1, 0] + B[0, 0] - B[0, 1] >= 0)

        assert thresholds.tolist() == np.linspace(0, 1, 21).tolist()
        for threshold, benefit in zip(thresholds, benefits, strict=True):
            actions = np.where(
                scores > threshold, above, np.where(scores < threshold, 1 - above, 0)
            )
            assert benefit == pytest.approx(
                sum(priors[k] * B[k, actions[y == k]].mean() for k in (0, 1)), abs=1e-12
            )


@pytest.mark.parametrize("y", [[0, 0, 0], [1, 1, 1], [0, 1, 2]])
def test_a_hold_out_needs_both_classes(y):
    with pytest.raises(Invalid, match="rows of both classes"):
        HoldoutScores(np.array([0.1, 0.2, 0.3]), np.array(y))


@given(st.integers(0, 10_000))
def test_cuts_for_cases_with_matrices_of_their_own(seed):
    """The curve and the best cut by trying each on every row; equal matrices give what one does."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 12))
    y = np.append([0, 1], rng.integers(0, 2, n - 2))
    p1, B = rng.integers(0, 6, n) / 5, rng.integers(-9, 10, (n, 2, 2)).astype(float)
    priors = np.array([0.3, 0.7]) if seed % 2 else None
    weights = np.ones(n) if priors is None else (priors / np.bincount(y) * n)[y]
    scores = HoldoutScores(p1, y)

    def earned(cut):
        return np.mean(weights * B[np.arange(n), y, decide_by_threshold(p1, cut)])

    cut, benefit = scores.best(B, priors)
    assert earned(cut) == pytest.approx(benefit, abs=1e-12)
    tried = [
        earned(replace(cut, value=value))
        for value in (-1.0, 0.1, 0.3, 0.5, 0.7, 0.9, 2.0)
    ]
    assert benefit == pytest.approx(max(tried), abs=1e-12)
    thresholds, curve = scores.curve(B, 11, priors)
    assert curve == pytest.approx(
        [earned(replace(cut, value=t)) for t in thresholds], abs=1e-12
    )
    equal = scores.curve(np.broadcast_to(B[0], B.shape), 11, priors)[1]
    assert equal == pytest.approx(scores.curve(B[0], 11, priors)[1], abs=1e-12)
