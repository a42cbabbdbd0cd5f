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

# The smallest price above 0: numbers of waiting trees are divided by prices, and a smaller float
# would overflow.
SMALLEST = 1 / LARGEST
_DIGITS = 12  # of a sum of prices: the error of adding thousands of floats is smaller
# Relative to a budget, as prices have any unit: the floats .1 and .2 cost more than .3, which buys
# both.
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Prices(Stored):
    """Prices of m features: the first acquired of a group costs `cost`, later ones `discounted`.

    `cost`, `discounted` (m,) float64 >= 0, equal where a feature is in no group; `group` (m,)
    int32, -1 for none; `groups` their names, in the order of the numbers.
    """

    cost: F64
    discounted: F64
    group: I32
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, cost: Sequence[float] | np.ndarray) -> Self:
        """Prices without groups.

        Raises Invalid at `/j` for a price that is neither 0 nor from `SMALLEST` to `LARGEST`.
        """
        paid = np.array(cost, dtype=np.float64)
        wrong = np.flatnonzero(
            ~((paid == 0) | ((paid >= SMALLEST) & (paid <= LARGEST)))
        )
        reject(
            (
                Flaw(pointer(j), f"a price is 0, or from {SMALLEST:g} to {LARGEST:g}")
                for j in wrong
            ),
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
        """The arrays that the compiled kernels read."""
        return self.cost, self.discounted, self.group

    def listed(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The long form of requests, ready for JSON; `names` are those of the features."""
        entries: list[dict[str, Any]] = []
        for name, cost, discounted, group in zip(
            names,
            self.cost.tolist(),
            self.discounted.tolist(),
            self.group.tolist(),
            strict=True,
        ):
            entry: dict[str, Any] = {"feature": name, "cost": cost}
            if group >= 0:
                entry |= {"group": self.groups[group], "discounted_cost": discounted}
            entries.append(entry)
        return entries

    def paid(self, order: Iterable[int]) -> list[float]:
        """The price of each feature when they are acquired in this order."""
        opened: set[int] = set()
        prices = []
        for j in order:
            group = int(self.group[j])
            prices.append(
                float(self.discounted[j] if group in opened else self.cost[j])
            )
            if group >= 0:
                opened.add(group)
        return prices


def rounded(sums: F64, *terms: float) -> list[float]:
    """Sums of prices to 12 digits: 10.37, not 10.370000000000001.

    Digits are counted from the first of each sum, or of the largest of the `terms`.
    """
    largest = np.maximum(np.abs(sums), max(map(abs, terms), default=0.0))
    exponents = np.log10(largest, out=np.zeros(len(sums)), where=largest > 0)
    places = _DIGITS - 1 - np.floor(exponents)
    return [
        round(total, int(place))
        for total, place in zip(sums.tolist(), places.tolist(), strict=True)
    ]


def limit_of(budget: float | None) -> float:
    """The most that a case may spend: without a budget, infinity."""
    return math.inf if budget is None else float(budget)


def purchases(
    features: np.ndarray, missing: np.ndarray, prices: Prices, limit: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The price, the payment and whether it is bought of each of `features` (n, S), in this order.

    A feature that would bring the sum of a row above `limit` is passed over. A `missing` value
    costs nothing, but is requested only where its price could be paid. The first value that is
    acquired of a group opens it. A feature of -1 has price 0 and is not bought.
    """
    price, paid = np.zeros(features.shape), np.zeros(features.shape)
    bought = features >= 0
    spent = np.zeros(len(features))
    # The last column is for features in no group.
    opened = np.zeros((len(features), len(prices.groups) + 1), dtype=bool)
    every = np.arange(len(features))
    for s in range(features.shape[1]):
        j = features[:, s]
        group = prices.group[j]
        offered = np.where(opened[every, group], prices.discounted[j], prices.cost[j])
        price[:, s] = np.where(j < 0, 0.0, offered)
        bought[:, s] &= spent + price[:, s] <= limit
        acquired = bought[:, s] & ~missing[:, s]
        paid[:, s] = np.where(acquired, price[:, s], 0.0)
        spent += paid[:, s]
        opened[every, group] |= acquired & (group >= 0)
    return price, paid, bought


def chained(
    features: Ints, missing: Bools, prices: Prices, limit: float
) -> tuple[F64, F64, Bools]:
    """The price, the payment and whether it is reached of each of `features` (n, S), in this order.

    A row reaches a feature within `limit`: the first that is not affordable ends the chain.
    """
    price, paid, _ = purchases(features, missing, prices)
    before = np.cumsum(paid, axis=1) - paid
    reached: Bools = np.logical_and.accumulate(
        before + price <= limit + slack_of(limit), axis=1
    )
    return price, paid, reached


def slack_of(limit: float) -> float:
    """By how much costs may exceed a budget because of rounding."""
    return 0.0 if math.isinf(limit) else _SLACK * limit
