"""Forests and boosting of numbers: their distributions by hand, and quantiles that hold the share they say."""

import numpy as np
import pytest

from app.learners.gradient_boosting import GradientBoosting
from app.learners.numbers import STEPS, NumberForest, levels_of, thinned
from app.learners.random_forest import RandomForest


def spread_out(n, seed):
    """A number whose noise depends on the row, a category and gaps."""
    rng = np.random.default_rng(seed)
    X = np.column_stack((rng.uniform(-1, 1, (n, 3)), rng.integers(0, 4, n)))
    y = 2 * np.sin(3 * X[:, 0]) + X[:, 3] + (0.1 + np.maximum(X[:, 1], 0)) * rng.normal(size=n)
    X[rng.random(n) < 0.05, 2] = np.nan
    return X, y


def test_a_forest_mixes_the_numbers_in_its_leaves():
    """Weights by hand, from the leaves of each training row; quantiles are the least values that reach a level."""
    X, y = spread_out(120, 0)
    y, weights = y.round(1), np.random.default_rng(1).uniform(0.5, 2, 120)
    model = RandomForest(task="regression", n_estimators=7, random_state=0).fit(X, y, weights)
    plain = NumberForest.of(model.model_.forest, X, y, weights, STEPS)
    new = spread_out(9, 1)[0]
    own, beside = plain.forest.leaves(X), plain.forest.leaves(new)
    levels = np.array([0.05, 0.5, 0.8])
    found = plain.distribution(new)
    quantiles, shares, costs = found.quantiles(levels), found.shares(np.array([0.0, 1.0])), found.costs(y[:9], 1.0, 4.0)
    for i in range(9):
        near = np.mean([weights * (own[:, t] == beside[i, t]) / weights[own[:, t] == beside[i, t]].sum()
                        for t in range(7)], axis=0)  # fmt: skip
        order = np.argsort(y, kind="stable")
        reached = np.cumsum(near[order])
        assert quantiles[i] == pytest.approx([y[order][np.argmax(reached >= level - 1e-6)] for level in levels])
        bands = [near[y < 0].sum(), near[(y >= 0) & (y < 1)].sum(), near[y >= 1].sum()]
        assert shares[i] == pytest.approx(bands, abs=1e-6)
        assert costs[i] == pytest.approx(near @ np.where(y[i] > y, y[i] - y, 4 * (y - y[i])), abs=1e-5)
        assert plain.values(new)[i] == pytest.approx(near @ y, abs=1e-5)


@pytest.mark.parametrize(("kind", "options"), [(RandomForest, {"max_features": None}), (GradientBoosting, {})])
def test_quantiles_hold_the_share_that_they_say_where_noise_differs(kind, options):
    """Where there is hardly any noise as well as where there is much; a refit keeps that."""
    model = kind(task="regression", categorical_features=[3], random_state=0, **options).fit(*spread_out(1500, 0))
    X, y = spread_out(4000, 1)
    for fitted in (model, model.refit(*spread_out(1500, 2))):
        low, high = fitted.distribution(X).quantiles(np.array([0.05, 0.95])).T
        inside = (low <= y) & (y <= high)
        assert inside.mean() == pytest.approx(0.9, abs=0.025)
        assert (high - low)[X[:, 1] > 0.5].mean() > 2 * (high - low)[X[:, 1] < 0].mean()
        assert all(inside[part].mean() > 0.7 for part in (X[:, 1] > 0.5, X[:, 1] < 0))


def test_levels_and_residuals_count_weights_as_repeated_rows():
    reached = np.array([0.2, 0.2, 0.9, 0.5])
    found = levels_of(reached, np.ones(4))
    assert found[[0, 80, 200, 360, 400]] == pytest.approx([0.1, 0.5, 0.7, 0.9, 1.0])
    assert thinned(np.array([3.0, 1.0, 2.0]), np.ones(3)) == pytest.approx([1, 2, 3])
    assert len(thinned(np.arange(5000.0), np.ones(5000))) == 1000
