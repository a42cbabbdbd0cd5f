"""Random forests, prices and rows for tests of asking step by step; and the slow twin of a forest of numbers."""

import numpy as np

from payoff.acquisition.forest import FlatForest
from payoff.acquisition.growth import bin_columns, grow_tree
from payoff.acquisition.nodes import flatten
from payoff.acquisition.prices import Prices


def random_prices(random, m):
    """Some zero, some equal, some in one of two groups with discounts of any size."""
    cost = random.choice([0.0, 0.1, 0.2, 1.0, 2.5, 7.0], m)
    group = random.integers(-1, 2, m).astype(np.int32)
    discounted = np.where(group < 0, cost, cost * random.choice([0.0, 0.3, 1.0], m))
    return Prices(cost, discounted, group, ("blood", "image"))


def random_trees(random, T, m, K, n=40, gaps=0.1):
    """Trees grown on noise with ties and gaps; `alpha` differs, so some have mixed leaves."""
    X = random.integers(0, 5, (n, m)).astype(float)
    X[random.random((n, m)) < gaps] = np.nan
    y = random.integers(0, K, n)
    drawn = [np.bincount(random.integers(0, n, n), minlength=n) for _ in range(T)]
    table = bin_columns(X)
    return [
        grow_tree(table, y, counts, K, np.ones(m), float(random.integers(0, 3)), 4)
        for counts in drawn
    ]


def random_case(seed, T=7, m=5, K=3):
    """A forest, its trees, prices, and rows to decide on, some of them with missing values."""
    random = np.random.default_rng(seed)
    trees = random_trees(random, T, m, K)
    X = random.integers(0, 5, (12, m)).astype(float)
    X[random.random(X.shape) < 0.1] = np.nan
    return (
        FlatForest(flatten(trees, np.full(K, 1 / K)), m),
        trees,
        random_prices(random, m),
        X,
        random,
    )


def near_numbers(own, y, weights, leaves, without=-1):
    """Numbers with their weights: each tree shares 1 among the training rows, in leaves `own` (n, T), of a row's leaf.

    A leaf of -1 is that of a tree that does not count; `without` is a training row that counts in none.
    """
    total = [0.0] * len(y)
    for t, leaf in enumerate(leaves):
        rows = [i for i in range(len(y)) if own[i][t] == leaf != -1 and i != without]
        for i in rows:
            total[i] += weights[i] / sum(weights[j] for j in rows)
    return list(zip(y, total, strict=True))
