"""Models asked one feature at a time, for tests and benchmarks: states case by case, and the ends of complete rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from app.acquisition.forest import FlatForest
from app.acquisition.nodes import converted, flatten
from app.acquisition.session import Prices, States, StepwiseModel

UNKNOWN, UNAVAILABLE = 0, -1
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
