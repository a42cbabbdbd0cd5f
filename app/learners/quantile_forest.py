"""A forest whose leaves keep the numbers of the training rows: the mean, and the distribution, of a row's number.

Source: Meinshausen, "Quantile regression forests" (2006).
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from app.acquisition.forest import FlatForest
from app.arrays import F64, I32, I64, U8, Bools
from app.compiled import kernel
from app.decisions.quantities import Distribution, Samples, below

_MEMBERS = 40_000_000  # of leaves, of all trees together: 4 bytes each
_CELLS = 1_000_000  # numbers of rows that are in memory together
_JUDGED = 5000  # rows that correct the distribution, at most
_LINE = np.linspace(0.0, 1.0, 401)
_LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
_PRIOR = 20  # rows whose weight the uncorrected distribution has
_NO_TIE = 1e-300  # instead of no weight at a number
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class QuantileForest:
    """A row's distribution is the mean over the trees of that of all training rows in its leaf, whether they grew the
    tree or not, by their weights.

    `numbers` (N,) ascending, and `weights` (N,), are of the training rows; the leaf at node j has the rows
    `members[starts[j]:starts[j + 1]]`. `curve`: what is said where `_LINE` of the weight is reached. `cost`: that of
    quantiles for training rows, the mean, by trees that did not grow from the row; 0 where all did. The first trees of
    the forest, as many as keep `_MEMBERS`, at least one.
    """

    forest: FlatForest
    numbers: F64
    weights: F64
    starts: I32
    members: I32
    curve: F64
    cost: float

    @classmethod
    def of(cls, forest: FlatForest, bags: Bools, X: F64, y: F64, weights: F64, *, corrected: bool) -> Self:
        """From training rows X (n, m), numbers (n,), positive weights (n,), and the rows (n, T) that a tree grew from.

        The correction is conformal, by the trees that did not grow from a row: where a share s of the rows has less
        than c of the weight below its number, c becomes s; of a number that has weight itself each part of this counts
        alike (Czado et al. 2009), so ties shift nothing. It is one distribution still. O(n T log n).
        """
        order, forest = np.argsort(y, kind="stable"), forest.first(max(1, _MEMBERS // len(y)))
        leaves = forest.leaves(X[order])
        members = np.concatenate([np.argsort(tree, kind="stable") for tree in leaves.T]).astype(np.int32)
        starts = np.cumsum(np.bincount(leaves.ravel() + 1, minlength=len(forest.nodes.right) + 1)).astype(np.int32)
        plain = cls(forest, y[order], weights[order], starts, members, _LINE, 0.0)
        rows = np.unique(np.linspace(0, len(y) - 1, _JUDGED).astype(np.int64))
        unseen = np.where(bags[order[rows], : forest.n_trees], np.int32(-1), leaves[rows])
        seen = (unseen < 0).all(axis=1)
        if seen.all():
            return plain
        rows, unseen = rows[~seen], unseen[~seen]
        model = replace(plain, curve=plain.corrected(unseen, rows)) if corrected else plain
        return replace(model, cost=model.mean_cost(unseen, rows))

    def values(self, X: F64) -> F64:
        """The mean of each row X (n, m), NaN where missing, before the correction; checks nothing."""
        leaves = (self.forest.leaves(X[rows]) for rows in self._blocks(len(X)))
        return np.concatenate([np.empty(0), *(self._means[each].mean(axis=1) for each in leaves)])

    def distribution(self, X: F64) -> Distribution:
        """That of each row X (n, m), NaN where missing; checks nothing."""

        def parts() -> Iterator[Samples]:
            for rows in self._blocks(len(X)):
                leaves = self.forest.leaves(X[rows])
                yield self._samples(leaves, np.full(len(leaves), -1))

        kept = [*parts()] if len([*self._blocks(len(X))]) == 1 else None
        return Distribution(len(X), lambda: kept or parts())

    def _samples(self, leaves: I32, own: I64) -> Samples:
        near, reached = self._near(leaves, own)
        return Samples(self.numbers[near], np.interp(reached, _LINE, self.curve))

    def corrected(self, leaves: I32, rows: I64) -> F64:
        """The curve by training `rows` (r,) in their leaves (r, T), -1 in trees that do not count."""
        low, high = np.empty((2, len(rows)))
        for some in self._blocks(len(rows)):
            near, reached = self._near(leaves[some], rows[some])
            samples, own = Samples(self.numbers[near], reached), self.numbers[rows[some]]
            low[some], high[some] = below(samples, own), below(samples, np.nextafter(own, np.inf))
        passed = np.clip((_LINE - low[:, None]) / np.maximum(high - low, _NO_TIE)[:, None], 0.0, 1.0)
        counts = self.weights[rows] / self.weights[rows].mean() @ passed
        curve: F64 = (counts + _PRIOR * _LINE) / (len(rows) + _PRIOR)
        curve[-1] = 1.0
        return curve

    def mean_cost(self, leaves: I32, rows: I64) -> float:
        """What a unit too much costs 1 - level and one too few the level, the mean over `_LEVELS`; as for the curve."""
        parts = (self._samples(leaves[some], rows[some]) for some in self._blocks(len(rows)))
        short = self.numbers[rows, None] - Distribution(len(rows), lambda: parts).quantiles(_LEVELS)
        costs = np.maximum(short * _LEVELS, short * (_LEVELS - 1.0)).mean(axis=1)
        return float(np.average(costs, weights=self.weights[rows]))

    @cached_property
    def _means(self) -> F64:
        """Of the training rows in each leaf (nodes,)."""
        sizes = np.diff(self.starts)
        node, weights = np.repeat(np.arange(len(sizes)), sizes), self.weights[self.members]
        total = np.bincount(node, weights * self.numbers[self.members], len(sizes))
        return total / np.where(sizes > 0, np.bincount(node, weights, len(sizes)), 1.0)

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # the others are found again

    def _blocks(self, n: int) -> Iterator[slice]:
        size = max(1, _CELLS // self._most)
        return (slice(start, start + size) for start in range(0, n, size))

    @cached_property
    def _most(self) -> int:
        """Training rows that one row can have in its leaves."""
        return min(len(self.numbers), int(np.diff(self.starts).max()) * self.forest.n_trees)

    def _near(self, leaves: I32, own: I64) -> tuple[I32, F64]:
        """The training rows (n, S) in the leaves (n, T) of n rows, ascending, and the weight reached with each (n, S).

        Training rows are not near themselves: `own` (n,), -1 of others. The last is repeated up to S.
        """
        near, reached = np.empty((len(leaves), self._most), dtype=np.int32), np.empty((len(leaves), self._most))
        total, blocks = np.zeros(len(self.numbers)), np.zeros(len(self.numbers) // _BLOCK + 1, dtype=np.uint8)
        most = collect(leaves, own, self.starts, self.members, self.weights, total, blocks, near, reached)
        return near[:, :most], reached[:, :most]


@kernel
def collect(
    leaves: I32, own: I64, starts: I32, members: I32, weights: F64, total: F64, blocks: U8, near: I32, reached: F64
) -> int:
    """Write what `QuantileForest._near` returns; the most training rows of a row. `total`, `blocks` are zero."""
    most = 1
    for i in range(leaves.shape[0]):
        for node in leaves[i]:
            if node >= 0:
                add_leaf(members[starts[node] : starts[node + 1]], own[i], weights, total, blocks)
        size = list_rows(total, blocks, near[i], reached[i])
        whole = reached[i, size - 1]
        for k in range(size):
            reached[i, k] /= whole
        for k in range(size, near.shape[1]):
            near[i, k], reached[i, k] = near[i, size - 1], 1.0
        most = max(most, size)
    return most


@kernel
def add_leaf(rows: I32, own: int, weights: F64, total: F64, blocks: U8) -> None:
    """Add their part of the weight 1 to the `total` of all rows but one, and mark their `blocks`."""
    whole = 0.0
    for row in rows:
        whole += 0.0 if row == own else weights[row]
    for row in rows:
        if row != own:
            total[row] += weights[row] / whole
            blocks[row // _BLOCK] = 1


@kernel
def list_rows(total: F64, blocks: U8, near: I32, reached: F64) -> int:
    """The number of rows with weight; write these and the sums of weight, and make `total` and `blocks` zero."""
    size, weight = 0, 0.0
    for block in range(blocks.shape[0]):
        if blocks[block] == 0:
            continue
        blocks[block] = 0
        for row in range(block * _BLOCK, min((block + 1) * _BLOCK, total.shape[0])):
            if total[row] > 0.0:
                weight += total[row]
                near[size], reached[size], total[row] = row, weight, 0.0
                size += 1
    return size
