"""Asking for features one at a time: where a case stands, what to ask for next, and when to stop.

Nothing is kept between calls: a state follows from what is known. The feature asked for is the one that most unresolved
trees wait for, per price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from app.acquisition import _kernels
from app.acquisition.forest import FlatForest
from app.acquisition.prices import Prices, check_budget
from app.errors import Invalid

Reason = Literal["resolved", "unavailable", "vote_settled", "budget"]
UNKNOWN, UNAVAILABLE = 0, -1
_SLACK = 1e-9  # prices are added up in floats: a budget of .3 buys .1 and .2; relative, as prices have any unit


class Wanted(NamedTuple):
    """A feature (its column) that some trees wait for, what it costs now, and how many wait."""

    feature: int
    price: float
    waiting: int


@dataclass(frozen=True)
class State:
    """Where one case stands. `next` is what to ask for, or None with the `reason` to stop.

    `frontier`: every feature waited for, best first, affordable or not. `spent`, and `remaining` of the budget (None
    without one). `votes` (K,) of resolved trees, `resolved` of `trees`. `settled`: no further value changes the class.
    `prediction` (class code) and `probabilities` (K,) are from what is known: each tree answers where it stands.
    """

    next: Wanted | None
    reason: Reason | None
    frontier: tuple[Wanted, ...]
    spent: float
    remaining: float | None
    votes: np.ndarray
    resolved: int
    trees: int
    settled: bool
    prediction: int
    probabilities: np.ndarray


@dataclass(frozen=True, eq=False)
class States:
    """A batch of states as columns, one row per case; `states[i]` is a State."""

    waiting: np.ndarray
    price: np.ndarray
    order: np.ndarray
    wanted: np.ndarray
    spent: np.ndarray
    votes: np.ndarray
    probabilities: np.ndarray
    resolved: np.ndarray
    missed: np.ndarray
    leader: np.ndarray
    prediction: np.ndarray
    following: np.ndarray
    trees: int
    budget: float
    stop_when_settled: bool

    def __len__(self) -> int:
        return len(self.spent)

    def __iter__(self) -> Iterator[State]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> State:
        frontier = self._frontier(i)
        reason = self._reason(i)
        following = int(self.following[i])
        return State(
            next=None if reason else next(wanted for wanted in frontier if wanted.feature == following),
            reason=reason,
            frontier=frontier,
            spent=float(self.spent[i]),
            remaining=None if math.isinf(self.budget) else max(0.0, self.budget - float(self.spent[i])),
            votes=self.votes[i],
            resolved=int(self.resolved[i]),
            trees=self.trees,
            settled=bool(self.leader[i] >= 0),
            prediction=int(self.prediction[i]),
            probabilities=self.probabilities[i],
        )

    def _frontier(self, i: int) -> tuple[Wanted, ...]:
        columns = self.order[i, : self.wanted[i]]
        return tuple(map(Wanted, columns.tolist(), self.price[i, columns].tolist(), self.waiting[i, columns].tolist()))

    def _reason(self, i: int) -> Reason | None:
        if self.resolved[i] == self.trees:
            return "unavailable" if self.missed[i] else "resolved"
        if self.stop_when_settled and self.leader[i] >= 0:
            return "vote_settled"
        return "budget" if self.following[i] < 0 else None


def step(
    forest: FlatForest, X: np.ndarray, status: np.ndarray, prices: Prices, budget: float | None = None, *,
    stop_when_settled: bool = True,
) -> States:  # fmt: skip
    """Where n cases stand and what each should ask for next.

    X (n, m) float64 with anything where a feature is not known; status (n, m) integers: 0 unknown, -1 cannot be had,
    r >= 1 acquired as the r-th (all 1 where the order is not known: then the first column of a group paid for it).
    A feature that cannot be had, or whose value is of no use (NaN), takes each node's route for missing values. One
    that cannot be had costs nothing and opens no group; what was acquired is paid for, of use or not. Every tree is
    walked until an unknown feature stops it. The next feature is the affordable one with the most waiting trees per
    price; free ones first; equal ratios go to the lower price, then to more trees, then to the earlier column. Reasons
    to stop: all trees are `resolved` (`unavailable` where one of them met a value that cannot be had), the vote is
    settled, or nothing affordable is left (`budget`). The vote is settled when the leader's sure votes are more than
    any rival can still get from trees that have a leaf for it (ties as in the full vote, to the first class): then the
    class is the one of the complete row.
    Raises Invalid for shapes that do not fit and budgets below zero. O(n T depth); about 10 microseconds a case.
    """
    X, status, limit = checked(forest.n_features, X, status, prices, budget)
    X = forest.orders.apply(X)
    n, m = X.shape
    K = forest.n_classes
    waiting, order = np.zeros((n, m), dtype=np.int32), np.empty((n, m), dtype=np.int32)
    price, spent = np.empty((n, m)), np.empty(n)
    votes, P = np.zeros((n, K), dtype=np.int32), np.empty((n, K))
    counts, outcome = np.zeros((n, 3), dtype=np.int32), np.empty((n, 3), dtype=np.int32)
    _kernels.states(
        forest.nodes, X, status, arrays(prices), limit, slack_of(limit), len(prices.groups),
        waiting, price, order, spent, votes, P, counts, outcome,
    )  # fmt: skip
    resolved, missed, wanted = counts.T
    leader, prediction, following = outcome.T
    return States(
        waiting, price, order, wanted, spent, votes, P, resolved, missed, leader, prediction, following,
        forest.n_trees, limit, stop_when_settled,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Simulation:
    """What became of n rows: `cost`, `questions`, `prediction` (n,), `probabilities` (n, K), `resolved` trees (n,)."""

    cost: np.ndarray
    questions: np.ndarray
    prediction: np.ndarray
    probabilities: np.ndarray
    resolved: np.ndarray


def simulate(
    forest: FlatForest, X: np.ndarray, prices: Prices, budget: float | None = None, *, stop_when_settled: bool = True
) -> Simulation:
    """Complete rows X (n, m), fed feature by feature as `step` asks, from nothing known until it stops.

    `budget` is per row. A missing value is asked for, found missing, and costs nothing. Raises as `step`.
    O(n questions (T K + m)).
    """
    X, _, limit = checked(forest.n_features, X, np.zeros(np.shape(X), dtype=np.int32), prices, budget)
    X = forest.orders.apply(X)
    n = len(X)
    cost, P = np.zeros(n), np.zeros((n, forest.n_classes))
    questions, prediction, resolved = (np.zeros(n, dtype=np.int32) for _ in range(3))
    _kernels.simulate(
        forest.nodes, X, arrays(prices), limit, slack_of(limit), len(prices.groups), stop_when_settled,
        cost, questions, prediction, P, resolved,
    )  # fmt: skip
    return Simulation(cost, questions, prediction, P, resolved)


def checked(
    n_features: int, X: np.ndarray, status: np.ndarray, prices: Prices, budget: float | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Cases as the kernels take them: X (n, m) float64 and status (n, m) int32, both contiguous, and the budget.

    m is `n_features`; no budget is infinity. Raises Invalid at "" for shapes, `/feature_costs` for a number of prices,
    and `/budget` that do not fit. Copies only what has another layout.
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    status = np.ascontiguousarray(status, dtype=np.int32)
    if X.ndim != 2 or X.shape[1] != n_features or status.shape != X.shape:
        raise Invalid.at("", f"cases are rows of {n_features} values, with a status for each value")
    if len(prices) != n_features:
        raise Invalid.at("/feature_costs", f"{len(prices)} prices for {n_features} features")
    return X, status, check_budget(budget)


def arrays(prices: Prices) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return prices.cost, prices.discounted, prices.group


def slack_of(limit: float) -> float:
    return 0.0 if math.isinf(limit) else _SLACK * limit
