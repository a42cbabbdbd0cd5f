"""Gradient boosting: scikit-learn's numbers, whatever way rows take; quantiles that hold the share they say."""

import numpy as np
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from payoff.decisions.calibration_fits import fit_sigmoid
from payoff.decisions.folds import stratified_folds
from payoff.errors import Invalid
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.random_forest import RandomForest
from payoff.learners.residuals import even_quantiles
from tests.reference.tables import mixed


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_raw_probabilities_are_scikit_learns(K, weighted):
    X, y, categorical = mixed(400, K, 0)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    shared = {
        "max_iter": 23,
        "min_samples_leaf": 7,
        "categorical_features": list(categorical),
        "random_state": 0,
    }
    ours = GradientBoosting(calibration="none", **shared)
    theirs = HistGradientBoostingClassifier(
        max_leaf_nodes=8, l2_regularization=1.0, early_stopping=False, **shared
    )
    expected = theirs.fit(X, y, weights).predict_proba(X)
    np.testing.assert_allclose(
        ours.fit(X, y, weights).predict_proba(X), expected, rtol=1e-12
    )


def test_many_categories_are_pooled_and_still_tell_the_class():
    """300 categories are more than scikit-learn takes; those that occur most are told apart."""
    rng = np.random.default_rng(0)
    common = rng.integers(0, 20, 1900)
    codes = np.concatenate([common, np.arange(20, 300)]).astype(float)
    y = (codes % 2).astype(int)
    X = codes[:, None]
    model = GradientBoosting(
        max_iter=20, calibration="none", categorical_features=[0]
    ).fit(X, y)
    assert (model.predict(X[:1900]) == y[:1900]).all()
    never = model.predict_proba([[5000.0], [np.nan]])
    np.testing.assert_array_equal(never[0], never[1])


@pytest.mark.parametrize(("rows", "leaves"), [(1500, 8), (1501, 16)])
def test_more_rows_grow_larger_trees(rows, leaves):
    X, y, _ = mixed(rows, 2, 0, words=())
    assert (
        GradientBoosting(max_iter=1, calibration="none").fit(X, y).max_leaf_nodes_
        == leaves
    )


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
            one = GradientBoosting(
                max_iter=rounds, calibration="none", random_state=0
            ).fit(X[inside], y[inside])
            P[~inside] = one.posterior(X[~inside])
        calibrated = fit_sigmoid(P, y, np.ones(len(y))).apply(P)
        losses[rounds] = -np.log(calibrated[np.arange(len(y)), y]).mean()
    assert model.n_iter_ == min(losses, key=losses.get)
    assert model.n_iter_ < 40
    assert (
        GradientBoosting(max_iter=40, calibration="none", random_state=0)
        .fit(X, y)
        .n_iter_
        == 40
    )


def test_folds_that_learned_nothing_do_not_silence_the_model():
    """32 rows cannot be split into leaves of 20, 40 can: the model of all rows keeps what it learned."""
    y = np.repeat([0, 1], 20)
    X = np.random.default_rng(0).normal(size=(40, 2)) + 4 * y[:, None]
    model = GradientBoosting(min_samples_leaf=20, random_state=0).fit(X, y)
    assert model.calibration_ == "none"
    plain = GradientBoosting(
        min_samples_leaf=20, max_iter=model.n_iter_, calibration="none", random_state=0
    ).fit(X, y)
    np.testing.assert_array_equal(model.posterior(X), plain.posterior(X))
    assert model.posterior(X)[np.arange(40), y].min() > 0.75


@pytest.mark.parametrize("noise", [1.5, 0.0])
def test_numbers_have_the_errors_of_folds_in_the_sizes_that_are_expected(noise):
    """By hand: rounds by the squared error, sizes by their likelihood; a refit renews the mean alone."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(200, 3)), rng.uniform(0.5, 2, 200)
    y = X[:, 0] + np.exp(noise * X[:, 1]) * rng.normal(size=200)
    model = GradientBoosting(task="regression", max_iter=20, random_state=0).fit(
        X, y, weights
    )
    fold = stratified_folds(
        np.zeros(200, dtype=int),
        10,
        np.random.RandomState(0).randint(np.iinfo(np.int32).max),
    )
    rounds = (1, 2, 3, 5, 7, 10, 15, 20)

    def unseen(target, **options):
        found = np.empty((len(rounds), 200))
        for place, number in np.ndindex(len(rounds), 10):
            inside, one = (
                fold != number,
                HistGradientBoostingRegressor(max_iter=rounds[place], random_state=0),
            )
            one.set_params(l2_regularization=1.0, early_stopping=False, **options)
            found[place, ~inside] = one.fit(
                X[inside], target[inside], weights[inside]
            ).predict(X[~inside])
        return found

    said = unseen(y, max_leaf_nodes=8, min_samples_leaf=10)
    best = np.argmin((said - y) ** 2 @ weights)
    errors = y - said[best]
    typical = np.average(abs(errors), weights=weights)
    size = np.maximum(abs(errors) / typical, 0.1)
    sizes = unseen(size, max_leaf_nodes=4, min_samples_leaf=20, loss="gamma")
    sizes = np.vstack((sizes, np.full(200, np.average(size, weights=weights))))
    likely = np.argmin((np.log(sizes) + size / sizes) @ weights)
    assert (likely == len(rounds)) == (model.model_.spread is None) == (noise == 0)
    scaled = errors / (1.0 if noise == 0 else np.maximum(sizes[likely], 0.1))
    np.testing.assert_allclose(
        model.model_.scaled, even_quantiles(scaled, weights), rtol=1e-9, atol=1e-12
    )
    assert model.n_iter_ == rounds[best]

    before, mean = model.model_, model.predict(X)
    expected = 1.0 if noise == 0 else np.maximum(before.spread.values(X), 0.1)
    np.testing.assert_allclose(
        model.distribution(X).quantiles([1.0])[:, 0],
        mean + expected * before.scaled[-1],
    )
    model.refit(X[:150], y[:150])
    assert (model.model_.spread, model.model_.scaled is before.scaled) == (
        before.spread,
        True,
    )
    assert not np.array_equal(model.predict(X), mean)


@pytest.mark.parametrize("y", [[7.0], [1e38, 0.0, 1.0]])
def test_one_number_or_one_beyond_single_precision_is_refused(y):
    with pytest.raises(Invalid, match=r"two rows|larger unit"):
        GradientBoosting(task="regression").fit(
            np.arange(float(len(y)))[:, None], np.array(y)
        )


def spread_out(n, seed):
    """A number whose noise depends on the row, a category and gaps."""
    rng = np.random.default_rng(seed)
    X = np.column_stack((rng.uniform(-1, 1, (n, 3)), rng.integers(0, 4, n)))
    y = (
        2 * np.sin(3 * X[:, 0])
        + X[:, 3]
        + (0.1 + np.maximum(X[:, 1], 0)) * rng.normal(size=n)
    )
    X[rng.random(n) < 0.05, 2] = np.nan
    return X, y


@pytest.mark.parametrize("kind", [RandomForest, GradientBoosting])
def test_quantiles_hold_the_share_that_they_say_where_noise_differs(kind):
    """Where there is hardly any noise as well as where there is much; a refit keeps that."""
    model = kind(task="regression", categorical_features=[3], random_state=0).fit(
        *spread_out(1500, 0)
    )
    X, y = spread_out(4000, 1)
    for fitted in (model, model.refit(*spread_out(1500, 2))):
        low, high = fitted.distribution(X).quantiles(np.array([0.05, 0.95])).T
        inside = (low <= y) & (y <= high)
        assert inside.mean() == pytest.approx(0.9, abs=0.025)
        assert (high - low)[X[:, 1] > 0.5].mean() > 2 * (high - low)[X[:, 1] < 0].mean()
        assert all(inside[part].mean() > 0.7 for part in (X[:, 1] > 0.5, X[:, 1] < 0))


@pytest.mark.parametrize(
    ("kind", "rel"), [(RandomForest, 0.12), (GradientBoosting, 0.25)]
)
def test_counts_with_many_ties_cost_about_what_is_expected_and_none_is_negative(
    kind, rel
):
    def counts(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 3))
        return X, rng.poisson(np.exp(0.6 * X[:, 0] - 0.7)).astype(float)

    model = kind(task="regression", min_samples_leaf=5, random_state=0).fit(
        *counts(600, 0)
    )
    X, y = counts(4000, 1)
    found = model.distribution(X)
    least, chosen = found.quantiles(np.array([0.01, 0.5])).T
    assert min(least.min(), model.values(X).min()) >= 0
    for quantity in (chosen, np.zeros(len(X))):
        assert found.costs(quantity, 1.0, 1.0).mean() == pytest.approx(
            np.abs(quantity - y).mean(), rel=rel
        )


def test_residuals_count_weights_as_repeated_rows():
    assert even_quantiles(np.array([3.0, 1.0, 2.0]), np.ones(3)) == pytest.approx(
        [1, 2, 3]
    )
    assert len(even_quantiles(np.arange(5000.0), np.ones(5000))) == 1000
