"""Acquire the features of a case one at a time: its state, the feature to acquire next, and when to stop.

Nothing is stored between calls: a state follows from the known features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from app.acquisition.prices import Prices, check_budget
from app.acquisition.trajectories import Trajectories
from app.arrays import F64, I32, Bools, Indices, Ints
from app.errors import Invalid

_SLACK = 1e-9  # prices are added up in floats: a budget of .3 buys .1 and .2; relative, as prices have any unit


@dataclass(frozen=True, eq=False)
class States:
    """The states of n cases as columns; m features, K classes (0 where the model predicts numbers).

    `order` (n, m): in the first `wanted` (n,) places the features that trees wait for, best first, affordable or not;
    `waiting`, `price` (n, m): by feature, how many trees wait for it and its present price. `spent` (n,). `votes`
    (n, K) of the `resolved` (n,) ones of all `trees`; `missed` (n,): how many met an unavailable value. `leader` (n,):
    the class of a settled vote, else -1. `prediction` (n,) class codes, `probabilities` (n, K) and `value` (n,), a
    predicted number or NaN, follow from what is known. `following` (n,): the feature to acquire next, or -1.
    """

    waiting: I32
    price: F64
    order: I32
    wanted: I32
    spent: F64
    votes: I32
    probabilities: F64
    resolved: I32
    missed: I32
    leader: I32
    prediction: I32
    following: I32
    value: F64
    trees: int
    budget: float
    stop_when_settled: bool

    def __len__(self) -> int:
        return len(self.spent)


class StepwiseModel(Protocol):
    """A model that acquires features one at a time: a forest, or a tree of classifiers, which counts as one tree.

    `can_settle`: whether a vote can be settled before all features that the model tests are known.
    """

    can_settle: ClassVar[bool]

    @property
    def columns(self) -> Indices:
        """The features that the model may ask for, ascending."""
        ...

    def step(
        self, X: F64, status: Ints, prices: Prices, budget: float | None = None, *, stop_when_settled: bool = True
    ) -> States:
        """The states of n cases, and the feature that each should acquire next.

        X (n, m) float64, with any number where a feature is unknown; status (n, m): 0 unknown, -1 unavailable, r >= 1
        acquired as the r-th (all 1 if the order is unknown: then the first column of a group paid for it). An
        unavailable feature costs nothing and opens no group; an acquired one is paid for even if it is NaN.
        Reasons to stop: the model is `resolved`, the vote is settled, or no affordable feature is left.
        Raises Invalid for shapes that do not fit and budgets below zero.
        """
        ...

    def travel(self, X: F64, prices: Prices, budget: float | None = None, missing: Bools | None = None) -> Trajectories:
        """Acquire the features of complete rows X (n, m), NaN where missing, until no affordable one is left.

        A settled vote does not stop a row. `missing` (n, m) marks unavailable features, which cost nothing; by default
        every NaN. Other NaN are paid for. `budget` is per row. Raises as `step`.
        """
        ...

    def posterior(self, X: F64) -> F64:
        """Class probabilities (n, K) of complete rows (n, m), NaN where missing; checks nothing."""
        ...

    def predict(self, X: F64) -> np.ndarray:
        """Class codes, or numbers, (n,) of complete rows (n, m), NaN where missing; checks nothing."""
        ...

    def fees(self, X: F64) -> F64:
        """The cost (n,) of evaluating the model on complete rows (n, m), besides their features."""
        ...


def checked(n_features: int, X: F64, status: Ints, prices: Prices, budget: float | None) -> tuple[F64, I32, float]:
    """Cases as the kernels take them: X (n, m) float64 and status (n, m) int32, both contiguous, and the budget.

    m is `n_features`; no budget is infinity. Raises Invalid at "" for shapes, at `/feature_costs` for a wrong number of
    prices, and at `/budget`. Copies only arrays of another layout.
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    status = np.ascontiguousarray(status, dtype=np.int32)
    if X.ndim != 2 or X.shape[1] != n_features or status.shape != X.shape:
        raise Invalid.at("", f"cases are rows of {n_features} values, with a status for each value")
    if len(prices) != n_features:
        raise Invalid.at("/feature_costs", f"{len(prices)} prices for {n_features} features")
    return X, status, check_budget(budget)


def slack_of(limit: float) -> float:
    """By how much costs may exceed a budget because of rounding."""
    return 0.0 if math.isinf(limit) else _SLACK * limit
