"""Compile the kernels before the first request or job needs them."""

from __future__ import annotations

import numpy as np

from app.acquisition.binning import bin_columns
from app.acquisition.extra_trees import Rule, grow
from app.acquisition.forest import FlatForest, PathCosts
from app.acquisition.prices import Prices
from app.acquisition.session import StepwiseModel
from app.acquisition.tree import grow_tree
from app.acquisition.tree_of_classifiers import TreeOfClassifiers
from app.arrays import F64


def warm() -> None:
    """Run every kernel once, on few rows; seconds when nothing is cached on disk, else milliseconds."""
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    prices = Prices.unit(2)
    tree = grow_tree(bin_columns(X), y, np.ones(4, dtype=np.int64), 2, prices.cost)
    forest = FlatForest.join([tree], 2, np.ones(2) / 2)
    forest.posterior(X)
    forest.leaves(X)
    _warm_model(forest, X, prices)
    list(PathCosts(X, y, np.ones(4), prices, 2).add(forest))
    trees, _ = grow(np.ascontiguousarray(X.T, dtype=np.float32), y, np.ones(4), 2, Rule(1), [0])
    trees.shares(X.astype(np.float32), np.ones(4, dtype=np.int32))
    out, zero, needs = np.full(1, -1, dtype=np.int32), np.zeros(1), np.array([[True, False]])
    _warm_model(TreeOfClassifiers(out, out, zero, needs, zero, _FirstColumn(), zero, 2), X, prices)


class _FirstColumn:
    """Two scores, both the first feature."""

    def scores(self, X: F64) -> F64:
        return np.repeat(X[:, :1], 2, axis=1)


def _warm_model(model: StepwiseModel, X: F64, prices: Prices) -> None:
    model.step(X, np.zeros(X.shape, dtype=np.int32), prices)
    model.travel(X, prices)
