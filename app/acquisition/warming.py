"""Compile the kernels before the first request or job needs them."""

from __future__ import annotations

import numpy as np

from app.acquisition import tree_session
from app.acquisition.binning import bin_columns
from app.acquisition.forest import FlatForest, PathCosts
from app.acquisition.prices import Prices
from app.acquisition.session import simulate, step
from app.acquisition.trajectories import travel
from app.acquisition.tree import grow_tree
from app.acquisition.tree_of_classifiers import TreeOfClassifiers


def warm() -> None:
    """Run every kernel once, on few rows; seconds when nothing is cached on disk, else milliseconds."""
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    prices = Prices.unit(2)
    tree = grow_tree(bin_columns(X), y, np.ones(4, dtype=np.int64), 2, prices.cost)
    forest = FlatForest.join([tree], 2, np.ones(2) / 2)
    forest.posterior(X)
    step(forest, X, np.zeros(X.shape), prices)
    simulate(forest, X, prices)
    travel(forest, X, prices)
    list(PathCosts(X, y, np.ones(4), prices, 2).add(forest))
    _warm_tree(X, prices)


class _FirstColumn:
    """Two scores that are the first feature."""

    def scores(self, X: np.ndarray) -> np.ndarray:
        return np.repeat(X[:, :1], 2, axis=1)


def _warm_tree(X: np.ndarray, prices: Prices) -> None:
    out, zero = np.full(1, -1, dtype=np.int32), np.zeros(1)
    needs = np.array([[True, False]])
    tree = TreeOfClassifiers(out, out, zero, needs, zero, _FirstColumn(), zero, 2)
    tree_session.step(tree, X, np.zeros(X.shape), prices)
    tree_session.travel(tree, X, prices)
