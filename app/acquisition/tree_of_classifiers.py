"""A tree whose nodes are linear classifiers: complete rows through it, and cases that learn feature by feature.

A case stands at a node until it knows all that the node has weight on; then the node's classifier can answer, and sends
the case up or down. The answer is that of the deepest node that could.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from scipy.special import expit

from app.acquisition import tree_of_classifiers_kernels as kernels
from app.acquisition.prices import Prices, check_budget
from app.acquisition.session import Simulation, State, States
from app.errors import Invalid

_SLACK = 1e-9  # prices are added up in floats: a budget of .3 buys .1 and .2


class Scorer(Protocol):
    """Linear scores of raw rows."""

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Scores (n, N + N L) for rows (n, m), NaN where missing; checks nothing."""
        ...


@dataclass(frozen=True, eq=False)
class TreeOfClassifiers:
    """N nodes over m features, the root first; K classes, or 0 for numbers.

    `upper`, `lower` (N,) int32: where a case goes whose score is above `thresholds` (N,), and else; -1 is out.
    `needs` (N, m) bool: the features that a node has weight on. `evaluation` (N,): what its weak learners cost, those
    evaluated above left out. `scorer` gives the N deciding scores, and then each node's L predicting ones: the value,
    or the log odds of the second of two classes, or one score for each class. `prior` (L,): the same before any node.
    """

    upper: np.ndarray
    lower: np.ndarray
    thresholds: np.ndarray
    needs: np.ndarray
    evaluation: np.ndarray
    scorer: Scorer
    prior: np.ndarray
    n_classes: int

    @property
    def n_nodes(self) -> int:
        return len(self.upper)

    @property
    def n_features(self) -> int:
        return int(self.needs.shape[1])

    @property
    def columns(self) -> np.ndarray:
        """The features that some node may ask for, ascending."""
        return np.flatnonzero(self.needs.any(axis=0))

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (n, K) of complete rows (n, m), NaN where missing; checks nothing."""
        return self.probabilities(self._final(X))

    def values(self, X: np.ndarray) -> np.ndarray:
        """Predicted numbers (n,) of complete rows (n, m), NaN where missing; checks nothing."""
        final: np.ndarray = self._final(X)[:, 0]
        return final

    def probabilities(self, answers: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) from nodes' answers (n, L)."""
        if self.n_classes == 2:
            P: np.ndarray = expit(np.concatenate((-answers, answers), axis=1))
            return P
        P = np.exp(answers - answers.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        return P

    def reach(self, X: np.ndarray) -> np.ndarray:
        """The node (n,) at which complete rows (n, m) leave the tree."""
        return self._leave(self.scorer.scores(X))

    def answers(self, Z: np.ndarray, reached: np.ndarray) -> np.ndarray:
        """Predicting scores (n, L) at the nodes reached (n,), `prior` where that is -1, from all scores Z."""
        L = len(self.prior)
        rows = np.arange(len(Z))[:, None]
        found: np.ndarray = Z[rows, self.n_nodes + L * np.maximum(reached, 0)[:, None] + np.arange(L)]
        if len(reached) and reached.min() < 0:
            found[reached < 0] = self.prior
        return found

    def nodes(self) -> kernels.Nodes:
        """The arrays that the compiled walks read."""
        return self.upper, self.lower, self.needs, self.evaluation

    def _final(self, X: np.ndarray) -> np.ndarray:
        Z = self.scorer.scores(X)
        return self.answers(Z, self._leave(Z))

    def _leave(self, Z: np.ndarray) -> np.ndarray:
        n = len(Z)
        rows, node = np.arange(n), np.zeros(n, dtype=np.intp)
        up = Z[:, : self.n_nodes] > self.thresholds
        while True:
            following = np.where(up[rows, node], self.upper[node], self.lower[node])
            inside = following >= 0
            if not inside.any():
                return node
            node = np.where(inside, following, node)
            # A row that is out goes on to be sent out of the same node by the same score.


@dataclass(frozen=True)
class TreeState(State):
    """A State of a tree of classifiers: it counts as one tree.

    `node`: the deepest node that could answer, -1 before the root could. `value`: its number where the tree predicts
    numbers; there `prediction` is 0 and `probabilities` is empty.
    """

    node: int
    value: float | None


@dataclass(frozen=True, eq=False)
class TreeStates(States):
    """A batch of states as columns, with `node` (n,) and `value` (n,), NaN for classes; `states[i]` is a TreeState."""

    node: np.ndarray
    value: np.ndarray

    def __getitem__(self, i: int) -> TreeState:
        plain = super().__getitem__(i)
        value = float(self.value[i])
        shown = {field.name: getattr(plain, field.name) for field in fields(State)}
        return TreeState(**shown, node=int(self.node[i]), value=None if math.isnan(value) else value)


@dataclass(frozen=True, eq=False)
class TreeSimulation(Simulation):
    """A Simulation with the `node` (n,) reached, -1 for none, and `value` (n,), NaN for classes."""

    node: np.ndarray
    value: np.ndarray


def step(
    tree: TreeOfClassifiers, X: np.ndarray, status: np.ndarray, prices: Prices, budget: float | None = None
) -> TreeStates:
    """Where n cases stand and what each should ask for next.

    X (n, m) float64 with anything where a feature is not known; status (n, m) integers: 0 unknown, -1 cannot be had,
    r >= 1 acquired as the r-th (all 1 where the order is not known: then the first column of a group paid for it).
    A feature that cannot be had, or is known to be missing (NaN), counts as the training mean, costs nothing and opens
    no group. The frontier is what the node where the case stands still needs, cheapest first, ties to the earlier
    column. Half of what a node needs decides nothing, so nothing is asked for when the rest of the budget does not pay
    for all of it (`budget`). The other reasons to stop: the case is out of the tree (`resolved`; `unavailable` where it
    met a value that cannot be had). The answer is that of the deepest node that could, or the prior before the root.
    Raises Invalid for shapes that do not fit and budgets below zero. O(n (m N L + depth m^2)).
    """
    X, status, limit = _checked(tree, X, status, prices, budget)
    (n, m), K = X.shape, tree.n_classes
    known = np.where(status >= 1, X, np.nan)
    status = np.where((status >= 1) & np.isnan(X), -1, status).astype(np.int32)
    Z = tree.scorer.scores(known)
    spent, total, price = np.zeros(n), np.zeros(n), np.zeros((n, m))
    reached, wanted = np.empty(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    missed, order = np.zeros(n, dtype=np.bool_), np.zeros((n, m), dtype=np.int32)
    kernels.walk(
        tree.nodes(), Z[:, : tree.n_nodes] > tree.thresholds, status, _arrays(prices), len(prices.groups),
        spent, reached, missed, wanted, total, order, price,
    )  # fmt: skip
    P, value, prediction = _told(tree, tree.answers(Z, reached))
    resolved = (wanted == 0).astype(np.int32)
    votes = np.zeros((n, K), dtype=np.int32)
    if K:
        votes[np.arange(n), prediction] = resolved
    rows, asked = np.arange(n)[:, None], np.arange(m) < wanted[:, None]
    by_column, waiting = np.zeros((n, m)), np.zeros((n, m), dtype=np.int32)
    np.add.at(by_column, (rows, order), np.where(asked, price, 0.0))
    np.add.at(waiting, (rows, order), asked)
    affordable = (wanted > 0) & (spent + total <= limit + _slack(limit))
    return TreeStates(
        waiting=waiting, price=by_column, order=order, wanted=wanted, spent=spent, votes=votes, probabilities=P,
        resolved=resolved, missed=missed.astype(np.int32), leader=np.where(resolved == 1, prediction, -1),
        prediction=prediction, following=np.where(affordable, order[:, 0], -1), trees=1, budget=limit,
        stop_when_settled=True, node=reached, value=value,
    )  # fmt: skip


def simulate(tree: TreeOfClassifiers, X: np.ndarray, prices: Prices, budget: float | None = None) -> TreeSimulation:
    """Complete rows X (n, m), fed feature by feature as `step` asks, from nothing known until it stops.

    `budget` is per row. A missing value is asked for, found missing, and costs nothing. Raises as `step`.
    """
    X, _, limit = _checked(tree, X, np.zeros(np.shape(X), dtype=np.int32), prices, budget)
    n = len(X)
    Z = tree.scorer.scores(X)
    cost = np.zeros(n)
    questions, reached, resolved = (np.zeros(n, dtype=np.int32) for _ in range(3))
    kernels.simulate(
        tree.nodes(), Z[:, : tree.n_nodes] > tree.thresholds, np.isnan(X), _arrays(prices), limit, _slack(limit),
        cost, questions, reached, resolved, len(prices.groups),
    )  # fmt: skip
    P, value, prediction = _told(tree, tree.answers(Z, reached))
    return TreeSimulation(cost, questions, prediction, P, resolved, reached, value)


def _told(tree: TreeOfClassifiers, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities (n, K), values (n,) and class codes (n,) for answers (n, L)."""
    n = len(answers)
    if tree.n_classes == 0:
        return np.empty((n, 0)), answers[:, 0], np.zeros(n, dtype=np.int32)
    P = tree.probabilities(answers)
    return P, np.full(n, np.nan), P.argmax(axis=1).astype(np.int32)


def _checked(
    tree: TreeOfClassifiers, X: np.ndarray, status: np.ndarray, prices: Prices, budget: float | None
) -> tuple[np.ndarray, np.ndarray, float]:
    X = np.ascontiguousarray(X, dtype=np.float64)
    status = np.ascontiguousarray(status, dtype=np.int32)
    if X.ndim != 2 or X.shape[1] != tree.n_features or status.shape != X.shape:
        raise Invalid.at("", f"cases are rows of {tree.n_features} values, with a status for each value")
    if len(prices) != tree.n_features:
        raise Invalid.at("/feature_costs", f"{len(prices)} prices for {tree.n_features} features")
    try:
        return X, status, check_budget(budget)
    except Invalid as error:
        raise error.under("/budget") from None


def _arrays(prices: Prices) -> kernels.PriceArrays:
    return prices.cost, prices.discounted, prices.group


def _slack(limit: float) -> float:
    return 0.0 if math.isinf(limit) else _SLACK * max(1.0, limit)
