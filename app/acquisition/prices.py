"""What features cost: alone, and in groups with a discount."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from app.arrays import F64, I32
from app.decisions.benefit import LARGEST
from app.errors import Flaw, Invalid, pointer, reject

_SMALLEST = 1 / LARGEST  # what trees wait for is compared per price, which overflows for the smallest floats
_TOO_SMALL = f"a price is 0, or at least {_SMALLEST:g}"
_DUST = 1e-12  # relative error of a sum of prices, well above that of adding thousands in binary
_MAX_DECIMALS = 15  # of a float of about 1


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
        """Prices without groups; raises Invalid at `/j` for a price that is negative or not finite."""
        checked = ((j, wrong_price(price)) for j, price in enumerate(cost))
        reject((Flaw(pointer(j), message) for j, message in checked if message), "invalid prices")
        paid = np.array(cost, dtype=np.float64)
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

    def rounded(self, sums: F64, *others: float) -> list[float]:
        """Sums of these prices, and of `others`, to the decimals that they have: 10.37, not 10.370000000000001.

        A sum that contains anything else, such as the fees of a tree, is returned as it is. The error of what is left
        of a budget is relative to the budget.
        """
        decimals = min(max(self._decimals, *map(_decimals, others), 0), _MAX_DECIMALS)
        largest = max(map(abs, others), default=0.0)
        pairs = ((total, round(total, decimals)) for total in sums.tolist())
        return [near if abs(near - total) <= _DUST * max(abs(total), largest) else total for total, near in pairs]

    @cached_property
    def _decimals(self) -> int:
        return max(map(_decimals, {*self.cost.tolist(), *self.discounted.tolist()}), default=0)

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


def _decimals(number: float) -> int:
    """How many decimals the number has as it is written."""
    return -int(Decimal(repr(number)).as_tuple().exponent)


def check_budget(budget: Any) -> float:
    """The budget as a number >= 0, None as infinity; raises Invalid at `/budget`."""
    if budget is None:
        return math.inf
    message = _wrong(budget, "a budget")
    if message:
        raise Invalid.at("/budget", message)
    return float(budget)


def _wrong(value: Any, what: str) -> str:
    """What is wrong with a price or a budget, in words; empty where nothing is."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return f"{what} is a number, not {type(value).__name__}"
    try:
        number = float(value)
    except OverflowError:
        return f"{what} is a finite number"
    if not math.isfinite(number):
        return f"{what} is a finite number"
    if number > LARGEST:
        return f"{what} is at most {LARGEST:g}"
    return "" if number >= 0 else f"{what} is at least 0"


def wrong_price(value: Any) -> str:
    """The same for a price, which is 0 or far from the smallest floats."""
    return _wrong(value, "a price") or ("" if value == 0 or value >= _SMALLEST else _TOO_SMALL)
