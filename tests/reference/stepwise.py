"""Models asked one feature at a time, for tests and benchmarks: states case by case, and the ends of complete rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from app.acquisition.forest import FlatForest
from app.acquisition.nodes import converted, flatten
from app.acquisition.prices import Prices
from app.acquisition.states import States, StepwiseModel, Trajectories

UNAVAILABLE = -1
_BLOCK = 2000  # rows whose states are in memory together


class Wanted(NamedTuple):
    """A feature (its column) that some trees wait for, its present price, and how many trees wait."""

    feature: int
    price: float
    waiting: int


@dataclass(frozen=True)
class State:
    """The state of one case; `next` is the feature to acquire, or None with the `reason` to stop."""

    next: Wanted | None
    reason: str | None
    frontier: tuple[Wanted, ...]
    spent: float
    resolved: int
    trees: int
    settled: bool
    prediction: int
    probabilities: np.ndarray
    value: float | None


@dataclass(frozen=True)
class Simulation:
    """The ends of n rows: `cost`, `questions`, `prediction` (n,), `probabilities` (n, K), and whether `resolved`."""

    cost: np.ndarray
    questions: np.ndarray
    prediction: np.ndarray
    probabilities: np.ndarray
    resolved: np.ndarray


def step(model: StepwiseModel, *arguments: Any, stop_when_settled: bool = True) -> list[State]:
    """`model.step`, case by case."""
    states = model.step(*arguments)
    return [_state(states, i, stop_when_settled) for i in range(len(states))]


def travels_as_it_steps(
    model: StepwiseModel, X: np.ndarray, prices: Prices, budget: float | None, missing: np.ndarray | None = None
) -> Trajectories:
    """The trajectories of rows, once they are those of `model.step`, state by state: questions, prices, answers, sums.

    What a value is that is not known yet plays no part.
    """
    run = model.travel(X, prices, budget, missing)
    free = np.isnan(X) if missing is None else missing
    X = np.where(free, np.nan, X)
    status, ends, settled = np.zeros(X.shape, dtype=np.int32), np.full(len(X), -1), np.full(len(X), -1)
    for s in range(int(run.length.max()) + 1):
        now, on = model.step(np.where(status == 0, 99.0, X), status, prices, budget), ends < 0
        answer = np.where(np.isnan(now.value), now.prediction, now.value)
        np.testing.assert_array_equal(now.probabilities[on], run.P[on, s])
        np.testing.assert_allclose(answer[on], run.vote[on, s], rtol=1e-12)
        np.testing.assert_allclose(now.spent[on], run.spent[on, s], atol=1e-12)
        settled[on & (settled < 0) & (now.leader >= 0)] = s
        over = on & (now.following < 0)
        np.testing.assert_array_equal(run.resolved[over], now.resolved[over] == now.trees)
        ends[over] = s
        rows = np.flatnonzero(on & ~over)
        j = now.following[rows]
        np.testing.assert_array_equal(j, run.asked[rows, s] if len(rows) else j)
        if len(rows):
            np.testing.assert_array_equal(now.price[rows, j], run.price[rows, s])
            np.testing.assert_array_equal(free[rows, j], run.missing[rows, s])
        status[rows, j] = np.where(free[rows, j], UNAVAILABLE, s + 1)
    np.testing.assert_array_equal(ends, run.length)
    np.testing.assert_array_equal(settled, run.settled)
    return run


def simulate(
    model: StepwiseModel, X: np.ndarray, prices: Prices, budget: float | None = None, *, stop_when_settled: bool = True
) -> Simulation:
    """The ends of `model.travel`; a settled vote stops a row if `stop_when_settled`."""
    parts = []
    for start in range(0, len(X), _BLOCK):
        rows = model.travel(X[start : start + _BLOCK], prices, budget)
        stops = stop_when_settled & (rows.settled >= 0)
        ends = np.where(stops, rows.settled, rows.length)
        at = np.arange(len(rows)), ends
        parts.append((rows.spent[at], ends, rows.vote[at], rows.P[at], rows.resolved & (ends == rows.length)))
    return Simulation(*map(np.concatenate, zip(*parts, strict=True)))


def from_sklearn(model: RandomForestClassifier) -> FlatForest:
    """The forest that decides each row exactly as scikit-learn's fitted forest of one output does."""
    prior = np.mean([tree.tree_.value[0, 0] for tree in model.estimators_], axis=0)
    trees = (converted(tree.tree_) for tree in model.estimators_)
    return FlatForest(flatten(trees, prior / prior.sum()), model.n_features_in_)


def _state(states: States, i: int, settles: bool) -> State:
    columns = states.order[i, : states.wanted[i]]
    prices, waiting = states.price[i, columns].tolist(), states.waiting[i, columns].tolist()
    frontier = tuple(map(Wanted, columns.tolist(), prices, waiting))
    reason = _reason(states, i, settles)
    following, value = int(states.following[i]), float(states.value[i])
    return State(
        next=None if reason else next(wanted for wanted in frontier if wanted.feature == following),
        reason=reason,
        frontier=frontier,
        spent=float(states.spent[i]),
        resolved=int(states.resolved[i]),
        trees=states.trees,
        settled=bool(states.leader[i] >= 0),
        prediction=int(states.prediction[i]),
        probabilities=states.probabilities[i],
        value=None if math.isnan(value) else value,
    )


def _reason(states: States, i: int, settles: bool) -> str | None:
    if states.resolved[i] == states.trees:
        return "unavailable" if states.missed[i] else "resolved"
    if settles and states.leader[i] >= 0:
        return "vote_settled"
    return "budget" if states.following[i] < 0 else None
