"""A forest whose leaves keep the numbers of the training rows: the mean, and the distribution, of a
row's number.

Source: Meinshausen, "Quantile regression forests" (2006).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from payoff.acquisition.forest import FlatForest
from payoff.arrays import F64, I32, I64, Bools
from payoff.decisions.quantities import Distribution, Samples, below
from payoff.learners.members import Members
from payoff.learners.rows import ALL, FoldedRows
from payoff.stored import Stored

_MAX_MEMBERS = 40_000_000  # rows in the leaves of all trees together, 4 bytes each
_MAX_ROWS_OF_CURVE = 5000  # the maximum number of rows that correct the distribution
_GRID = np.linspace(0.0, 1.0, 401)  # the weights at which the correction is known
_LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
_PRIOR = 20  # rows whose weight the uncorrected distribution has
_TINY = 1e-300  # in place of a weight of 0 at a number, by which nothing can be divided


@dataclass(frozen=True, eq=False)
class QuantileForest(Stored):
    """A row's distribution: the mean over the trees of the weighted training rows in its leaf.

    `numbers` (N,) are those of the training rows, ascending. `curve` is the corrected weight for
    each weight of `_GRID`. `cost` is the mean cost of quantiles for training rows, by trees that
    did not grow from the row; 0 where all did. `forest` are the first trees, as many as keep
    `_MAX_MEMBERS`, at least one.
    """

    forest: FlatForest
    numbers: F64
    members: Members
    curve: F64
    cost: float

    @classmethod
    def of(
        cls,
        forest: FlatForest,
        bags: Bools,
        X: F64,
        y: F64,
        weights: F64,
        *,
        corrected: bool,
    ) -> Self:
        """From training rows X (n, m), numbers y (n,) and positive weights (n,).

        `bags` (n, T): whether a tree grew from the row. The correction is conformal, by the trees
        that did not grow from a row: where a share s of the rows has less than c of the weight
        below its number, c becomes s; if the number has weight itself, each part of this weight
        counts alike (Czado et al. 2009), so ties shift nothing. The result is one distribution
        still. O(n T log n).
        """
        plain = cls.plain(forest, X, y, weights)
        order = np.argsort(y, kind="stable")
        forest = plain.forest
        rows = np.unique(
            np.linspace(0, len(y) - 1, _MAX_ROWS_OF_CURVE).astype(np.int64)
        )
        leaves = forest.leaves(X[order[rows]])
        unseen = np.where(bags[order[rows], : forest.n_trees], np.int32(-1), leaves)
        seen = (unseen < 0).all(axis=1)
        if seen.all():
            return plain
        rows, unseen = rows[~seen], unseen[~seen]
        numbers, weight = plain.numbers[rows], plain.members.weights[rows]
        model = plain
        if corrected:
            passed = plain.passed(unseen, numbers, rows)
            model = replace(plain, curve=curve_of(passed, weight))
        costs = model.costs(unseen, numbers, rows)
        return replace(model, cost=float(np.average(costs, weights=weight)))

    @classmethod
    def plain(cls, forest: FlatForest, X: F64, y: F64, weights: F64) -> Self:
        """As `of`, uncorrected, and with cost 0."""
        order = np.argsort(y, kind="stable")
        forest = forest.first(max(1, _MAX_MEMBERS // len(y)))
        leaves = forest.leaves(X[order])
        members = Members.of(leaves, len(forest.nodes.right), weights[order])
        return cls(forest, y[order], members, _GRID, 0.0)

    def values(self, X: F64) -> F64:
        """The mean (n,) of each row X (n, m), NaN where missing, uncorrected; checks nothing."""
        blocks = (self.forest.leaves(X[rows]) for rows in self.members.blocks(len(X)))
        means = (self._means[leaves].mean(axis=1) for leaves in blocks)
        return np.concatenate([np.empty(0), *means])

    def distribution(self, X: F64) -> Distribution:
        """The distribution of each row X (n, m), NaN where missing; checks nothing."""

        def parts() -> Iterator[Samples]:
            for rows in self.members.blocks(len(X)):
                yield self._samples(self.forest.leaves(X[rows]))

        kept = [*parts()] if len([*self.members.blocks(len(X))]) == 1 else None
        return Distribution(self.values(X), lambda: kept or parts())

    def _samples(self, leaves: I32, excluded: I64 | None = None) -> Samples:
        near, reached = self.members.near(leaves, excluded)
        return Samples(self.numbers[near], np.interp(reached, _GRID, self.curve))

    def passed(self, leaves: I32, numbers: F64, excluded: I64 | None = None) -> F64:
        """For rows in these leaves (r, T), -1 in trees grown from them, whose numbers (r,) are
        known: the share (r, 401) of the row that a weight of `_GRID` passes, uncorrected.

        `excluded` (r,): the training row that each is.
        """
        low, high = np.empty((2, len(numbers)))
        for block in self.members.blocks(len(numbers)):
            near, reached = self.members.near(
                leaves[block], None if excluded is None else excluded[block]
            )
            samples = Samples(self.numbers[near], reached)
            low[block] = below(samples, numbers[block])
            high[block] = below(samples, np.nextafter(numbers[block], np.inf))
        ties = np.maximum(high - low, _TINY)
        return np.clip((_GRID - low[:, None]) / ties[:, None], 0.0, 1.0)

    def costs(self, leaves: I32, numbers: F64, excluded: I64 | None = None) -> F64:
        """The mean cost (r,) over `_LEVELS` of the quantiles of rows; arguments as `passed`.

        A unit too much costs 1 - level, a unit too few costs the level.
        """
        parts = (
            self._samples(leaves[block], None if excluded is None else excluded[block])
            for block in self.members.blocks(len(numbers))
        )
        quantiles = Distribution(numbers, lambda: parts).quantiles(_LEVELS)
        short = numbers[:, None] - quantiles
        return np.maximum(short * _LEVELS, short * (_LEVELS - 1.0)).mean(axis=1)

    @cached_property
    def _means(self) -> F64:
        """The mean number of the training rows in each leaf (nodes,)."""
        rows = self.members.rows
        weights = self.members.weights[rows]
        sizes = np.diff(self.members.starts)
        node = np.repeat(np.arange(len(sizes)), sizes)
        total = np.bincount(node, weights * self.numbers[rows], len(sizes))
        return total / np.where(sizes > 0, np.bincount(node, weights, len(sizes)), 1.0)


def curve_of(passed: F64, weights: F64) -> F64:
    """The correction by rows of `QuantileForest.passed` (r, 401) with weights (r,)."""
    counts = weights / weights.mean() @ passed
    curve: F64 = (counts + _PRIOR * _GRID) / (len(weights) + _PRIOR)
    curve[-1] = 1.0
    return curve


def cross_fitted(
    forests: Mapping[int, QuantileForest], rows: FoldedRows, *, corrected: bool
) -> QuantileForest:
    """The forest of `ALL` rows, with the correction and the cost of the forests without each fold,
    on the rows of this fold.
    """
    model = forests[ALL]
    step = len(rows.X) // _MAX_ROWS_OF_CURVE + 1
    parts = [
        (forest, np.flatnonzero(rows.fold == number)[::step])
        for number, forest in forests.items()
        if number != ALL
    ]
    if not parts:
        return model
    weights = rows.weights[np.concatenate([inside for _, inside in parts])]
    if corrected:
        passed = [
            forest.passed(forest.forest.leaves(rows.X[inside]), rows.codes[inside])
            for forest, inside in parts
        ]
        model = replace(model, curve=curve_of(np.vstack(passed), weights))
    costs = [
        replace(forest, curve=model.curve).costs(
            forest.forest.leaves(rows.X[inside]), rows.codes[inside]
        )
        for forest, inside in parts
    ]
    cost = float(np.average(np.concatenate(costs), weights=weights))
    return replace(model, cost=cost)
