"""Models of numbers that know their distribution: leaves of a forest, and residuals around a boosted mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from app.arrays import F32, F64, I32
from app.decisions.quantities import Distribution, Samples, below

if TYPE_CHECKING:  # it loads the compiler
    from app.acquisition.forest import FlatForest

MEMBERS = 4_000_000  # numbers in leaves, of all trees together: 8 bytes each
RESIDUALS = 1000  # that stand for all
_CELLS = 1 << 20  # of the distributions that are made at once
STEPS = np.linspace(0.0, 1.0, 401)


@dataclass(frozen=True, eq=False)
class NumberForest:
    """A forest whose leaves know the numbers of the training rows in them (Meinshausen 2006, quantile regression
    forests), each with the leaf's mean (N,).

    The leaf at node j of the first `trees` holds the numbers `support[ranks[starts[j]:starts[j + 1]]]`, ascending, with
    weights `shares` that sum to 1; as many trees as stay below 32 MB, at least one. `levels` at even steps from 0 to 1:
    how often a number was at or below what the forest gave that cumulated weight, of rows that it did not see.
    """

    forest: FlatForest
    means: F64
    trees: int
    support: F64
    starts: I32
    ranks: I32
    shares: F32
    levels: F64

    @classmethod
    def of(cls, forest: FlatForest, X: np.ndarray, y: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> Self:
        """Of training rows X (n, m), numbers (n,) and positive weights (n,). O(rows trees log)."""
        trees = min(forest.n_trees, max(1, MEMBERS // len(X)))
        leaf, nodes = forest.leaves(X), len(forest.nodes.right)
        total, summed = np.zeros((2, nodes))
        for nodes_of_tree in leaf.T:
            total += np.bincount(nodes_of_tree, weights, nodes)
            summed += np.bincount(nodes_of_tree, weights * y, nodes)
        support, rank = np.unique(y, return_inverse=True)
        member = leaf[:, :trees].T.ravel().astype(np.int64)
        order = np.argsort(member * len(support) + np.tile(rank, trees), kind="stable")
        member, row = member[order], order % len(X)
        return cls(
            forest=forest,
            means=summed / np.where(total > 0, total, 1.0),
            trees=trees,
            support=support,
            starts=np.searchsorted(member, np.arange(nodes + 1)).astype(np.int32),
            ranks=rank[row].astype(np.int32),
            shares=(weights[row] / total[member]).astype(np.float32),
            levels=levels,
        )

    def values(self, X: np.ndarray) -> np.ndarray:
        """The mean (n,) of the leaves of rows X (n, m)."""
        return np.asarray(self.means[self.forest.leaves(X)].mean(axis=1))

    def distribution(self, X: np.ndarray) -> Distribution:
        """Of rows X (n, m): the mean of those in their leaves, with corrected levels. O(n trees leaf log)."""
        return Distribution(len(X), lambda: self._parts(X))

    def _parts(self, X: np.ndarray) -> Iterator[Samples]:
        sizes, part = np.diff(self.starts), self.forest.first(self.trees)
        typical = self.trees * float(np.square(sizes, dtype=np.float64).sum()) / max(len(self.ranks), 1)
        rows = max(1, int(_CELLS / typical))
        for begin in range(0, len(X), rows):
            leaf = part.leaves(X[begin : begin + rows])
            lengths = sizes[leaf].ravel()
            ends = np.cumsum(lengths)
            at = np.arange(ends[-1]) + np.repeat(self.starts[leaf].ravel() - (ends - lengths), lengths)
            starts = np.concatenate([[0], ends[self.trees - 1 :: self.trees]])
            held = np.diff(starts)
            row = np.repeat(np.arange(len(leaf)), held)
            at = at[np.argsort(row * len(self.support) + self.ranks[at], kind="stable")]
            summed = np.concatenate([[0.0], np.cumsum(self.shares[at], dtype=np.float64)])
            place = starts[:-1, None] + np.minimum(np.arange(held.max()), held[:, None] - 1)
            reached = (summed[place + 1] - summed[starts[:-1], None]) / np.diff(summed[starts])[:, None]
            reached = np.interp(reached, STEPS, self.levels)
            reached[np.arange(held.max()) >= held[:, None] - 1] = 1.0
            yield Samples(self.support[self.ranks[at[place]]], reached)

    def reached(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The probability (n,) of numbers up to y (n,), for rows X (n, m)."""
        found, begin = [np.empty(0)], 0
        for samples in self._parts(X):
            end = begin + len(samples.values)
            found.append(below(samples, np.nextafter(y[begin:end], np.inf)))
            begin = end
        return np.concatenate(found)


def levels_of(reached: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """How often cumulated weights (n,) of unseen rows, of weights (n,), are at or below each step from 0 to 1.

    As in split conformal prediction a new row may come anywhere between these: its place counts as half a row.
    """
    order = np.argsort(reached)
    counted = np.concatenate([[0.0], np.cumsum(weights[order])])[np.searchsorted(reached[order], STEPS, side="right")]
    levels: np.ndarray = (counted + weights.mean() / 2) / (weights.sum() + weights.mean())
    levels[-1] = 1.0
    return levels


@dataclass(frozen=True, eq=False)
class Residuals:
    """A boosted mean, a boosted `spread` (None: the same for all rows), and `scaled` (R,): residuals of unseen rows in
    units of their spread, ascending and equally likely, as in split conformal prediction. The spread is at least
    `least`.
    """

    mean: Any
    spread: Any
    least: float
    scaled: F64

    def values(self, X: np.ndarray) -> np.ndarray:
        """The mean (n,) of rows X (n, m)."""
        return np.asarray(self.mean.values(X))

    def distribution(self, X: np.ndarray) -> Distribution:
        """Of rows X (n, m): the mean plus each residual, times the row's spread. O(n R)."""
        values = self.values(X)
        spread = np.ones(len(X)) if self.spread is None else np.maximum(self.spread.values(X), self.least)

        def parts() -> Iterator[Samples]:
            levels, rows = np.arange(1, len(self.scaled) + 1)[None] / len(self.scaled), _CELLS // len(self.scaled)
            for begin in range(0, len(X), rows):
                some = slice(begin, begin + rows)
                yield Samples(values[some, None] + spread[some, None] * self.scaled, levels)

        return Distribution(len(X), parts)


def thinned(residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """At most `RESIDUALS` quantiles at even levels of residuals (n,) with weights (n,)."""
    order = np.argsort(residuals)
    reached = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    R = min(len(residuals), RESIDUALS)
    return np.asarray(np.interp((np.arange(R) + 0.5) / R, reached, residuals[order]))
