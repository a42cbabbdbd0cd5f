"""Cases that learn feature by feature what a tree of classifiers asks for.

A case stands at a node until it knows all that the node has weight on; then the node's classifier can answer, and sends
the case up or down. The answer is that of the deepest node that could.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from app.acquisition import _tree_kernels as kernels
from app.acquisition.prices import Prices
from app.acquisition.session import Simulation, State, States, arrays, checked, slack_of
from app.acquisition.trajectories import Trajectories
from app.acquisition.tree_of_classifiers import TreeOfClassifiers

_BLOCK = 2000  # rows whose states are in memory together


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
class TreeTrajectories(Trajectories):
    """Trajectories through a tree; `vote` is the class, or the number, in each state.

    `node` (n, S + 1): the deepest node that could answer, -1 before the root could. `fee` (n, S + 1): what evaluating
    the nodes has cost so far, besides the features.
    """

    node: np.ndarray
    fee: np.ndarray

    @property
    def spent(self) -> np.ndarray:
        """What has been paid in each state, (n, S + 1)."""
        spent: np.ndarray = super().spent + self.fee
        return spent


@dataclass(frozen=True, eq=False)
class TreeSimulation(Simulation):
    """A Simulation whose `prediction` is a class code or a number, with the `node` (n,) reached, -1 for none."""

    node: np.ndarray


def step(
    tree: TreeOfClassifiers, X: np.ndarray, status: np.ndarray, prices: Prices, budget: float | None = None
) -> TreeStates:
    """Where n cases stand and what each should ask for next.

    X (n, m) float64 with anything where a feature is not known; status (n, m) integers: 0 unknown, -1 cannot be had,
    r >= 1 acquired as the r-th (all 1 where the order is not known: then the first column of a group paid for it).
    A feature that cannot be had, or whose value is of no use (NaN), counts as the training mean. One that cannot be had
    costs nothing and opens no group; what was acquired is paid for, of use or not. The frontier is what the node where
    the case stands still needs, cheapest first, ties to the earlier column. Half of what a node needs decides nothing,
    so nothing is asked for when the rest of the budget does not pay for all of it, and no node is evaluated that it
    does not pay for (`budget`). The other reasons to
    stop: the case is out of the tree (`resolved`; `unavailable` where it met a value that cannot be had). The answer is
    that of the deepest node that could, or the prior before the root. Raises Invalid for shapes that do not fit and
    budgets below zero. O(n (m N L + depth m^2)).
    """
    X, status, limit = checked(tree.n_features, X, status, prices, budget)
    n, m = X.shape
    Z = tree.scorer.scores(np.where(status >= 1, X, np.nan))
    spent, total, price = np.zeros(n), np.zeros(n), np.zeros((n, m))
    reached, wanted = np.empty(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
    out, missed, order = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_), np.zeros((n, m), dtype=np.int32)
    kernels.walk(
        tree.nodes(), Z[:, : tree.n_nodes] > tree.thresholds, status, arrays(prices),
        limit + slack_of(limit), len(prices.groups), spent, reached, out, missed, wanted, total, order, price,
    )  # fmt: skip
    answers = tree.answers(Z, reached)
    P, value, prediction = _told(tree, answers)
    resolved = out.astype(np.int32)
    votes = np.zeros((n, tree.n_classes), dtype=np.int32)
    if tree.n_classes:
        votes[np.arange(n), prediction] = resolved
    waiting, by_column = _by_column(order, price, wanted)
    affordable = (wanted > 0) & (spent + total <= limit + slack_of(limit))
    return TreeStates(
        waiting=waiting, price=by_column, order=order, wanted=wanted, spent=spent, votes=votes, probabilities=P,
        resolved=resolved, missed=missed.astype(np.int32), leader=np.where(resolved == 1, prediction, -1),
        prediction=prediction, following=np.where(affordable, order[:, 0], -1), trees=1, budget=limit,
        stop_when_settled=True, node=reached, value=value,
    )  # fmt: skip


def travel(
    tree: TreeOfClassifiers, X: np.ndarray, prices: Prices, budget: float | None = None,
    missing: np.ndarray | None = None,
) -> TreeTrajectories:  # fmt: skip
    """Feed complete rows X (n, m), NaN where missing, feature by feature as `step` asks, until it stops.

    `missing` (n, m) marks what cannot be had and costs nothing; by default every NaN. Others were bought in vain.
    `budget` is per row. Raises as `step`. O(n (m N L + depth m^2)); memory n S (K + L + 6).
    """
    X, _, limit = checked(tree.n_features, X, np.zeros(np.shape(X), dtype=np.int32), prices, budget)
    free = np.isnan(X) if missing is None else np.ascontiguousarray(missing, dtype=np.bool_)
    n, S = len(X), len(tree.columns)
    Z = tree.scorer.scores(X)
    asked, price = np.full((n, S), -1, dtype=np.int32), np.zeros((n, S))
    node, fee = np.full((n, S + 1), -1, dtype=np.int32), np.zeros((n, S + 1))
    length, resolved = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.bool_)
    kernels.trace(
        tree.nodes(), Z[:, : tree.n_nodes] > tree.thresholds, free, arrays(prices), limit + slack_of(limit),
        len(prices.groups), asked, price, node, fee, length, resolved,
    )  # fmt: skip
    S = int(length.max(initial=0))
    asked, node = asked[:, :S], node[:, : S + 1]
    lost = (asked >= 0) & free[np.arange(n)[:, None], asked]
    answers = np.stack([tree.answers(Z, node[:, s]) for s in range(S + 1)], axis=1)
    flat = answers.reshape(n * (S + 1), -1)
    P, vote = tree.probabilities(flat).reshape(n, S + 1, -1), tree.chosen(flat).reshape(n, S + 1)
    settled = np.where(resolved, length, -1)
    return TreeTrajectories(asked, price[:, :S], lost, P, vote, length, settled, resolved, node, fee[:, : S + 1])


def simulate(tree: TreeOfClassifiers, X: np.ndarray, prices: Prices, budget: float | None = None) -> TreeSimulation:
    """Where complete rows X (n, m) end that are fed feature by feature, as `travel` does, from nothing known."""
    parts = []
    for start in range(0, max(len(X), 1), _BLOCK):
        rows = travel(tree, X[start : start + _BLOCK], prices, budget)
        ends = np.arange(len(rows)), rows.length
        parts.append(
            (rows.spent[ends], rows.length, rows.vote[ends], rows.P[ends], rows.resolved.astype(int), rows.node[ends])
        )
    return TreeSimulation(*map(np.concatenate, zip(*parts, strict=True)))


def _told(tree: TreeOfClassifiers, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities (n, K), values (n,) and class codes (n,) for answers (n, L)."""
    n, chosen = len(answers), tree.chosen(answers)
    if tree.n_classes:
        return tree.probabilities(answers), np.full(n, np.nan), chosen
    return tree.probabilities(answers), chosen, np.zeros(n, dtype=np.int32)


def _by_column(order: np.ndarray, price: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether a column is waited for, and at which price, both (n, m), from the order of asking."""
    n, m = order.shape
    rows, places = np.nonzero(np.arange(m) < wanted[:, None])
    columns = order[rows, places]
    waiting, by_column = np.zeros((n, m), dtype=np.int32), np.zeros((n, m))
    waiting[rows, columns], by_column[rows, columns] = 1, price[rows, places]
    return waiting, by_column
