"""From the soft tree of training to the one that answers: weights cut to zero, nodes pruned, predictions corrected."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from payoff.learners.cost_tree.optimise import add_columns, fit_columns
from payoff.learners.cost_tree.soft import Objective, ScoreLoss, SoftTree, Squared

_STEPS = 100
_SAME = 1e-12
_LITTLE = 1e-6
_RIDGE = 0.1  # of the columns' mean square
_ENOUGH = 5  # rows for each column, without a ridge
_CLEAR = 2.0
"""The least gain of a column at an exit, as a multiple of that of a column without information (Akaike's criterion): of
diabetes, with half of its price as the budget, the error was .71 of the variance with it and .78 without."""


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Raw rows (n, m), their columns phi (n, T), targets (n,) as the loss takes them, and positive weights (n,)."""

    X: np.ndarray
    columns: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    def take(self, rows: np.ndarray) -> LeafRows:
        return LeafRows(self.X[rows], self.columns[rows], self.targets[rows], self.weights[rows])


class HardTree:
    """Nodes in the soft tree's numbering; a row above a node's threshold goes up, and leaves where there is no child.

    `routes` (N, T) decide, `predictors` (N, T, L) and `offsets` (N, L) predict. Weights up to `tolerance` are zero.
    """

    def __init__(self, soft: SoftTree, tolerance: float) -> None:
        problem = soft.problem
        self.loss: ScoreLoss = problem.loss
        kept: np.ndarray = np.where(np.abs(soft.weights) > tolerance, soft.weights, 0.0)
        self.predictors, self.routes = (
            kept[:, :, : self.loss.outputs].copy(),
            kept[:, :, problem.route].copy(),
        )
        self.predicting, self.routing = (self.predictors != 0).max(axis=2), self.routes != 0
        self.offsets, self.thresholds = soft.offsets.copy(), soft.thresholds.copy()
        self.alive = soft.alive.copy()

    def twin(self) -> Self:
        """A tree with the same nodes, which can be pruned and tuned apart."""
        twin = copy.copy(self)
        for name in ("predictors", "predicting", "offsets", "alive"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def has(self, k: int) -> bool:
        """Whether there is such a node."""
        return k < len(self.alive) and bool(self.alive[k])

    def leaf(self, k: int) -> bool:
        """Whether every row that comes to node k leaves there."""
        return not (self.has(2 * k + 1) or self.has(2 * k + 2))

    def support(self, k: int) -> np.ndarray:
        """The columns (T,) that node k has weight on."""
        return self.predicting[k] if self.leaf(k) else self.predicting[k] | self.routing[k]

    def leave(self, columns: np.ndarray) -> np.ndarray:
        """The node (n,) at which rows leave the tree. O(n T nodes)."""
        at = np.zeros(len(columns), dtype=np.intp)
        for k in np.flatnonzero(self.alive).tolist():
            here = np.flatnonzero(at == k)
            if len(here) and not self.leaf(k):
                up = columns[here] @ self.routes[k] > self.thresholds[k]
                at[here] = np.where(
                    up,
                    2 * k + 1 if self.has(2 * k + 1) else k,
                    2 * k + 2 if self.has(2 * k + 2) else k,
                )
        return at

    def predict(self, columns: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Predicting scores (n, L) of rows at the nodes where they leave."""
        S = np.empty((len(columns), self.loss.outputs))
        for k in np.unique(left):
            here = left == k
            S[here] = columns[here] @ self.predictors[k] + self.offsets[k]
        return S

    def tune(self, rows: LeafRows) -> None:
        """Fit every node's prediction anew on its support: on the rows that leave there, or else on all that pass."""
        left = self.leave(rows.columns)
        for k in np.flatnonzero(self.alive):
            self.tune_node(int(k), rows, left)

    def exits_by_price(
        self, rows: LeafRows, problem: Objective, shares: Sequence[float]
    ) -> Iterator[Self]:
        """Tuned trees with the same decisions whose exits choose their columns anew, for falling `shares` of the
        trade-off of `problem`; each continues the one before, and is left out where that adds no column.

        A column that decides is asked of all rows, one at an exit of those that leave there. In soft training a few
        rows of other exits hide what a column says about its own.
        """
        tree, members, left = self.twin(), problem.charges.members, self.leave(rows.columns)
        exits = np.unique(left).tolist()
        tree.predictors[exits], tree.offsets[exits], tree.predicting[exits] = 0.0, 0.0, False
        for number, share in enumerate(shares):
            eased = replace(problem, lambda_=share * problem.lambda_)
            before = tree.predicting.copy()
            for k in exits:
                above = np.zeros(members.shape[1], dtype=np.bool_)
                for j in SoftTree.path(k)[:-1]:
                    above |= tree.support(j)
                start = tree.predictors[k], tree.offsets[k]
                weights = problem.shares * (left == k)
                added = add_columns(eased, weights, members @ above > 0, start, _CLEAR)
                tree.predictors[k], tree.offsets[k] = added
                tree.predicting[k] = tree.predictors[k].any(axis=1)
            if number and (tree.predicting == before).all():
                continue
            for k in exits:
                tree.tune_node(k, rows, left)
            yield tree.twin()

    def prune(self, rows: LeafRows, validation: LeafRows) -> None:
        """Remove nodes of a tuned tree, from the bottom, without which the validation loss is no larger."""
        left, held = self.leave(rows.columns), self.leave(validation.columns)
        for k in reversed(np.flatnonzero(self.alive)[1:].tolist()):
            if not self.leaf(k):
                continue
            parent = (k - 1) // 2
            touched = np.flatnonzero((held == k) | (held == parent))
            sample, before = (
                validation.take(touched),
                self._total(validation.take(touched), held[touched]),
            )
            kept = self.predictors[parent].copy(), self.offsets[parent].copy()
            self.alive[k] = False
            without = np.where(left == k, parent, left)
            self.tune_node(parent, rows, without)
            if self._total(sample, np.full(len(touched), parent)) <= before + _SAME:
                left, held = without, np.where(held == k, parent, held)
            else:
                self.alive[k] = True
                self.predictors[parent], self.offsets[parent] = kept

    def _total(self, rows: LeafRows, left: np.ndarray) -> float:
        return float(rows.weights @ self.loss(self.predict(rows.columns, left), rows.targets)[0])

    def tune_node(self, k: int, rows: LeafRows, left: np.ndarray) -> None:
        """Fit the prediction of node k anew, of rows that leave at the nodes `left` (n,); see `tune`."""
        here = left == k
        if not here.any():
            here = _passes(left, k)
        support = self.support(k)
        known, counts, ridge = self._prior(rows)
        columns = np.concatenate(
            (rows.columns[here][:, support], np.zeros((len(known), support.sum())))
        )
        targets = np.concatenate((rows.targets[here], known))
        weights = np.concatenate((rows.weights[here], counts))
        if isinstance(self.loss, Squared) and here.sum() < _ENOUGH * support.sum():
            ridge += _RIDGE * _spread(rows)
        start = self.predictors[k][support], self.offsets[k]
        self.predictors[k] = 0.0
        self.predictors[k][support], self.offsets[k] = fit_columns(
            columns, targets, weights, self.loss, ridge, start, _STEPS
        )

    def _prior(self, rows: LeafRows) -> tuple[np.ndarray, np.ndarray, float]:
        """What is known without any row of a node: a row at the origin of every class, weighing its share, and a ridge.

        So no class becomes impossible. Numbers need next to nothing of the row, only where a node has none, but a ridge
        where a node has few rows: with no more than columns least squares meets every row and is far off between them.
        """
        if isinstance(self.loss, Squared):
            mean = rows.weights @ rows.targets / rows.weights.sum()
            return np.array([mean]), np.array([_LITTLE]), _LITTLE
        shares = np.bincount(rows.targets, rows.weights) / rows.weights.sum()
        return np.arange(len(shares)), shares, 1.0


def _spread(rows: LeafRows) -> float:
    """The mean square of the columns of rows about their means."""
    shares = rows.weights / rows.weights.sum()
    return float((shares @ np.square(rows.columns - shares @ rows.columns)).mean())


def _passes(left: np.ndarray, k: int) -> np.ndarray:
    """Which rows pass node k, by the nodes where they leave."""
    node = left.copy()
    while (above := node > k).any():
        node[above] = (node[above] - 1) // 2
    return node == k
