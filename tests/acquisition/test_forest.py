"""Flat forests: taken from scikit-learn, with ranked categories, and their cost on a growing path."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from app.acquisition.forest import FlatForest, order_categories
from app.acquisition.nodes import flatten
from app.acquisition.prices import Prices
from app.acquisition.tree_grower import PathCosts
from tests.reference.acquisition import nested, walk
from tests.reference.forests import random_case
from tests.reference.stepwise import from_sklearn, simulate


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("min_samples_leaf", [1, 7])
def test_it_answers_as_the_forest_it_was_taken_from(gaps, min_samples_leaf):
    """Probabilities of scikit-learn's forest, also for missing values, and on its thresholds and beside them."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    X[:, 4] = np.round(X[:, 4], 1)
    y = (X[:, 0] + X[:, 4] > 0).astype(int) + (X[:, 1] > 1)
    X[random.random(X.shape) < gaps] = np.nan
    model = RandomForestClassifier(12, min_samples_leaf=min_samples_leaf, random_state=1).fit(X, y)
    forest = from_sklearn(model)
    new = random.normal(size=(400, 5))
    cuts = np.concatenate([tree.tree_.threshold[tree.tree_.feature == 4] for tree in model.estimators_])
    cuts = cuts[np.isfinite(cuts)]
    for shift in (-np.inf, 0, np.inf):
        new[:, 4] = np.resize(cuts, 400) if shift == 0 else np.nextafter(np.resize(cuts, 400), shift)
        np.testing.assert_allclose(forest.posterior(new), model.predict_proba(new), rtol=0, atol=1e-6)
    new[random.random(new.shape) < 0.3] = np.nan
    np.testing.assert_allclose(forest.posterior(new), model.predict_proba(new), rtol=0, atol=1e-6)
    np.testing.assert_allclose(forest.nodes.prior, np.bincount(y) / 300, atol=0.05)


@given(values=st.lists(st.floats(-1e30, 1e30), min_size=2, max_size=30, unique=True))
@settings(deadline=None, max_examples=30)
def test_values_rounded_to_float32_are_split_where_scikit_learn_splits_them(values):
    """No float64 goes another way than its rounded self, however near two training values are."""
    X = np.array(values)[:, None]
    y = np.arange(len(values)) % 2
    model = RandomForestClassifier(3, random_state=0).fit(X, y)
    near = np.concatenate([X, np.nextafter(X, np.inf), np.nextafter(X, -np.inf), X * (1 + 1e-9)])
    votes = [tree.predict(near) for tree in model.estimators_]
    np.testing.assert_array_equal(from_sklearn(model).votes(near)[:, 1], np.sum(votes, axis=0))


def test_it_is_its_trees():
    """Votes and averaged distributions of trees walked one by one; a pickled copy answers the same."""
    forest, trees, _, X, _ = random_case(5)
    leaves = [[walk(nested(tree), dict(enumerate(x)))[0]["counts"] for tree in trees] for x in X.tolist()]
    shares = np.array(leaves) / np.sum(leaves, axis=2, keepdims=True)
    np.testing.assert_allclose(forest.posterior(X), shares.mean(axis=1), atol=1e-7)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(forest)).posterior(X), forest.posterior(X))
    np.testing.assert_array_equal(np.concatenate([forest.posterior(x[None]) for x in X]), forest.posterior(X))
    np.testing.assert_array_equal(forest.columns, np.unique(np.concatenate([t.feature for t in trees]))[1:])


@given(seed=st.integers(0, 10**6), shared=st.booleans())
@settings(deadline=None)
def test_costs_along_the_path_are_those_of_asking(seed, shared):
    """Mean simulated cost and error after each tree; unequal discounts in a group are counted in the dearest order."""
    forest, trees, prices, X, random = random_case(seed)
    if shared:  # one discount for all of a group, which is what a shared needle or a shared visit is
        discount = np.where(prices.group == 0, 0.5, 2.0) * (prices.group >= 0)
        prices = Prices(prices.discounted + discount, prices.discounted, prices.group, prices.groups)
    y, weights = random.integers(0, 3, len(X)), random.random(len(X)) + 0.1
    costs = PathCosts(X, y, weights, prices, 3)
    points = [*costs.add(FlatForest(flatten(trees[:3], forest.nodes.prior), 5)), *costs.add(
        FlatForest(flatten(trees[3:], forest.nodes.prior), 5))]  # fmt: skip
    for size, (cost, error) in enumerate(points, start=1):
        some = FlatForest(flatten(trees[:size], forest.nodes.prior), 5)
        run = simulate(some, X, prices, stop_when_settled=False)
        mean = np.average(run.cost, weights=weights)
        assert cost == pytest.approx(mean) if shared else cost >= mean - 1e-9
        assert error == pytest.approx(np.average(some.predict(X) != y, weights=weights))


def test_categories_stand_in_the_order_of_their_classes():
    """Two classes: by the share of class 1; codes never seen, or impossible, count as missing; weights count."""
    code = np.array([0, 0, 1, 1, 2, 2, 4.0, np.nan])
    y = np.array([1, 1, 0, 0, 0, 1, 0, 1])
    X = np.column_stack([np.arange(8.0), code])
    orders = order_categories(X, y, np.ones(8), 2, [1])
    new = np.array([[9.0, c] for c in (0, 1, 2, 3, 4, 7, -1, 0.5, np.nan)])
    nan = np.nan
    ranked = orders.apply(new)[:, 1]
    assert np.isin(ranked[[0, 2]], [[3, 2], [0, 1]]).all()
    np.testing.assert_array_equal(abs(ranked - ranked[0]), [0, *abs(ranked[1:3] - ranked[0]), nan,
                                  abs(ranked[4] - ranked[0]), nan, nan, nan, nan])  # fmt: skip
    assert abs(ranked[2] - ranked[0]) == 1
    assert abs(ranked[1] - ranked[4]) == 1
    np.testing.assert_array_equal(new[:, 1], [0, 1, 2, 3, 4, 7, -1, 0.5, nan])
    heavy = order_categories(X, y, np.array([1, 1, 1, 1, 9, 1, 1, 1.0]), 2, [1]).apply(new)[:, 1]
    assert sorted(heavy[[0, 1, 2, 4]]) == [0, 1, 2, 3]


def test_a_column_without_any_category_is_missing_throughout():
    """Nothing was ever known there."""
    X = np.full((4, 1), np.nan)
    orders = order_categories(X, np.array([0, 1, 0, 1]), np.ones(4), 2, [0])
    assert np.isnan(orders.apply(np.array([[0.0], [1.0], [np.nan]]))).all()
