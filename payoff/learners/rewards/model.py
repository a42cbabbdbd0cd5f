"""A fitted model of rewards: what it keeps, and how it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from payoff.acquisition.forest import FlatForest
from payoff.arrays import F64, Bools
from payoff.learners.linear import Linear
from payoff.stored import Stored


class Part(Protocol):
    """Numbers (n, A) of rows (n, m), one for each action."""

    def values(self, X: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Constant(Stored):
    """The same numbers (A,) for all rows."""

    numbers: np.ndarray

    def values(self, X: np.ndarray) -> np.ndarray:
        return np.tile(self.numbers, (len(X), 1))


@dataclass(frozen=True)
class Scores(Stored):
    """The scores of a linear model."""

    linear: Linear

    def values(self, X: np.ndarray) -> np.ndarray:
        return self.linear.scores(X)


@dataclass(frozen=True)
class ByAction(Stored):
    """A model for each action, in their order."""

    models: Sequence[Any]

    def values(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([model.values(X) for model in self.models])


@dataclass(frozen=True, eq=False)
class MeanForest(Stored):
    """A forest whose leaves keep means (nodes, d) of d numbers."""

    forest: FlatForest
    means: F64

    @classmethod
    def of(cls, forest: FlatForest, bags: Bools, X: F64, Y: F64, weights: F64) -> Self:
        """From training rows X (n, m), numbers Y (n, d) and positive weights (n,).

        `bags` (n, T): whether a tree grew from the row; a leaf keeps the mean of such rows alone,
        so that the others are unseen. O(n T d).
        """
        leaves = forest.leaves(X)
        rows, trees = np.nonzero(bags)
        nodes = leaves[rows, trees]
        size = len(forest.nodes.right)
        weight = np.bincount(nodes, weights[rows], size)
        sums = [
            np.bincount(nodes, weights[rows] * numbers[rows], size) for numbers in Y.T
        ]
        return cls(
            forest, np.array(sums).T / np.where(weight > 0, weight, 1.0)[:, None]
        )

    def values(self, X: F64) -> F64:
        """The mean (n, d) over the trees of each row X (n, m), NaN where missing."""
        leaves = self.forest.leaves(X)
        total = np.zeros((len(X), self.means.shape[1]))
        for nodes in leaves.T:
            total += self.means[nodes]
        return total / leaves.shape[1]

    def unseen(self, X: F64, bags: Bools) -> F64:
        """As `values`, of training rows by the trees that did not grow from them.

        Rows that all trees grew from, which needs few trees, have the mean over all.
        """
        leaves = self.forest.leaves(X)
        outside = ~bags
        outside[bags.all(axis=1)] = True
        total = np.zeros((len(X), self.means.shape[1]))
        for nodes, counts in zip(leaves.T, outside.T, strict=True):
            total += self.means[nodes] * counts[:, None]
        return np.asarray(total / outside.sum(axis=1)[:, None])


@dataclass(frozen=True, eq=False)
class RewardModel(Stored):
    """Expected rewards of each action: a level that depends on the row, and contrasts around it.

    `levels` are weights of `parts` around the `mean` reward, `contrasts` those of the differences
    between actions, (parts,) each and at least 0; `shares` (A,) are the log's of each action.
    """

    parts: Sequence[Part]
    mean: float
    levels: np.ndarray
    contrasts: np.ndarray
    shares: np.ndarray

    def expected(self, X: np.ndarray) -> np.ndarray:
        """Expected rewards (n, A) of rows X (n, m), NaN where missing; checks nothing."""
        level = np.full((len(X), len(self.shares)), self.mean)
        contrast = np.zeros_like(level)
        weighted = zip(self.parts, self.levels, self.contrasts, strict=True)
        for part, of_level, of_contrast in weighted:
            if of_level > 0 or of_contrast > 0:
                values = part.values(X)
                level += of_level * (values - self.mean)
                contrast += of_contrast * values
        contrast += ((level - contrast) @ self.shares)[:, None]
        return contrast
