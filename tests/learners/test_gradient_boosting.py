"""Gradient boosting: scikit-learn's numbers, whatever way the rows and the progress take."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from app.decisions.calibration_fits import fit_sigmoid
from app.decisions.folds import stratified_folds
from app.learners.gradient_boosting import GradientBoosting
from tests.reference.tables import mixed


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_raw_probabilities_are_scikit_learns(K, weighted):
    X, y, categorical = mixed(400, K, 0)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    shared = {"max_iter": 23, "min_samples_leaf": 7, "categorical_features": list(categorical), "random_state": 0}
    ours = GradientBoosting(calibration="none", **shared)
    theirs = HistGradientBoostingClassifier(max_leaf_nodes=8, l2_regularization=1.0, early_stopping=False, **shared)
    expected = theirs.fit(X, y, weights).predict_proba(X)
    np.testing.assert_allclose(ours.fit(X, y, weights).predict_proba(X), expected, rtol=1e-12)


def test_many_categories_are_pooled_and_still_tell_the_class():
    """300 categories are more than scikit-learn takes; those that occur most are told apart."""
    rng = np.random.default_rng(0)
    common = rng.integers(0, 20, 1900)
    codes = np.concatenate([common, np.arange(20, 300)]).astype(float)
    y = (codes % 2).astype(int)
    X = codes[:, None]
    model = GradientBoosting(max_iter=20, calibration="none", categorical_features=[0]).fit(X, y)
    assert (model.predict(X[:1900]) == y[:1900]).all()
    never = model.predict_proba([[5000.0], [np.nan]])
    np.testing.assert_array_equal(never[0], never[1])


@pytest.mark.parametrize(("rows", "leaves"), [(1500, 8), (1501, 16)])
def test_more_rows_grow_larger_trees(rows, leaves):
    X, y, _ = mixed(rows, 2, 0, words=())
    assert GradientBoosting(max_iter=1, calibration="none").fit(X, y).max_leaf_nodes_ == leaves


def noise_and_signal(n=300, seed=0):
    """Labels that a hundred rounds overfit: one weak feature among noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return X, (X[:, 0] + 2 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.thorough
def test_rounds_stop_where_unseen_rows_lose_least():
    """The rounds are the stage of the smallest calibrated log loss on the folds, by hand; more are not made."""
    X, y = noise_and_signal()
    model = GradientBoosting(max_iter=40, random_state=0).fit(X, y)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    fold = stratified_folds(y, 5, seed)
    losses = {}
    for rounds in (2, 4, 6, 10, 14, 20, 30, 40):
        P = np.empty((len(y), 2))
        for number in range(5):
            inside = fold != number
            one = GradientBoosting(max_iter=rounds, calibration="none", random_state=0).fit(X[inside], y[inside])
            P[~inside] = one.posterior(X[~inside])
        calibrated = fit_sigmoid(P, y, np.ones(len(y))).apply(P)
        losses[rounds] = -np.log(calibrated[np.arange(len(y)), y]).mean()
    assert model.n_iter_ == min(losses, key=losses.get)
    assert model.n_iter_ < 40
    assert GradientBoosting(max_iter=40, calibration="none", random_state=0).fit(X, y).n_iter_ == 40


def test_folds_that_learned_nothing_do_not_silence_the_model():
    """32 rows cannot be split into leaves of 20, 40 can: the model of all rows keeps what it learned."""
    y = np.repeat([0, 1], 20)
    X = np.random.default_rng(0).normal(size=(40, 2)) + 4 * y[:, None]
    model = GradientBoosting(min_samples_leaf=20, random_state=0).fit(X, y)
    assert model.calibration_ == "none"
    plain = GradientBoosting(min_samples_leaf=20, max_iter=model.n_iter_, calibration="none", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.posterior(X), plain.posterior(X))
    assert model.posterior(X)[np.arange(40), y].min() > 0.75
