"""Threshold-pairs, and the tree that splits by them: definitions, and what the cost guarantee
needs.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.acquisition.forest import FlatForest
from payoff.acquisition.growth import bin_columns, grow_tree, threshold_pairs
from payoff.acquisition.nodes import flatten
from payoff.acquisition.prices import Prices
from tests.reference.acquisition import depth, greedy_tree, nested, pairs
from tests.reference.stepwise import simulate

ALPHAS = [0.0, 0.5, 1.0, 2.0, 3.0]
COUNTS = list(itertools.product(range(6), repeat=3))


def impurity(counts, alpha):
    return threshold_pairs(np.array(counts), alpha)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_it_is_its_definition(alpha):
    """Equal to the sum over ordered pairs for every small set."""
    assert all(impurity(counts, alpha) == pairs(counts, alpha) for counts in COUNTS)


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    m=st.integers(1, 4),
    K=st.integers(1, 4),
    values=st.integers(1, 12),
    gaps=st.sampled_from([0.0, 0.2, 0.7]),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    max_depth=st.sampled_from([None, 0, 1, 3]),
)
def test_a_tree_is_the_literal_one(seed, n, m, K, values, gaps, alpha, max_depth):
    """Same features, exact thresholds, routes and counts: many ties, repeated draws, missing
    values, any depth.
    """
    random = np.random.default_rng(seed)
    X = random.integers(0, values, (n, m)) / 7
    X[random.random((n, m)) < gaps] = np.nan
    y, drawn = random.integers(0, K, n), random.integers(0, 4, n)
    drawn[0] += 1
    prices = random.integers(1, 4, m).astype(float)
    grown = nested(grow_tree(bin_columns(X), y, drawn, K, prices, alpha, max_depth))
    listed = [
        (row.tolist(), int(label))
        for row, label in zip(X.repeat(drawn, axis=0), y.repeat(drawn), strict=True)
    ]
    assert grown == greedy_tree(
        listed, K, prices, alpha, math.inf if max_depth is None else max_depth
    )


def example():
    """Section 2.4: 1024 rows of ten bits, four classes by the first two bits but for one row in
    each quarter.
    """
    number = np.arange(1024)
    X = (number[:, None] >> np.arange(9, -1, -1)) & 1
    y = number // 256
    y[::256] = [1, 2, 3, 0]
    return X.astype(float), y


@pytest.mark.parametrize(
    ("alpha", "wrong", "cost"), [(0, 0, 10)] + [(alpha, 4, 2) for alpha in range(1, 11)]
)
def test_the_papers_example(alpha, wrong, cost):
    """Allowing some error takes the greatest cost of a row from ten features to two, at four
    errors.
    """
    X, y = example()
    tree = grow_tree(bin_columns(X), y, np.ones(1024, int), 4, np.ones(10), alpha)
    forest = FlatForest(flatten([tree], np.full(4, 0.25)), 10)
    asked = simulate(forest, X, Prices.unit(10), stop_when_settled=False)
    assert depth(nested(tree)) == cost
    assert asked.cost.max() == cost
    assert (forest.predict(X) != y).sum() == wrong


def test_rows_of_large_nodes_are_counted_as_those_of_small_ones():
    """More rows than bins, and more values than bins, some missing: every training row still
    reaches a pure leaf. A column of as many values as there are bins keeps each.
    """
    random = np.random.default_rng(0)
    X = np.round(random.normal(size=(3000, 3)), 5)
    X[:, 2] = random.permutation(np.arange(3000) % 255) / 3
    X[random.random(3000) < 0.1, 0] = np.nan
    y = (
        (X[:, 0] > 0.3).astype(int)
        + np.isnan(X[:, 0])
        + (X[:, 1] > -0.2)
        + (X[:, 2] * 3).round().astype(int)
    ) % 2
    tree = grow_tree(bin_columns(X), y, np.ones(3000, int), 2, np.ones(3))
    forest = FlatForest(flatten([tree], np.ones(2) / 2), 3)
    assert (forest.predict(X) == y).mean() > 0.99


def test_a_cheap_feature_is_preferred_and_a_free_one_does_not_take_over():
    """Price decides between equals; zero counts as the smallest price, not as infinitely good."""
    random = np.random.default_rng(1)
    good = random.integers(0, 2, 200).astype(float)
    X = np.column_stack([good, good, random.integers(0, 2, 200)])
    y = good.astype(int)

    def root(*prices):
        return grow_tree(
            bin_columns(X), y, np.ones(200, int), 2, np.array(prices, float)
        ).feature[0]

    assert root(2, 1, 1) == 1
    assert root(1, 2, 1) == 0
    assert root(1, 2, 0) == 0
    assert root(0, 0, 0) == 0


def test_neighbouring_floats_are_told_apart():
    """The middle of two adjacent numbers of float32 rounds to one of them; the lower one goes left
    all the same.
    """
    X = np.array(
        [[1.0], [np.nextafter(np.float32(1), np.float32(2))], [-1e38], [3.4e38]]
    )
    y = np.array([0, 1, 1, 0])
    tree = grow_tree(bin_columns(X), y, np.ones(4, int), 2, np.ones(1))
    forest = FlatForest(flatten([tree], np.ones(2) / 2), 1)
    np.testing.assert_array_equal(forest.predict(X), y)
