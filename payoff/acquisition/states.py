"""Cases that acquire features one at a time: states, trajectories, and the protocol of models.

A case is not stored between calls: its state follows from the features that are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np

from payoff.acquisition.prices import Prices, limit_of
from payoff.arrays import F64, I32, Bools, Indices, Ints
from payoff.errors import Invalid


@dataclass(frozen=True, eq=False)
class Trajectories:
    """n rows in states 0 (nothing known) … S; row i ends in state `length[i]`.

    Its later states are undefined. `asked` (n, S): the column requested in a state (-1 after the
    end), `price` (n, S) its price there, and `missing` (n, S) whether its value is missing, which
    costs nothing. `P` (n, S + 1, K) and `vote` (n, S + 1): class distribution, and predicted class
    or number, in each state. `settled` (n,): the first state in which the vote can no longer
    change, or -1. `resolved` (n,): whether every tree reaches a leaf.
    """

    asked: I32
    price: F64
    missing: Bools
    P: F64
    vote: np.ndarray
    length: I32
    settled: I32
    resolved: Bools

    def __len__(self) -> int:
        return len(self.length)

    @classmethod
    def cut(
        cls, features: I32, price: F64, free: Bools, P: F64, vote: np.ndarray, length: I32,
        settled: I32, resolved: Bools,
    ) -> Self:  # fmt: skip
        """Trajectories without states that no row reaches; `free` (n, m): unavailable features."""
        S = int(length.max(initial=0))
        features = features[:, :S]
        missing = (features >= 0) & free[np.arange(len(features))[:, None], features]
        states = slice(S + 1)
        return cls(
            features,
            price[:, :S],
            missing,
            P[:, states],
            vote[:, states],
            length,
            settled,
            resolved,
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, with room for the longest trajectory."""
        longest = max(part.asked.shape[1] for part in parts)
        # The width of each array of states, and the value that fills it after the end of a row.
        widths = {
            "asked": (longest, -1),
            "price": (longest, 0),
            "missing": (longest, 0),
        }
        widths |= {"P": (longest + 1, 0), "vote": (longest + 1, 0)}
        joined = {}
        for name in cls.__dataclass_fields__:
            columns = [getattr(part, name) for part in parts]
            if name in widths:
                columns = [_widened(column, *widths[name]) for column in columns]
            joined[name] = np.concatenate(columns)
        return cls(**joined)

    @property
    def spent(self) -> np.ndarray:
        """The cost so far in each state, (n, S + 1)."""
        paid = np.cumsum(np.where(self.missing, 0.0, self.price), axis=1)
        return np.concatenate((np.zeros((len(paid), 1)), paid), axis=1)


def _widened(column: np.ndarray, width: int, fill: float) -> np.ndarray:
    padding = [(0, 0), (0, width - column.shape[1])] + [(0, 0)] * (column.ndim - 2)
    return np.pad(column, padding, constant_values=fill)


@dataclass(frozen=True, eq=False)
class States:
    """The states of n cases as columns; m features, K classes (0 where the model predicts numbers).

    `order` (n, m): in the first `wanted` (n,) places the features that trees wait for, best first,
    affordable or not; `waiting`, `price` (n, m): by feature, how many trees wait for it and its
    present price. `spent` (n,). `resolved` (n,): how many of all `trees` are; `missed` (n,): how
    many met an unavailable value. `leader` (n,): the class of a settled vote, else -1. `prediction`
    (n,) class codes, `probabilities` (n, K) and `value` (n,), a predicted number or NaN, follow
    from what is known. `following` (n,): the feature to acquire next, or -1.
    """

    waiting: I32
    price: F64
    order: I32
    wanted: I32
    spent: F64
    probabilities: F64
    resolved: I32
    missed: I32
    leader: I32
    prediction: I32
    following: I32
    value: F64
    trees: int
    budget: float

    def __len__(self) -> int:
        return len(self.spent)


class StepwiseModel(Protocol):
    """A model that acquires features one at a time: a forest, or one tree of classifiers.

    `can_settle`: whether a vote can be settled before all features that the model tests are known.
    """

    can_settle: ClassVar[bool]

    @property
    def columns(self) -> Indices:
        """The features that the model may ask for, ascending."""

    def step(
        self, X: F64, status: Ints, prices: Prices, budget: float | None = None
    ) -> States:
        """The states of n cases, and the feature that each should acquire next.

        X (n, m) float64, with any number where a feature is unknown; status (n, m): 0 unknown, -1
        unavailable, r >= 1 acquired as the r-th (all 1 if the order is unknown: then the first
        column of a group paid for it). An unavailable feature costs nothing and opens no group; an
        acquired one is paid for even if it is NaN.
        A case stops when the model is `resolved`, the vote is settled, or no feature is affordable.
        Raises Invalid for shapes that do not fit.
        """

    def travel(
        self,
        X: F64,
        prices: Prices,
        budget: float | None = None,
        missing: Bools | None = None,
    ) -> Trajectories:
        """Acquire the features of complete rows X (n, m) until none is affordable.

        X is NaN where a value is missing. A settled vote does not stop a row. `missing` (n, m)
        marks unavailable features, which cost nothing; by default every NaN. Other NaN are paid
        for. `budget` is per row. Raises as
        `step`.
        """

    def posterior(self, X: F64) -> F64:
        """Class probabilities (n, K) of complete rows (n, m), NaN where missing; checks nothing."""

    def predict(self, X: F64) -> np.ndarray:
        """Class codes or numbers (n,) of complete rows (n, m), as in `posterior`."""


def checked(
    n_features: int, X: F64, status: Ints, prices: Prices, budget: float | None
) -> tuple[F64, I32, float]:
    """Cases as kernels take them: contiguous X (n, m) float64 and status (n, m) int32; the budget.

    m is `n_features`. Raises Invalid at "" for shapes, at `/feature_costs` for a wrong number of
    prices. Copies only arrays of another layout.
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    status = np.ascontiguousarray(status, dtype=np.int32)
    if X.ndim != 2 or X.shape[1] != n_features or status.shape != X.shape:
        raise Invalid.at(
            "", f"cases are rows of {n_features} values, with a status for each value"
        )
    if len(prices) != n_features:
        raise Invalid.at(
            "/feature_costs", f"{len(prices)} prices for {n_features} features"
        )
    return X, status, limit_of(budget)
