"""Row weights: effective numbers, and metrics, cuts and rankings with whole weights against the rows repeated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.decisions.benefit import class_means
from payoff.decisions.metrics import (
    holdout_metrics,
    multilabel_metrics,
    rank_area,
    regression_metrics,
)
from payoff.decisions.row_weights import (
    effective_rows,
    effective_total,
    evenly,
    normalised,
)
from payoff.decisions.rule_ranking import LabelledRows, contest
from payoff.decisions.rules import HeldOutRows, apply_rules
from payoff.decisions.threshold import HoldoutScores

SEEDS = st.integers(0, 10**6)


def drawn(n, seed):
    """Probabilities of two classes, codes of which both occur, whole weights, and the numbers of rows repeated."""
    random = np.random.default_rng(seed)
    p = np.round(random.random(n), 2)
    y = np.append(random.integers(0, 2, n - 2), (0, 1))
    weights = random.integers(1, 5, n)
    return (
        np.column_stack((1 - p, p)),
        y,
        weights.astype(float),
        np.repeat(np.arange(n), weights),
    )


@given(st.integers(1, 50), SEEDS)
def test_effective_numbers_are_those_of_kish(n, seed):
    random = np.random.default_rng(seed)
    groups = random.integers(0, 4, n)
    weights = random.exponential(size=n)
    slow = [
        sum(w for w, g in zip(weights, groups, strict=True) if g == k) ** 2
        / (sum(w * w for w, g in zip(weights, groups, strict=True) if g == k) or 1)
        for k in range(5)
    ]
    np.testing.assert_allclose(effective_rows(weights, groups, 5), slow)
    assert effective_total(weights) == pytest.approx(
        weights.sum() ** 2 / (weights**2).sum()
    )


@given(st.integers(1, 10_000), st.floats(1e-300, 1e300))
def test_equal_weights_count_rows_exactly(n, weight):
    assert effective_total(np.full(n, weight)) == n
    assert (normalised(np.full(n, weight)) == 1).all()


def test_no_rows_and_no_weight_are_no_effective_rows():
    nothing = np.empty(0)
    assert effective_total(nothing) == 0
    assert effective_rows(np.zeros(2), np.zeros(2, dtype=int), 2).tolist() == [0, 0]


@given(st.integers(3, 40), SEEDS)
def test_metrics_count_a_row_of_weight_two_twice(n, seed):
    P, y, w, rows = drawn(n, seed)
    B = np.array([[0.0, -1.0], [-4.0, 2.0]])
    weighted = holdout_metrics(P, y, "ab", B, w)
    repeated = holdout_metrics(P[rows], y[rows], "ab", B)
    for name in repeated.keys() - {"rows", "per_class"}:
        assert weighted[name] == pytest.approx(repeated[name]), name
    for label, of_class in repeated["per_class"].items():
        for name in ("precision", "recall"):
            assert weighted["per_class"][label][name] == (
                None if of_class[name] is None else pytest.approx(of_class[name])
            )
    weighted = regression_metrics(P[:, 0], P[:, 1] ** 2, w)
    repeated = regression_metrics(P[rows, 0], P[rows, 1] ** 2)
    for name in ("mse", "rmse", "mae"):
        assert weighted[name] == pytest.approx(repeated[name])
    Y = np.column_stack((y, P[:, 0] > 0.4)).astype(int)
    weighted = multilabel_metrics(P, Y, "ab", w)
    repeated = multilabel_metrics(P[rows], Y[rows], "ab")
    for name in repeated.keys() - {"rows", "per_label"}:
        assert weighted[name] == (
            None if repeated[name] is None else pytest.approx(repeated[name])
        ), name
    assert rank_area(P[:, 1], y == 1, w)[0] == pytest.approx(
        rank_area(P[rows, 1], y[rows] == 1)[0]
    )


@pytest.mark.parametrize("by_case", [False, True])
@given(st.integers(6, 40), SEEDS)
def test_cuts_and_benefits_count_a_row_of_weight_two_twice(by_case, n, seed):
    P, y, w, rows = drawn(n, seed)
    B = np.array([[0.0, -1.0], [-4.0, 2.0]])
    of_rows = B
    if by_case:
        B = B * np.random.default_rng(seed).integers(1, 9, (n, 1, 1))
        of_rows = B[rows]
    np.testing.assert_allclose(class_means(y, B, w), class_means(y[rows], of_rows))
    weighted = HoldoutScores(P[:, 1], y, w)
    repeated = HoldoutScores(P[rows, 1], y[rows])
    for priors in (None, np.array([0.7, 0.3])):
        cut, benefit = weighted.best(B, priors)
        cut_of_rows, benefit_of_rows = repeated.best(of_rows, priors)
        assert benefit == pytest.approx(benefit_of_rows, abs=1e-12)
        assert cut.above == cut_of_rows.above
        np.testing.assert_allclose(
            weighted.curve(B, 9, priors)[1],
            repeated.curve(of_rows, 9, priors)[1],
            atol=1e-12,
        )
        shares = np.bincount(y, w) / w.sum() if priors is None else priors
        known = priors is not None
        labelled = LabelledRows(y, B, shares, known, w)
        of_repeated = LabelledRows(y[rows], of_rows, shares, known)
        assert labelled.bound == pytest.approx(of_repeated.bound)
        choices = np.column_stack((P.argmax(axis=1), np.zeros(n, dtype=int)))
        means = [standing.mean for standing in contest(choices, labelled).standings]
        assert means == pytest.approx(
            [s.mean for s in contest(choices[rows], of_repeated).standings], abs=1e-12
        )


def test_a_rule_that_is_tuned_on_rows_is_tuned_with_their_weights():
    p = np.linspace(0.01, 0.99, 200)
    y = (p + np.random.default_rng(0).normal(0, 0.2, 200) > 0.5).astype(int)
    P = np.column_stack((1 - p, p))
    B = np.array([[0.0, -1.0], [-1.0, 0.0]])
    cuts = []
    for weights in (None, np.where(y == 1, 9.0, 1.0)):
        rows = HeldOutRows(P, P, y, np.arange(200) % 4, weights=weights)
        rule = next(r for r in apply_rules(rows, B) if r.rule == "threshold_holdout")
        cuts.append((rule.figures["threshold"], (rule.choice == 1).sum()))
    assert cuts[1][0] < cuts[0][0] - 0.1
    assert cuts[1][1] > cuts[0][1] + 10


def test_a_loss_that_no_row_has_may_have_the_largest_weight():
    """All rows earn 0, and a loss of 10 is possible: one heavy row shows that there are heavy cases."""
    y = np.zeros(100, dtype=int)
    B = np.array([[0.0, -10.0], [0.0, 0.0]])
    lows = []
    for heavy in (1.0, 50.0):
        weights = np.append(np.ones(99), heavy)
        rows = LabelledRows(y, B, np.array([1.0, 0.0]), row_weights=weights)
        ranking = contest(np.zeros((100, 1), dtype=int), rows)
        lows.append(ranking.standings[0].interval[0])
    assert -0.5 < lows[0] < 0
    assert lows[1] < -2


def test_a_lead_of_few_effective_rows_is_not_significant():
    """Ninety rows of which three have nearly all weight: no lead among them is more than noise."""
    y = np.ones(90, dtype=int)
    B = np.array([[0.0, 0.0], [0.0, 1.0]])
    choices = np.column_stack((np.ones(90, dtype=int), np.zeros(90, dtype=int)))
    shares = np.array([0.0, 1.0])
    weights = np.where(np.arange(90) < 3, 1000.0, 1.0)
    assert contest(choices, LabelledRows(y, B, shares)).significant
    rows = LabelledRows(y, B, shares, row_weights=weights)
    assert rows.counts[1] < 4
    assert not contest(choices, rows).significant
    assert contest(choices, rows).differing == 90


@given(st.integers(1, 60), st.integers(1, 80), SEEDS)
def test_rows_are_spread_as_often_as_their_weights_say(n, count, seed):
    weights = np.random.default_rng(seed).exponential(size=n)
    times = np.bincount(evenly(weights, count), minlength=n)
    assert times.sum() == count
    assert (np.abs(times - count * weights / weights.sum()) <= 1).all()
    assert evenly(np.ones(n), n).tolist() == list(range(n))
