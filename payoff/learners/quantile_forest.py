"""A forest whose leaves keep the numbers of the training rows: the mean, and the distribution, of a
row's number.

Source: Meinshausen, "Quantile regression forests" (2006).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from payoff.acquisition.forest import FlatForest
from payoff.arrays import F64, I32, I64, Bools
from payoff.decisions.quantities import Distribution, Samples, below
from payoff.learners.members import Members
from payoff.stored import Stored

_MEMBERS = 40_000_000  # of leaves, of all trees together: 4 bytes each
_JUDGED = 5000  # rows that correct the distribution, at most
_LINE = np.linspace(0.0, 1.0, 401)
_LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
_PRIOR = 20  # rows whose weight the uncorrected distribution has
_NO_TIE = 1e-300  # instead of no weight at a number


@dataclass(frozen=True, eq=False)
class QuantileForest(Stored):
    """A row's distribution is the mean over the trees of that of all training rows in its leaf, by
    their weights.

    `numbers` (N,) are of the training rows, ascending. `curve`: what is said where `_LINE` of the
    weight is reached. `cost`: that of quantiles for training rows, the mean, by trees that did not
    grow from the row; 0 where all did. The first trees of the forest, as many as keep `_MEMBERS`,
    at least one.
    """

    forest: FlatForest
    numbers: F64
    members: Members
    curve: F64
    cost: float

    @classmethod
    def of(
        cls, forest: FlatForest, bags: Bools, X: F64, y: F64, weights: F64, *, corrected: bool
    ) -> Self:
        """From training rows X (n, m), numbers (n,), positive weights (n,), and the rows (n, T)
        that a tree grew from.

        The correction is conformal, by the trees that did not grow from a row: where a share s of
        the rows has less than c of the weight below its number, c becomes s; of a number that has
        weight itself each part of this counts alike (Czado et al. 2009), so ties shift nothing. It
        is one distribution still. O(n T log n).
        """
        order, forest = np.argsort(y, kind="stable"), forest.first(max(1, _MEMBERS // len(y)))
        leaves = forest.leaves(X[order])
        members = Members.of(leaves, len(forest.nodes.right), weights[order])
        plain = cls(forest, y[order], members, _LINE, 0.0)
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
        leaves = (self.forest.leaves(X[rows]) for rows in self.members.blocks(len(X)))
        return np.concatenate([np.empty(0), *(self._means[each].mean(axis=1) for each in leaves)])

    def distribution(self, X: F64) -> Distribution:
        """That of each row X (n, m), NaN where missing; checks nothing."""

        def parts() -> Iterator[Samples]:
            for rows in self.members.blocks(len(X)):
                yield self._samples(self.forest.leaves(X[rows]))

        kept = [*parts()] if len([*self.members.blocks(len(X))]) == 1 else None
        return Distribution(self.values(X), lambda: kept or parts())

    def _samples(self, leaves: I32, own: I64 | None = None) -> Samples:
        near, reached = self.members.near(leaves, own)
        return Samples(self.numbers[near], np.interp(reached, _LINE, self.curve))

    def corrected(self, leaves: I32, rows: I64) -> F64:
        """The curve by training `rows` (r,) in their leaves (r, T), -1 in trees that do not count."""
        low, high = np.empty((2, len(rows)))
        for some in self.members.blocks(len(rows)):
            near, reached = self.members.near(leaves[some], rows[some])
            samples, own = Samples(self.numbers[near], reached), self.numbers[rows[some]]
            low[some], high[some] = below(samples, own), below(samples, np.nextafter(own, np.inf))
        passed = np.clip(
            (_LINE - low[:, None]) / np.maximum(high - low, _NO_TIE)[:, None], 0.0, 1.0
        )
        counts = self.members.weights[rows] / self.members.weights[rows].mean() @ passed
        curve: F64 = (counts + _PRIOR * _LINE) / (len(rows) + _PRIOR)
        curve[-1] = 1.0
        return curve

    def mean_cost(self, leaves: I32, rows: I64) -> float:
        """What a unit too much costs 1 - level and one too few the level, the mean over `_LEVELS`;
        as for the curve.
        """
        parts = (self._samples(leaves[some], rows[some]) for some in self.members.blocks(len(rows)))
        short = self.numbers[rows, None] - Distribution(
            self.numbers[rows], lambda: parts
        ).quantiles(_LEVELS)
        costs = np.maximum(short * _LEVELS, short * (_LEVELS - 1.0)).mean(axis=1)
        return float(np.average(costs, weights=self.members.weights[rows]))

    @cached_property
    def _means(self) -> F64:
        """Of the training rows in each leaf (nodes,)."""
        sizes, rows = np.diff(self.members.starts), self.members.rows
        node, weights = np.repeat(np.arange(len(sizes)), sizes), self.members.weights[rows]
        total = np.bincount(node, weights * self.numbers[rows], len(sizes))
        return total / np.where(sizes > 0, np.bincount(node, weights, len(sizes)), 1.0)
