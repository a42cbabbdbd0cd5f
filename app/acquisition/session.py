"""What features cost, and cases that acquire them one at a time: their states, and what they paid on the way.

A case is not stored between calls: its state follows from the features that are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from app.arrays import F64, I32, Bools, Indices, Ints
from app.decisions.benefit import LARGEST
from app.errors import Flaw, Invalid, pointer, reject

SMALLEST = 1 / LARGEST  # what trees wait for is compared per price, which overflows for the smallest floats
_DIGITS = 12  # of a sum of prices: the error of adding thousands in binary is below


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of m features: the first of a group that is acquired costs `cost`, later ones `discounted`.

    `cost`, `discounted` (m,) float64 >= 0, equal where a feature is in no group; `group` (m,) int32, -1 for none;
    `groups` their names, in the order of the numbers.
    """

    cost: F64
    discounted: F64
    group: I32
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, cost: Sequence[float] | np.ndarray) -> Prices:
        """Prices without groups; raises Invalid at `/j` for one that is neither 0 nor from `SMALLEST` to `LARGEST`."""
        paid = np.array(cost, dtype=np.float64)
        wrong = np.flatnonzero(~((paid == 0) | ((paid >= SMALLEST) & (paid <= LARGEST))))
        reject(
            (Flaw(pointer(j), f"a price is 0, or from {SMALLEST:g} to {LARGEST:g}") for j in wrong), "invalid prices"
        )
        return cls(paid, paid, np.full(len(paid), -1, dtype=np.int32))

    @classmethod
    def unit(cls, m: int) -> Prices:
        """Every feature costs 1: cost is the number of features."""
        return cls.of(np.ones(m))

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def arrays(self) -> tuple[F64, F64, I32]:
        """What the compiled kernels read."""
        return self.cost, self.discounted, self.group

    def listed(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The long form of requests, ready for JSON; `names` are those of the features."""
        listed = []
        for name, cost, discounted, group in zip(
            names, self.cost.tolist(), self.discounted.tolist(), self.group.tolist(), strict=True
        ):
            entry = {"feature": name, "cost": cost}
            listed.append(entry if group < 0 else {**entry, "group": self.groups[group], "discounted_cost": discounted})
        return listed

    def paid(self, order: Iterable[int]) -> list[float]:
        """What each feature costs when they are acquired in this order; the sum is what is spent."""
        opened: set[int] = set()
        prices = []
        for j in order:
            group = int(self.group[j])
            prices.append(float(self.discounted[j] if group in opened else self.cost[j]))
            if group >= 0:
                opened.add(group)
        return prices


def rounded(sums: F64, *others: float) -> list[float]:
    """Sums of prices to 12 digits, counted from the largest of each sum and `others`: 10.37, not 10.370000000000001."""
    largest = np.maximum(np.abs(sums), max(map(abs, others), default=0.0))
    places = _DIGITS - 1 - np.floor(np.log10(largest, out=np.zeros(len(sums)), where=largest > 0))
    return [round(total, int(place)) for total, place in zip(sums.tolist(), places.tolist(), strict=True)]


def limit_of(budget: float | None) -> float:
    """What may be spent: without a budget, infinity."""
    return math.inf if budget is None else float(budget)


@dataclass(frozen=True, eq=False)
class Trajectories:
    """n rows in states 0 (nothing known) … S; row i ends in state `length[i]`, later states are undefined.

    `asked` (n, S): the column requested in a state (-1 after the end), `price` (n, S) its price there, and `missing`
    (n, S) whether its value is missing, which costs nothing. `P` (n, S + 1, K) and `vote` (n, S + 1): class
    distribution, and predicted class or number, in each state. `settled` (n,): the first state in which the vote can
    no longer change, or -1. `resolved` (n,): whether every tree reaches a leaf.
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
        cls, asked: I32, price: F64, free: Bools, P: F64, vote: np.ndarray, length: I32, settled: I32, resolved: Bools
    ) -> Self:  # fmt: skip
        """Trajectories without the states that no row reaches; `free` (n, m) marks unavailable features."""
        S = int(length.max(initial=0))
        asked = asked[:, :S]
        missing = (asked >= 0) & free[np.arange(len(asked))[:, None], asked]
        return cls(asked, price[:, :S], missing, P[:, : S + 1], vote[:, : S + 1], length, settled, resolved)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, with room for the longest trajectory."""
        longest = max(part.asked.shape[1] for part in parts)
        rooms = {"asked": (longest, -1), "price": (longest, 0), "missing": (longest, 0)}
        rooms |= {"P": (longest + 1, 0), "vote": (longest + 1, 0)}
        joined = {}
        for name in cls.__dataclass_fields__:
            columns = [getattr(part, name) for part in parts]
            if name in rooms:
                columns = [_widened(column, *rooms[name]) for column in columns]
            joined[name] = np.concatenate(columns)
        return cls(**joined)

    @property
    def spent(self) -> np.ndarray:
        """The cost so far in each state, (n, S + 1)."""
        paid = np.cumsum(np.where(self.missing, 0.0, self.price), axis=1)
        return np.concatenate((np.zeros((len(paid), 1)), paid), axis=1)


def purchases(
    asked: np.ndarray, missing: np.ndarray, prices: Prices, limit: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of features `asked` (n, S) in this order: what each is offered for, what is paid, and whether it is bought.

    What would bring a row's sum above `limit` is passed over. A `missing` value costs nothing, but is asked for only
    where its price could be paid. The first of a group that is had opens it. 0 and not bought for -1.
    """
    price, paid, bought = np.zeros(asked.shape), np.zeros(asked.shape), asked >= 0
    spent = np.zeros(len(asked))
    opened = np.zeros((len(asked), len(prices.groups) + 1), dtype=bool)  # the last column: no group
    everyone = np.arange(len(asked))
    for s in range(asked.shape[1]):
        j = asked[:, s]
        group = prices.group[j]
        price[:, s] = np.where(j < 0, 0.0, np.where(opened[everyone, group], prices.discounted[j], prices.cost[j]))
        bought[:, s] &= spent + price[:, s] <= limit
        had = bought[:, s] & ~missing[:, s]
        paid[:, s] = np.where(had, price[:, s], 0.0)
        spent += paid[:, s]
        opened[everyone, group] |= had & (group >= 0)
    return price, paid, bought


def chained(asked: Ints, missing: Bools, prices: Prices, limit: float) -> tuple[F64, F64, Bools]:
    """Of features `asked` (n, S) in this order: offered price, paid, and whether the row gets there within `limit`.

    What is not affordable ends the chain.
    """
    price, paid, _ = purchases(asked, missing, prices)
    before = np.cumsum(paid, axis=1) - paid
    reached: Bools = np.logical_and.accumulate(before + price <= limit + slack_of(limit), axis=1)
    return price, paid, reached


def _widened(column: np.ndarray, width: int, fill: float) -> np.ndarray:
    room = [(0, 0), (0, width - column.shape[1])] + [(0, 0)] * (column.ndim - 2)
    return np.pad(column, room, constant_values=fill)


_SLACK = 1e-9  # prices are added up in floats: a budget of .3 buys .1 and .2; relative, as prices have any unit


@dataclass(frozen=True, eq=False)
class States:
    """The states of n cases as columns; m features, K classes (0 where the model predicts numbers).

    `order` (n, m): in the first `wanted` (n,) places the features that trees wait for, best first, affordable or not;
    `waiting`, `price` (n, m): by feature, how many trees wait for it and its present price. `spent` (n,). `resolved`
    (n,): how many of all `trees` are; `missed` (n,): how many met an unavailable value. `leader` (n,): the class of a
    settled vote, else -1. `prediction` (n,) class codes, `probabilities` (n, K) and `value` (n,), a predicted number or
    NaN, follow from what is known. `following` (n,): the feature to acquire next, or -1.
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
    """A model that acquires features one at a time: a forest, or a tree of classifiers, which counts as one tree.

    `can_settle`: whether a vote can be settled before all features that the model tests are known.
    """

    can_settle: ClassVar[bool]

    @property
    def columns(self) -> Indices:
        """The features that the model may ask for, ascending."""
        ...

    def step(self, X: F64, status: Ints, prices: Prices, budget: float | None = None) -> States:
        """The states of n cases, and the feature that each should acquire next.

        X (n, m) float64, with any number where a feature is unknown; status (n, m): 0 unknown, -1 unavailable, r >= 1
        acquired as the r-th (all 1 if the order is unknown: then the first column of a group paid for it). An
        unavailable feature costs nothing and opens no group; an acquired one is paid for even if it is NaN.
        Reasons to stop: the model is `resolved`, the vote is settled, or no affordable feature is left.
        Raises Invalid for shapes that do not fit.
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


def checked(n_features: int, X: F64, status: Ints, prices: Prices, budget: float | None) -> tuple[F64, I32, float]:
    """Cases as the kernels take them: X (n, m) float64 and status (n, m) int32, both contiguous, and the budget.

    m is `n_features`. Raises Invalid at "" for shapes, at `/feature_costs` for a wrong number of prices. Copies only
    arrays of another layout.
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    status = np.ascontiguousarray(status, dtype=np.int32)
    if X.ndim != 2 or X.shape[1] != n_features or status.shape != X.shape:
        raise Invalid.at("", f"cases are rows of {n_features} values, with a status for each value")
    if len(prices) != n_features:
        raise Invalid.at("/feature_costs", f"{len(prices)} prices for {n_features} features")
    return X, status, limit_of(budget)


def slack_of(limit: float) -> float:
    """By how much costs may exceed a budget because of rounding."""
    return 0.0 if math.isinf(limit) else _SLACK * limit
