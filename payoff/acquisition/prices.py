"""What features cost, and what is paid when they are acquired one after the other."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from payoff.arrays import F64, I32, Bools, Ints
from payoff.decisions.benefit import LARGEST
from payoff.errors import Flaw, pointer, reject
from payoff.stored import Stored

SMALLEST = (
    1 / LARGEST
)  # what trees wait for is compared per price, which overflows for the smallest floats
_DIGITS = 12  # of a sum of prices: the error of adding thousands in binary is below
_SLACK = 1e-9  # prices are added up in floats: a budget of .3 buys .1 and .2; relative, as prices have any unit


@dataclass(frozen=True, eq=False)
class Prices(Stored):
    """Prices of m features: the first of a group that is acquired costs `cost`, later ones `discounted`.

    `cost`, `discounted` (m,) float64 >= 0, equal where a feature is in no group; `group` (m,) int32, -1 for none;
    `groups` their names, in the order of the numbers.
    """

    cost: F64
    discounted: F64
    group: I32
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, cost: Sequence[float] | np.ndarray) -> Self:
        """Prices without groups; raises Invalid at `/j` for one that is neither 0 nor from `SMALLEST` to `LARGEST`."""
        paid = np.array(cost, dtype=np.float64)
        wrong = np.flatnonzero(~((paid == 0) | ((paid >= SMALLEST) & (paid <= LARGEST))))
        reject(
            (Flaw(pointer(j), f"a price is 0, or from {SMALLEST:g} to {LARGEST:g}") for j in wrong),
            "invalid prices",
        )
        return cls(paid, paid, np.full(len(paid), -1, dtype=np.int32))

    @classmethod
    def unit(cls, m: int) -> Self:
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
            listed.append(
                entry
                if group < 0
                else {**entry, "group": self.groups[group], "discounted_cost": discounted}
            )
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
    return [
        round(total, int(place))
        for total, place in zip(sums.tolist(), places.tolist(), strict=True)
    ]


def limit_of(budget: float | None) -> float:
    """What may be spent: without a budget, infinity."""
    return math.inf if budget is None else float(budget)


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
        price[:, s] = np.where(
            j < 0, 0.0, np.where(opened[everyone, group], prices.discounted[j], prices.cost[j])
        )
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


def slack_of(limit: float) -> float:
    """By how much costs may exceed a budget because of rounding."""
    return 0.0 if math.isinf(limit) else _SLACK * limit
