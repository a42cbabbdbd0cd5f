"""Flat forests: ranked categories, and their cost on a growing path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.acquisition.forest import FlatForest, order_categories
from payoff.acquisition.nodes import flatten
from payoff.acquisition.prices import Prices
from payoff.acquisition.tree_grower import PathCosts
from tests.reference.forests import random_case
from tests.reference.stepwise import simulate


@given(seed=st.integers(0, 10**6), shared=st.booleans())
@settings(deadline=None)
def test_costs_along_the_path_are_those_of_asking(seed, shared):
    """Mean simulated cost and error after each tree; unequal discounts in a group are counted in
    the dearest order.
    """
    forest, trees, prices, X, random = random_case(seed)
    if shared:  # one discount for all of a group, which is what a shared needle or a shared visit is
        discount = np.where(prices.group == 0, 0.5, 2.0) * (prices.group >= 0)
        prices = Prices(
            prices.discounted + discount, prices.discounted, prices.group, prices.groups
        )
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
    """Two classes: by the share of class 1; codes never seen, or impossible, count as missing;
    weights count.
    """
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
    heavy = order_categories(X, y, np.array([1, 1, 1, 1, 9, 1, 1, 1.0]), 2, [1]).apply(
        new
    )[:, 1]
    assert sorted(heavy[[0, 1, 2, 4]]) == [0, 1, 2, 3]


def test_a_column_without_any_category_is_missing_throughout():
    """Nothing was ever known there."""
    X = np.full((4, 1), np.nan)
    orders = order_categories(X, np.array([0, 1, 0, 1]), np.ones(4), 2, [0])
    assert np.isnan(orders.apply(np.array([[0.0], [1.0], [np.nan]]))).all()
