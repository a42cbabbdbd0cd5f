"""scikit-learn's random forest as a learner: its answers, calibration, gaps, categories, and asking step by step."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from app.learners.random_forest import RandomForest
from tests.reference.tables import mixed


@pytest.mark.parametrize(("trees", "most"), [(1, "sqrt"), (16, 0.5), (16, 2), (16, "log2"), (37, None)])
def test_it_is_scikit_learns_forest(trees, most):
    """Without calibration and categories: the probabilities of that forest, grown in one go."""
    X, y, _ = mixed(200, 3, 0, words=())
    given = {"n_estimators": trees, "max_features": most, "min_samples_leaf": 2, "random_state": 3}
    model = RandomForest(calibration="none", **given).fit(X, y)
    theirs = RandomForestClassifier(**given).fit(X, y)
    new, _, _ = mixed(100, 3, 1, words=())
    np.testing.assert_allclose(model.predict_proba(new), theirs.predict_proba(new), atol=1e-6)


def noisy_steps(n, noise):
    """Two classes that change at 0 of one of four columns, some of them wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, ((X[:, 0] > 0) ^ (rng.random(n) < noise)).astype(int)


def checkers(n):
    """Three classes without noise, in small squares."""
    X = np.random.default_rng(0).uniform(0, 4, size=(n, 2))
    return X, np.floor(X).sum(axis=1).astype(int) % 3


@pytest.mark.parametrize(("rows", "leaf"), [(noisy_steps(400, 0.3), 5), (checkers(400), 1)])
def test_leaves_are_as_large_as_noise_asks(rows, leaf):
    """A forest of leaves of one row repeats the noise; large ones miss the squares."""
    model = RandomForest(random_state=0).fit(*rows)
    assert model.min_samples_leaf_ == leaf


def test_a_given_leaf_is_kept_and_a_refit_keeps_the_chosen_one():
    X, y = noisy_steps(200, 0.3)
    assert RandomForest(n_estimators=5, min_samples_leaf=3, random_state=0).fit(X, y).min_samples_leaf_ == 3
    model = RandomForest(random_state=0).fit(X, y)
    chosen = model.min_samples_leaf_
    assert model.refit(X[:100], y[:100]).min_samples_leaf_ == chosen
