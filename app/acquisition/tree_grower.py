"""Prepared rows to grow trees from, and the parallel growth of trees."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from app.acquisition.binning import Table, bin_columns
from app.acquisition.categories import order_categories
from app.acquisition.forest import FlatForest, PathCosts
from app.acquisition.nodes import Nodes, beside, flatten
from app.acquisition.prices import Prices
from app.acquisition.tree import grow_tree
from app.progress import checkpoint

_CELLS = 8_000_000  # of the table, times trees, in one piece of work: a quarter of a second or so
_MAX = 16  # trees of a piece, many of them unused where a budget ends


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


class TreeGrower:
    """Binned rows that trees are grown from."""

    def __init__(
        self, rows: Rows, n_classes: int, prices: Prices, categorical: Sequence[int], *, max_depth: int | None = None
    ) -> None:
        self.prior = np.bincount(rows.codes, weights=rows.weights, minlength=n_classes) / rows.weights.sum()
        self._orders = order_categories(rows.X, rows.codes, rows.weights, n_classes, categorical)
        self._table = bin_columns(self._orders.apply(rows.X))
        self._codes, self._share = rows.codes, rows.weights / rows.weights.sum()
        self._prices, self._max_depth = prices, max_depth

    @property
    def batch(self) -> int:
        """The number of trees of a task that is worth its overhead."""
        return int(np.clip(_CELLS // max(self._table.codes.size, 1), 1, _MAX))

    def order(self, rule: Rule, seeds: np.ndarray) -> tuple[Any, ...]:
        """The arguments of `grow_drawn` for one tree of each seed."""
        prices = self._prices.cost**rule.exponent
        rows = (self._table.codes, self._table.low, self._table.high, self._codes, self._share, self.prior)
        return *rows, prices, rule.alpha, self._max_depth, seeds

    def forest(self, parts: Iterable[Nodes]) -> FlatForest:
        """Of trees that were grown from these rows."""
        return FlatForest(beside(list(parts), self.prior), len(self._prices), self._orders)

    def costs(self, validation: Rows) -> PathCosts:
        """Mean cost and error on the validation rows of the forest of 1, 2, … trees."""
        X = self._orders.apply(validation.X)
        return PathCosts(X, validation.codes, validation.weights, self._prices, len(self.prior))


class Walk:
    """Trees of every rule from every tree grower, rule by rule; joblib's parallel_config says where they grow.

    Iterated once: (number of the rule, for each grower the trees of the next few seeds, flat). Some are grown ahead of
    what is asked for; what grows does not depend on where.
    """

    def __init__(self, growers: Sequence[TreeGrower], rules: Sequence[Rule], seeds: np.ndarray) -> None:
        self._growers, self._rules, self._seeds = growers, rules, seeds
        self._left: set[int] = set()
        self._ordered: deque[int] = deque()

    def leave(self, number: int) -> None:
        """Grow no more of this rule."""
        self._left.add(number)

    def __iter__(self) -> Iterator[tuple[int, list[Nodes]]]:
        orders = (delayed(grow_drawn)(*order) for order in self._orders())
        grown = Parallel(prefer="threads", return_as="generator")(orders)
        for first in grown:
            number = self._ordered.popleft()
            batches = [first, *(next(grown) for _ in self._growers[1:])]
            if number not in self._left:
                yield number, batches

    def _orders(self) -> Iterator[tuple[Any, ...]]:
        batch = min(tree_grower.batch for tree_grower in self._growers)
        for number, rule in enumerate(self._rules):
            for start in range(0, len(self._seeds), batch):
                if number in self._left:
                    break
                self._ordered.append(number)
                yield from (
                    tree_grower.order(rule, self._seeds[start : start + batch]) for tree_grower in self._growers
                )


def grow_drawn(
    bins: np.ndarray, low: np.ndarray, high: np.ndarray, codes: np.ndarray, share: np.ndarray, prior: np.ndarray,
    prices: np.ndarray, alpha: float, max_depth: int | None, seeds: np.ndarray,
) -> Nodes:  # fmt: skip
    """One tree for each seed, from as many rows as there are, drawn with replacement by their shares (n,) of all
    weight; the first three are a `Table`.
    """
    n, trees = len(codes), []
    for seed in seeds:
        drawn = np.bincount(np.random.default_rng(int(seed)).choice(n, size=n, p=share), minlength=n)
        trees.append(grow_tree(Table(bins, low, high), codes, drawn, len(prior), prices, alpha, max_depth))
        checkpoint()
    return flatten(trees, prior)
