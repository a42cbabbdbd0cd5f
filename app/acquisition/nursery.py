"""Rows made ready to grow trees from, and how many trees are grown from them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from app.acquisition.binning import Table, bin_columns
from app.acquisition.categories import order_categories
from app.acquisition.forest import FlatForest, PathCosts
from app.acquisition.prices import Prices
from app.acquisition.tree import Tree, grow_tree

_ROUND = 8  # trees grown between two looks at the budget; what grows does not depend on it


class Rule(NamedTuple):
    """How trees are grown: threshold of the impurity, and exponent of the price in the split rule."""

    alpha: float
    exponent: float


class Rows(NamedTuple):
    """Values (n, m) with category codes, class codes (n,), weights (n,) above zero."""

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    def take(self, rows: np.ndarray) -> Rows:
        return Rows(self.X[rows], self.codes[rows], self.weights[rows])


class Nursery:
    """Binned rows that trees are grown from; joblib's parallel_config says where (threads by default)."""

    def __init__(
        self, rows: Rows, n_classes: int, prices: Prices, categorical: Sequence[int], *,
        max_depth: int | None = None, n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.prior = np.bincount(rows.codes, weights=rows.weights, minlength=n_classes) / rows.weights.sum()
        self._orders = order_categories(rows.X, rows.codes, rows.weights, n_classes, categorical)
        self._table = bin_columns(self._orders.apply(rows.X))
        self._codes, self._share = rows.codes, rows.weights / rows.weights.sum()
        self._prices, self._max_depth, self._n_jobs = prices, max_depth, n_jobs

    def grow(self, rule: Rule, seeds: np.ndarray) -> Iterator[list[Tree]]:
        """The tree of each seed, some at a time, each as it is asked for."""
        prices = self._prices.cost**rule.exponent
        rows = (self._table, self._codes, self._share, len(self.prior))
        grow = delayed(grow_drawn)
        for start in range(0, len(seeds), _ROUND):
            yield Parallel(n_jobs=self._n_jobs, prefer="threads")(
                grow(*rows, prices, rule.alpha, self._max_depth, int(seed)) for seed in seeds[start : start + _ROUND]
            )

    def forest(self, trees: Iterable[Tree]) -> FlatForest:
        return FlatForest.join(trees, len(self._prices), self.prior, self._orders)

    def path(self, rule: Rule, seeds: np.ndarray, validation: Rows) -> Iterator[tuple[float, float]]:
        """Mean cost and error on the validation rows of the forest of 1, 2, … trees; grows them as it is asked."""
        X = self._orders.apply(validation.X)
        costs = PathCosts(X, validation.codes, validation.weights, self._prices, len(self.prior))
        for trees in self.grow(rule, seeds):
            yield from costs.add(self.forest(trees))


def grow_drawn(
    table: Table, codes: np.ndarray, share: np.ndarray, n_classes: int, prices: np.ndarray, alpha: float,
    max_depth: int | None, seed: int,
) -> Tree:  # fmt: skip
    """One tree from as many rows as there are, drawn with replacement by their shares (n,) of all weight."""
    n = len(codes)
    drawn = np.bincount(np.random.default_rng(seed).choice(n, size=n, p=share), minlength=n)
    return grow_tree(table, codes, drawn, n_classes, prices, alpha, max_depth)
