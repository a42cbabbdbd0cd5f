"""Linear regression of numbers: the penalised optimum, its transforms and its distribution."""

import pickle

import numpy as np
import pytest

from payoff.errors import Invalid
from payoff.learners.ridge import Ridge


def problem(n=300, m=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, (n, m))
    y = X @ np.arange(1.0, m + 1) + 10 + rng.normal(size=n)
    return X, y, rng.uniform(0.2, 3.0, n)


def test_it_is_the_optimum_of_squared_errors_and_penalty():
    """The normal equations of scaled columns, weighted."""
    X, y, w = problem()
    model = Ridge(C=0.01, numeric_transform="none", random_state=0).fit(X, y, w)

    mean = np.average(X, axis=0, weights=w)
    Z = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    Zc = Z - np.average(Z, axis=0, weights=w)
    yc = y - np.average(y, weights=w)
    coef = np.linalg.solve((Zc * w[:, None]).T @ Zc + 100 * np.eye(4), Zc.T @ (w * yc))
    np.testing.assert_allclose(
        model.values(X), Zc @ coef + np.average(y, weights=w), rtol=1e-6
    )


def test_a_curve_is_found_and_categories_are_columns():
    rng = np.random.default_rng(1)
    X = np.column_stack((rng.uniform(0, 6, 600), rng.integers(0, 4, 600))).astype(float)
    y = np.sin(X[:, 0]) + np.array([0.0, 2.0, -1.0, 5.0])[X[:, 1].astype(int)]
    model = Ridge(categorical_features=[1], random_state=0).fit(X, y)

    assert model.numeric_transform_ == "spline"
    assert np.square(model.values(X) - y).mean() < 0.1


def test_each_number_is_predicted_by_a_fold_that_did_not_see_it_and_gives_the_intervals():
    X, y, _ = problem(400)
    model = Ridge(random_state=0)
    unseen = model.cross_fit(X, y)[:, 0]

    error = np.sqrt(np.square(y - unseen).mean())
    assert 0.9 < error < 1.1
    new, truth, _ = problem(2000, seed=5)
    low, high = model.distribution(new).quantiles(np.array([0.05, 0.95])).T
    assert 0.87 < ((truth >= low) & (truth <= high)).mean() < 0.93
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).values(new), model.values(new)
    )
    np.testing.assert_allclose(model.refit(X, y).values(new), model.values(new))


def test_one_row_is_refused():
    with pytest.raises(Invalid, match="two rows"):
        Ridge().fit(np.zeros((1, 2)), np.ones(1))
