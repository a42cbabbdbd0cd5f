"""Forests and boosting of numbers: quantiles that hold the share they say."""

import numpy as np
import pytest

from app.learners.gradient_boosting import GradientBoosting
from app.learners.random_forest import RandomForest
from app.learners.residuals import thinned


def spread_out(n, seed):
    """A number whose noise depends on the row, a category and gaps."""
    rng = np.random.default_rng(seed)
    X = np.column_stack((rng.uniform(-1, 1, (n, 3)), rng.integers(0, 4, n)))
    y = 2 * np.sin(3 * X[:, 0]) + X[:, 3] + (0.1 + np.maximum(X[:, 1], 0)) * rng.normal(size=n)
    X[rng.random(n) < 0.05, 2] = np.nan
    return X, y


@pytest.mark.parametrize("kind", [RandomForest, GradientBoosting])
def test_quantiles_hold_the_share_that_they_say_where_noise_differs(kind):
    """Where there is hardly any noise as well as where there is much; a refit keeps that."""
    model = kind(task="regression", categorical_features=[3], random_state=0).fit(*spread_out(1500, 0))
    X, y = spread_out(4000, 1)
    for fitted in (model, model.refit(*spread_out(1500, 2))):
        low, high = fitted.distribution(X).quantiles(np.array([0.05, 0.95])).T
        inside = (low <= y) & (y <= high)
        assert inside.mean() == pytest.approx(0.9, abs=0.025)
        assert (high - low)[X[:, 1] > 0.5].mean() > 2 * (high - low)[X[:, 1] < 0].mean()
        assert all(inside[part].mean() > 0.7 for part in (X[:, 1] > 0.5, X[:, 1] < 0))


@pytest.mark.parametrize(("kind", "rel"), [(RandomForest, 0.12), (GradientBoosting, 0.25)])
def test_counts_with_many_ties_cost_about_what_is_expected_and_none_is_negative(kind, rel):
    def counts(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 3))
        return X, rng.poisson(np.exp(0.6 * X[:, 0] - 0.7)).astype(float)

    model = kind(task="regression", min_samples_leaf=5, random_state=0).fit(*counts(600, 0))
    X, y = counts(4000, 1)
    found = model.distribution(X)
    least, chosen = found.quantiles(np.array([0.01, 0.5])).T
    assert min(least.min(), model.values(X).min()) >= 0
    for quantity in (chosen, np.zeros(len(X))):
        assert found.costs(quantity, 1.0, 1.0).mean() == pytest.approx(np.abs(quantity - y).mean(), rel=rel)


def test_residuals_count_weights_as_repeated_rows():
    assert thinned(np.array([3.0, 1.0, 2.0]), np.ones(3)) == pytest.approx([1, 2, 3])
    assert len(thinned(np.arange(5000.0), np.ones(5000))) == 1000
