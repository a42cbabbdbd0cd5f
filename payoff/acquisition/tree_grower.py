"""Many trees that ask for cheap features first: grown in parallel, and what they cost together."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed

from payoff.acquisition.forest import FlatForest, largest, order_categories
from payoff.acquisition.growth import BinnedTable, bin_columns, grow_tree
from payoff.acquisition.nodes import Nodes, PriceArrays, beside, child, flatten, tested
from payoff.acquisition.prices import Prices
from payoff.arrays import F32, F64, I32, Bools, Indices
from payoff.compiled import kernel

# Cells of the table times trees of a batch, which grows in about a quarter of a second.
_CELLS_OF_BATCH = 8_000_000
_MAX_TREES_OF_BATCH = 16  # where a budget ends, the other trees of a batch are not used


class Rule(NamedTuple):
    """How trees are grown: the threshold of the impurity, and the exponent of prices in splits."""

    alpha: float
    exponent: float


class Sample(NamedTuple):
    """Values (n, m) with category codes, class codes (n,), weights (n,) above zero."""

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray

    def take(self, rows: np.ndarray) -> Self:
        """The sample of these rows."""
        return type(self)(self.X[rows], self.codes[rows], self.weights[rows])


class TreeGrower:
    """Binned rows that trees are grown from."""

    def __init__(
        self,
        rows: Sample,
        n_classes: int,
        prices: Prices,
        categorical: Sequence[int],
        *,
        max_depth: int | None = None,
    ) -> None:
        total = rows.weights.sum()
        self.prior = (
            np.bincount(rows.codes, weights=rows.weights, minlength=n_classes) / total
        )
        self._orders = order_categories(
            rows.X, rows.codes, rows.weights, n_classes, categorical
        )
        self._table = bin_columns(self._orders.apply(rows.X))
        self._codes = rows.codes
        self._share = rows.weights / total
        self._prices = prices
        self._max_depth = max_depth

    @property
    def batch(self) -> int:
        """The number of trees of a task that is worth its overhead."""
        trees = _CELLS_OF_BATCH // max(self._table.codes.size, 1)
        return int(np.clip(trees, 1, _MAX_TREES_OF_BATCH))

    def order(self, rule: Rule, seeds: np.ndarray) -> tuple[Any, ...]:
        """The arguments of `grow_drawn` for one tree of each seed."""
        prices = self._prices.cost**rule.exponent
        table = self._table
        rows = (
            table.codes,
            table.low,
            table.high,
            self._codes,
            self._share,
            self.prior,
        )
        return *rows, prices, rule.alpha, self._max_depth, seeds

    def forest(self, parts: Iterable[Nodes]) -> FlatForest:
        """The forest of trees that were grown from these rows."""
        return FlatForest(
            beside(list(parts), self.prior), len(self._prices), self._orders
        )

    def costs(self, validation: Sample) -> "PathCosts":
        """Mean cost and error on the validation rows of the forest of 1, 2, … trees."""
        X = self._orders.apply(validation.X)
        return PathCosts(
            X, validation.codes, validation.weights, self._prices, len(self.prior)
        )


def batches(
    growers: Sequence[TreeGrower], rule: Rule, seeds: np.ndarray
) -> Iterator[list[Nodes]]:
    """For each grower the flat trees of the next few seeds; joblib's parallel_config sets where.

    Some batches are grown before the caller takes them; the trees do not depend on where they grow.
    When the caller takes no more, no more start, but those that are growing are awaited: joblib
    warns of results that are not taken.
    """
    batch = min(grower.batch for grower in growers)
    is_over = False

    def work() -> Iterator[Any]:
        for start in range(0, len(seeds), batch):
            if is_over:
                return
            few_seeds = seeds[start : start + batch]
            yield from (
                delayed(grow_drawn)(*grower.order(rule, few_seeds))
                for grower in growers
            )

    trees = Parallel(prefer="threads", return_as="generator")(work())
    try:
        for first in trees:
            yield [first, *(next(trees) for _ in growers[1:])]
    finally:
        is_over = True
        for _ in trees:
            pass


def grow_drawn(
    bins: np.ndarray, low: np.ndarray, high: np.ndarray, codes: np.ndarray, share: np.ndarray,
    prior: np.ndarray, prices: np.ndarray, alpha: float, max_depth: int | None, seeds: np.ndarray,
) -> Nodes:  # fmt: skip
    """One tree for each seed, from n rows drawn with replacement by their shares (n,).

    The first three arguments are those of a `BinnedTable`.
    """
    n = len(codes)
    table = BinnedTable(bins, low, high)
    trees = []
    for seed in seeds:
        rows = np.random.default_rng(int(seed)).choice(n, size=n, p=share)
        drawn = np.bincount(rows, minlength=n)
        trees.append(
            grow_tree(table, codes, drawn, len(prior), prices, alpha, max_depth)
        )
    return flatten(trees, prior)


class PathCosts:
    """Mean cost and error of a growing forest on n rows: X (n, m), class codes and weights (n,).

    Categories in X are ranked.
    """

    def __init__(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        prices: Prices,
        n_classes: int,
    ) -> None:
        self._rows = (np.ascontiguousarray(X, dtype=np.float32), codes, weights)
        self._prices = prices.arrays
        self._used = np.zeros(X.shape, dtype=np.bool_)
        self._discount = np.zeros((len(X), len(prices.groups)))
        self._votes = np.zeros((len(X), n_classes), dtype=np.int32)
        self._spent = 0.0

    def add(self, forest: FlatForest) -> Iterator[tuple[float, float]]:
        """Add the trees of `forest` one by one; mean cost and error per row after each.

        O(n depth) a tree.
        A feature is paid for once per row over all trees, and not where it is missing; of a group
        the member with the largest discount counts as the first, so no order of asking costs more.
        """
        cost, error = np.full(forest.n_trees, self._spent), np.zeros(forest.n_trees)
        state = (self._used, self._discount, self._votes)
        prefixes(forest.nodes, *self._rows, self._prices, *state, cost, error)
        self._spent = float(cost[-1]) if len(cost) else self._spent
        total = self._rows[2].sum()
        return zip((cost / total).tolist(), (error / total).tolist(), strict=True)


@kernel
def prefixes(
    nodes: Nodes, X: F32, y: Indices, weight: F64, prices: PriceArrays,
    used: Bools, discount: F64, votes: I32, cost: F64, error: F64,
) -> None:  # fmt: skip
    """Total cost and weighted errors after each tree, on top of the trees already counted.

    `used` (n, m), `discount` (n, groups) and `votes` (n, K) hold the rows' state between calls:
    features paid for, surcharges paid by group, votes. In a group the member with the largest
    discount counts as the first, the most expensive order.
    """
    price, discounted, group = prices
    total = 0.0
    for t in range(nodes.roots.shape[0]):
        wrong = 0.0
        for i in range(X.shape[0]):
            node = nodes.roots[t]
            while nodes.right[node] >= 0:
                f = tested(nodes, node)
                if not np.isnan(X[i, f]) and not used[i, f]:
                    used[i, f] = True
                    total += weight[i] * discounted[f]
                    g = group[f]
                    more = (
                        price[f] - discounted[f] - (discount[i, g] if g >= 0 else 0.0)
                    )
                    if more > 0.0:
                        total += weight[i] * more
                        discount[i, g] += more
                node = child(nodes, node, X[i, f])
            votes[i, nodes.label[nodes.share[node]]] += 1
            if largest(votes[i]) != y[i]:
                wrong += weight[i]
        cost[t] += total
        error[t] = wrong
