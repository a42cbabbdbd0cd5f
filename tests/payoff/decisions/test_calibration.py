"""Calibrators are monotone, honest about what n rows can show, and equal their slow twins."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from payoff.decisions.calibration import Sigmoid
from payoff.decisions.calibration_fits import (
    fit_calibrator,
    fit_isotonic,
    fit_sigmoid,
    platt,
)

FITS = [partial(fit_calibrator, "sigmoid"), partial(fit_calibrator, "isotonic")]


def distorted(n, K, seed):
    """Probabilities that are too sure, (n, K), and classes drawn by the true ones."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(K), size=n)
    codes = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    sure = truth**2.5
    return sure / sure.sum(axis=1, keepdims=True), codes, truth


@given(
    st.integers(2, 5), st.integers(5, 60), st.integers(0, 10**6), st.sampled_from(FITS)
)
def test_calibrated_rows_are_probabilities_within_what_the_rows_can_show(
    K, n, seed, fit
):
    """For any probabilities of the model, also 0 and 1; of two classes the curve of n rows never
    falls, and stays inside [1/(n+2), (n+1)/(n+2)].
    """
    P, codes, _ = distorted(n, K, seed)
    grid = np.linspace(0, 1, 201)
    raw = (
        np.column_stack((1 - grid, grid)) if K == 2 else np.concatenate((P, np.eye(K)))
    )
    Q = fit(P, codes, np.ones(n)).apply(raw)
    np.testing.assert_allclose(Q.sum(axis=1), 1, rtol=1e-14)
    assert np.all((Q > 0) & (Q < 1))
    if K == 2:
        assert Q.min() >= 1 / (n + 2) * (1 - 1e-12)
        assert np.all(np.diff(Q[:, 1]) >= -1e-15)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6), st.integers(0, 1), st.sampled_from([0.5, 1.0, 3.0])
        ),
        min_size=2,
        max_size=14,
    )
)
def test_isotonic_equals_the_best_rising_fit(rows):
    """At the scores seen, the curve is scikit-learn's, kept inside its bounds."""
    scores, codes, weights = (
        np.array(column, dtype=float) for column in zip(*rows, strict=True)
    )
    scores /= 6
    Q = fit_isotonic(np.column_stack((1 - scores, scores)), codes, weights).apply(
        np.column_stack((1 - scores, scores))
    )
    low = 1 / (weights.sum() ** 2 / (weights**2).sum() + 2)
    expected = (
        IsotonicRegression()
        .fit(scores, codes, weights)
        .predict(scores)
        .clip(low, 1 - low)
    )
    np.testing.assert_allclose(Q[:, 1], expected, atol=1e-12)


def test_a_reversed_model_loses_its_order_not_its_direction():
    """Scores that run against the truth give a flat curve, never a falling one."""
    p = np.linspace(0.1, 0.9, 100)
    calibrator = fit_sigmoid(
        np.column_stack((1 - p, p)), (p < 0.5).astype(int), np.ones(100)
    )
    assert calibrator.slopes[0] == 0
    np.testing.assert_allclose(
        calibrator.apply(np.column_stack((1 - p, p)))[:, 1], 0.5, atol=1e-6
    )


@pytest.mark.parametrize("fit", FITS, ids=["sigmoid", "isotonic"])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_weights_count_as_repeated_rows(fit, K):
    """A row of weight 3 is that row three times, apart from bounds and smoothing, which count rows.

    A resolution makes the limit of what counts as impossible the same for both.
    """
    P, codes, _ = distorted(3000, K, 3)
    weights = np.random.default_rng(4).integers(1, 4, size=3000)
    repeated = np.repeat(np.arange(3000), weights)
    weighted = fit(P, codes, weights.astype(float), 1e-3).apply(P)
    twin = fit(P[repeated], codes[repeated], np.ones(len(repeated)), 1e-3).apply(P)
    np.testing.assert_allclose(weighted, twin, atol=1e-3)


def votes(n, trees, seed):
    """The share (n, 2) of trees that vote for each of two classes, and the classes; the truth is
    milder than the vote.

    Many votes are exactly 0 or 1, as a forest's are.
    """
    rng = np.random.default_rng(seed)
    truth = rng.beta(0.4, 0.4, size=n) * 0.9 + 0.05
    leaning = expit(2.5 * logit(truth))
    share = rng.binomial(trees, leaning) / trees
    return (
        np.column_stack((1 - share, share)),
        (rng.random(n) < truth).astype(int),
        truth,
    )


@pytest.mark.parametrize("trees", [1, 2, 3])
def test_a_few_trees_keep_their_order(trees):
    """The limit of what counts as impossible lies below every vote."""
    P, codes, _ = votes(1000, trees, 3)
    Q = fit_sigmoid(P, codes, np.ones(1000), 1 / trees).apply(P)[:, 1]
    assert len(np.unique(Q)) == trees + 1
    assert Q[P[:, 1] == 1].min() > Q[P[:, 1] == 0].max() + 0.2


@pytest.mark.parametrize("K", [2, 4])
def test_order_far_beyond_one_in_n_is_kept(K):
    """A naive Bayes model counts dependent features ten times: its log-odds of 20 still differ from
    those of 10.
    """
    rng = np.random.default_rng(12)
    truth = rng.dirichlet(np.full(K, 0.3), size=2000) * 0.98 + 0.02 / K
    codes = (truth.cumsum(axis=1) > rng.random((2000, 1))).argmax(axis=1)
    sure = truth**10
    sure /= sure.sum(axis=1, keepdims=True)
    got = fit_sigmoid(sure[:1000], codes[:1000], np.ones(1000)).apply(sure[1000:])
    assert np.abs(got - truth[1000:]).mean() < 0.05


@pytest.mark.parametrize("trees", [10, 40, 100, 500])
@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_votes_of_exactly_zero_do_not_decide_the_slope(n, trees):
    """The distance to the truth is that of a fit on smoothed votes, whatever the number of trees
    and rows.
    """
    P, codes, _ = votes(n, trees, 1)
    new, _, truth = votes(4000, trees, 2)
    calibrated = fit_sigmoid(P, codes, np.ones(n), 1 / trees).apply(new)[:, 1]
    smooth = (P * trees + 0.5) / (trees + 1)
    twin = fit_sigmoid(smooth, codes, np.ones(n), 1e-12).apply(
        (new * trees + 0.5) / (trees + 1)
    )[:, 1]
    unlimited = Sigmoid(
        *np.array(
            [platt(logit(np.clip(P[:, 1], 1e-15, 1 - 1e-15)), codes == 1, np.ones(n))]
        ).T,
        1e-9,
    )
    assert np.abs(calibrated - truth).mean() < 1.15 * np.abs(twin - truth).mean()
    assert (
        np.abs(calibrated - truth).mean()
        < 0.9 * np.abs(unlimited.apply(new)[:, 1] - truth).mean()
    )


@pytest.mark.parametrize("fit", FITS, ids=["sigmoid", "isotonic"])
@pytest.mark.parametrize("rare", [1, 3, 19])
def test_a_class_of_few_rows_is_calibrated_and_spoils_no_other(fit, rare):
    """A model that is far too sure, with one class of few rows: it promises no more of that class
    than of the others.

    The other classes are calibrated as well as without it.
    """
    rng = np.random.default_rng(0)
    P, codes, _ = distorted(3000, 3, 9)
    P = np.column_stack((0.97 * P, np.full(3000, 0.03)))
    P[:rare] = [0.005, 0.005, 0.005, 0.985]
    P[rare : 10 * rare] = P[0]  # predicted ten times as often as true
    codes[:rare] = 3
    order = rng.permutation(3000)
    Q = fit(P[order], codes[order], np.ones(3000)).apply(P)
    assert Q[0, 3] < 0.9
    raw = P[10 * rare :, :3] / P[10 * rare :, :3].sum(axis=1, keepdims=True)
    expected = fit(raw, codes[10 * rare :], np.ones(len(raw))).apply(raw)
    calibrated = Q[10 * rare :, :3] / Q[10 * rare :, :3].sum(axis=1, keepdims=True)
    assert np.abs(calibrated - expected).mean() < 0.05


def test_only_classes_of_few_rows_share_a_curve():
    P, codes, _ = distorted(300, 4, 9)
    codes = np.minimum(codes, 1)
    codes[:4] = [2, 2, 3, 3]
    heights = fit_isotonic(P, codes, np.ones(300)).heights
    assert np.array_equal(heights[2], heights[3])
    assert not any(np.array_equal(heights[k], heights[3]) for k in (0, 1))


def test_the_multinomial_form_is_the_optimum_of_its_loss():
    """No small step in slope or offsets makes the smoothed, penalised log loss smaller (slow twin
    in plain loops).
    """
    P, codes, _ = distorted(200, 4, 11)
    weights = np.random.default_rng(1).uniform(0.5, 2, 200)
    fitted = fit_sigmoid(P, codes, weights)
    n = weights.sum() ** 2 / (weights**2).sum()

    def loss(slope, offsets):
        total = 0.0
        for p, k, w in zip(P, codes, weights, strict=True):
            scores = [
                slope * np.log(max(value, fitted.limit)) + offset
                for value, offset in zip(p, offsets, strict=True)
            ]
            norm = np.log(np.sum(np.exp(scores)))
            targets = [((j == k) * n + 1 / 4) / (n + 1) for j in range(4)]
            total -= (
                w
                / weights.sum()
                * sum(
                    t * (score - norm) for t, score in zip(targets, scores, strict=True)
                )
            )
        return total + sum(offset**2 for offset in offsets) / (2 * n)

    best = loss(fitted.slope, fitted.offsets)
    for step in (1e-3, -1e-3):
        assert loss(fitted.slope + step, fitted.offsets) > best
        for k in range(4):
            assert loss(fitted.slope, fitted.offsets + step * np.eye(4)[k]) > best
