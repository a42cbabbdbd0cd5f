"""Trees that ask for cheap features first: rows prepared as small codes, one tree, and many grown in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from app.acquisition._growth import grow
from app.acquisition.categories import order_categories
from app.acquisition.forest import FlatForest, PathCosts
from app.acquisition.nodes import Nodes, Tree, beside, flatten
from app.acquisition.prices import Prices
from app.progress import checkpoint

MAX_BINS = 255  # codes 0…254 in one byte
MISSING = 255  # the code that is left


@dataclass(frozen=True, eq=False)
class Table:
    """n rows of m columns in codes: `codes` (m, n) uint8; `low`, `high` (m, 255) the ends of each bin's values."""

    codes: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bin_columns(X: np.ndarray) -> Table:
    """Bins of float64 `X` (n, m), NaN where missing.

    A column of at most 255 different values has one bin per value, so that nothing is lost; a longer one is cut at its
    quantiles. O(m n log n), one byte per cell and one column of floats at a time.
    """
    n, m = X.shape
    table = Table(np.empty((m, n), dtype=np.uint8), np.zeros((m, MAX_BINS)), np.zeros((m, MAX_BINS)))
    for j in range(m):
        column = X[:, j]
        values = np.unique(column[~np.isnan(column)])
        last = values if len(values) <= MAX_BINS else _quantiles(column)
        table.codes[j] = np.searchsorted(last, column)
        table.codes[j, np.isnan(column)] = MISSING
        if len(values):
            first = values[np.concatenate(([0], np.searchsorted(values, last[:-1], side="right")))]
            table.low[j, : len(last)] = first
            table.high[j, : len(last)] = last
    return table


def _quantiles(column: np.ndarray) -> np.ndarray:
    """The largest value of each bin, ascending: values of the column itself, the last one its maximum."""
    known = np.sort(column[~np.isnan(column)])
    places = (np.arange(1, MAX_BINS + 1) * len(known)) // MAX_BINS - 1
    return np.unique(known[places])


_UNLIMITED = 2**31 - 1


def grow_tree(
    table: Table, y: np.ndarray, drawn: np.ndarray, n_classes: int, prices: np.ndarray, alpha: float = 0.0,
    max_depth: int | None = None,
) -> Tree:  # fmt: skip
    """GreedyTree: split by the feature and threshold of the least price per guaranteed drop of impurity.

    `table` of n rows and m columns, y (n,) class codes, drawn (n,) how often each row counts (integers >= 0), prices
    (m,). At each node the split with the smallest `c(t) / (F(S) - max(F(left), F(right)))` is taken, F being
    threshold-pairs with `alpha`; equal risks go to the larger drop, then to the feature used last on the path (it is
    paid for), then to the earlier feature, then to missing values on the right, then to the smaller threshold. A
    feature keeps its price in this rule also where it is already on the path: free repeats make trees that ask for the
    same feature over and over. Zero prices count as the smallest price above zero, for the same reason.
    A node is a leaf when F is 0, at `max_depth`, or where no split lowers F. A plain function of arrays, so that any
    joblib backend can run it. O(rows x varying features) per level of the tree; memory 1 byte per cell.
    Source: Nan, Wang, Saligrama (2015), algorithm 1, subroutine GreedyTree.
    """
    rows = np.flatnonzero(drawn)
    paid = prices[prices > 0]
    floor = paid.min() if len(paid) else 1.0
    return Tree(
        *grow(
            np.ascontiguousarray(table.codes[:, rows]), table.low, table.high,
            np.arange(len(rows), dtype=np.int32), y[rows].astype(np.int32), drawn[rows].astype(np.int32),
            np.maximum(prices, floor).astype(np.float64), n_classes, float(alpha),
            _UNLIMITED if max_depth is None else max_depth,
        )
    )  # fmt: skip


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
