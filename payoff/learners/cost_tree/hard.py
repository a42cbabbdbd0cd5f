"""From the soft tree of training to the tree that answers.

Small weights become zero, nodes are pruned, and predictions are fitted anew.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from payoff.learners.cost_tree.optimise import add_columns, fit_columns
from payoff.learners.cost_tree.soft import Objective, ScoreLoss, SoftTree, Squared

_STEPS = 100  # steps of L-BFGS for the prediction of a node
_EQUAL = 1e-12  # the difference up to which losses are equal
_LITTLE = 1e-6  # the weight of the prior of numbers, and their ridge
_RIDGE = 0.1  # the ridge of a node with few rows, as a part of the columns' mean square
_ENOUGH = 5  # rows for each column from which a node needs no ridge
_CLEAR = 2.0
"""The least gain of a column at an exit, as a multiple of that of a column without information.

Source: Akaike's criterion. Of diabetes, with half of its price as the budget, the error was .71 of
the variance with it and .78 without.
"""


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Raw rows (n, m), their columns phi (n, T), targets (n,), and positive weights (n,)."""

    X: np.ndarray
    columns: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    def take(self, rows: np.ndarray) -> LeafRows:
        return LeafRows(
            self.X[rows], self.columns[rows], self.targets[rows], self.weights[rows]
        )


class HardTree:
    """Nodes in the soft tree's numbering; a row above a node's threshold goes up.

    A row leaves the tree where its next node does not exist, or where all rows leave.
    `routes` (N, T) decide, `predictors` (N, T, L) and `offsets` (N, L) predict. Weights up to
    `tolerance` are zero.
    """

    def __init__(self, soft: SoftTree, tolerance: float) -> None:
        problem = soft.problem
        self.loss: ScoreLoss = problem.loss
        kept: np.ndarray = np.where(np.abs(soft.weights) > tolerance, soft.weights, 0.0)
        self.predictors = kept[:, :, : self.loss.outputs].copy()
        self.routes = kept[:, :, problem.route].copy()
        self.predicting = (self.predictors != 0).max(axis=2)
        self.routing = self.routes != 0
        self.offsets = soft.offsets.copy()
        self.thresholds = soft.thresholds.copy()
        self.alive = soft.alive.copy()

    def twin(self) -> Self:
        """A tree with the same nodes, which can be pruned and tuned apart."""
        twin = copy.copy(self)
        for name in ("predictors", "predicting", "offsets", "alive"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def has(self, k: int) -> bool:
        """Whether the tree has node k."""
        return k < len(self.alive) and bool(self.alive[k])

    def leaf(self, k: int) -> bool:
        """Whether every row that comes to node k leaves there."""
        return not (self.has(2 * k + 1) or self.has(2 * k + 2))

    def support(self, k: int) -> np.ndarray:
        """The columns (T,) that node k has weight on."""
        return (
            self.predicting[k] if self.leaf(k) else self.predicting[k] | self.routing[k]
        )

    def leave(self, columns: np.ndarray) -> np.ndarray:
        """The node (n,) at which rows leave the tree. O(n T nodes)."""
        at = np.zeros(len(columns), dtype=np.intp)
        for k in np.flatnonzero(self.alive).tolist():
            here = np.flatnonzero(at == k)
            if len(here) and not self.leaf(k):
                up = columns[here] @ self.routes[k] > self.thresholds[k]
                upper = 2 * k + 1 if self.has(2 * k + 1) else k
                lower = 2 * k + 2 if self.has(2 * k + 2) else k
                at[here] = np.where(up, upper, lower)
        return at

    def predict(self, columns: np.ndarray, leaves: np.ndarray) -> np.ndarray:
        """Predicting scores (n, L) of rows that leave at the nodes `leaves` (n,)."""
        S = np.empty((len(columns), self.loss.outputs))
        for k in np.unique(leaves):
            here = leaves == k
            S[here] = columns[here] @ self.predictors[k] + self.offsets[k]
        return S

    def tune(self, rows: LeafRows) -> None:
        """Fit every node's prediction anew on its support.

        The fit is on the rows that leave at the node, or where there are none, on those that pass.
        """
        leaves = self.leave(rows.columns)
        for k in np.flatnonzero(self.alive):
            self.tune_node(int(k), rows, leaves)

    def exits_by_price(
        self, rows: LeafRows, problem: Objective, shares: Sequence[float]
    ) -> Iterator[Self]:
        """Tuned trees with the same decisions whose exits choose their columns anew, for falling
        `shares` of the trade-off of `problem`; each continues the one before, and is left out where
        that adds no column.

        A column that decides is asked of all rows, one at an exit of those that leave there. In
        soft training a few rows of other exits hide what a column says about its own.
        """
        tree = self.twin()
        members = problem.charges.members
        leaves = self.leave(rows.columns)
        exits = np.unique(leaves).tolist()
        tree.predictors[exits] = 0.0
        tree.offsets[exits] = 0.0
        tree.predicting[exits] = False
        for number, share in enumerate(shares):
            eased = replace(problem, lambda_=share * problem.lambda_)
            before = tree.predicting.copy()
            for k in exits:
                above = np.zeros(members.shape[1], dtype=np.bool_)
                for j in SoftTree.path(k)[:-1]:
                    above |= tree.support(j)
                start = tree.predictors[k], tree.offsets[k]
                weights = problem.shares * (leaves == k)
                fitted = add_columns(eased, weights, members @ above > 0, start, _CLEAR)
                tree.predictors[k], tree.offsets[k] = fitted
                tree.predicting[k] = tree.predictors[k].any(axis=1)
            if number and (tree.predicting == before).all():
                continue
            for k in exits:
                tree.tune_node(k, rows, leaves)
            yield tree.twin()

    def prune(self, rows: LeafRows, validation: LeafRows) -> None:
        """Remove nodes without which the validation loss is no larger, from the bottom.

        The tree is tuned.
        """
        leaves = self.leave(rows.columns)
        validation_leaves = self.leave(validation.columns)
        for k in reversed(np.flatnonzero(self.alive)[1:].tolist()):
            if not self.leaf(k):
                continue
            parent = (k - 1) // 2
            touched = (validation_leaves == k) | (validation_leaves == parent)
            sample = validation.take(np.flatnonzero(touched))
            before = self._loss(sample, validation_leaves[touched])
            prediction = self.predictors[parent].copy(), self.offsets[parent].copy()
            self.alive[k] = False
            pruned = np.where(leaves == k, parent, leaves)
            self.tune_node(parent, rows, pruned)
            if self._loss(sample, np.full(len(sample.X), parent)) <= before + _EQUAL:
                leaves = pruned
                validation_leaves[touched] = parent
            else:
                self.alive[k] = True
                self.predictors[parent], self.offsets[parent] = prediction

    def _loss(self, rows: LeafRows, leaves: np.ndarray) -> float:
        """The weighted loss of rows that leave at the nodes `leaves` (n,)."""
        S = self.predict(rows.columns, leaves)
        return float(rows.weights @ self.loss(S, rows.targets)[0])

    def tune_node(self, k: int, rows: LeafRows, leaves: np.ndarray) -> None:
        """Fit the prediction of node k anew, of rows that leave at the nodes `leaves` (n,).

        See `tune`.
        """
        here = leaves == k
        if not here.any():
            here = _passes(leaves, k)
        support = self.support(k)
        prior, counts, ridge = self._prior(rows)
        origin = np.zeros((len(prior), support.sum()))
        columns = np.concatenate((rows.columns[here][:, support], origin))
        targets = np.concatenate((rows.targets[here], prior))
        weights = np.concatenate((rows.weights[here], counts))
        if isinstance(self.loss, Squared) and here.sum() < _ENOUGH * support.sum():
            ridge += _RIDGE * _spread(rows)
        start = self.predictors[k][support], self.offsets[k]
        self.predictors[k] = 0.0
        self.predictors[k][support], self.offsets[k] = fit_columns(
            columns, targets, weights, self.loss, ridge, start, _STEPS
        )

    def _prior(self, rows: LeafRows) -> tuple[np.ndarray, np.ndarray, float]:
        """What is known without any row of a node: a row at the origin of every class, weighing its
        share, and a ridge.

        So no class becomes impossible. Numbers need next to nothing of the row, only where a node
        has none, but a ridge where a node has few rows: with no more than columns least squares
        meets every row and is far off between them.
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


def _passes(leaves: np.ndarray, k: int) -> np.ndarray:
    """Whether rows pass node k, by the nodes `leaves` (n,) where they leave."""
    node = leaves.copy()
    below = node > k
    while below.any():
        node[below] = (node[below] - 1) // 2
        below = node > k
    return node == k
