"""What features cost: alone, in groups with a discount, and as requests write it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from app.arrays import F64, I32
from app.decisions.benefit import LARGEST
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.text import MAX_NAME

_SMALLEST = 1 / LARGEST  # what trees wait for is compared per price, which overflows for the smallest floats
_TOO_SMALL = f"a price is 0, or at least {_SMALLEST:g}"
_DUST = 1e-12  # relative error of a sum of prices, well above that of adding thousands in binary
_MAX_DECIMALS = 15  # of a float of about 1
_NEEDED = {"feature", "cost"}
_KEYS = {*_NEEDED, "group", "discounted_cost"}


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
        checked = ((j, _wrong_price(price)) for j, price in enumerate(cost))
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
        """The long form that `parse_prices` reads, ready for JSON; `names` are those of the features."""
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


def parse_prices(costs: Any, names: Sequence[str], base: Prices | None = None) -> Prices:
    """Prices for the features `names` from `feature_costs` as requests send it.

    `costs` is `{feature: price, …}` or `[{"feature", "cost", "group"?, "discounted_cost"?}, …]`; None means `base`, or
    1 for each feature where there is no base. A feature that is not listed keeps its price in `base`; without a base
    every feature must be priced. A bare price changes what a feature costs, not its group: a discounted price above it
    comes down to it. Raises Invalid with the place of every flaw: unknown features and keys, prices below zero or not
    finite, a feature priced twice, a group without a discounted cost or one above the cost. O(m).
    """
    if costs is None:
        return Prices.unit(len(names)) if base is None else base
    reader = _Reader(names, base)
    if isinstance(costs, Mapping):
        flaws = reader.read_object(costs)
    elif isinstance(costs, Sequence) and not isinstance(costs, str | bytes):
        flaws = reader.read_list(costs)
    else:
        raise Invalid.at("", "feature_costs is an object of prices by feature, or a list of objects")
    reject(flaws, "invalid feature_costs")
    return reader.result()


def check_budget(budget: Any) -> float:
    """The budget as a number >= 0, None as infinity; raises Invalid at `/budget`."""
    if budget is None:
        return math.inf
    message = _wrong(budget, "a budget")
    if message:
        raise Invalid.at("/budget", message)
    return float(budget)


class _Reader:
    """Collects prices; what reads them yields the flaws."""

    def __init__(self, names: Sequence[str], base: Prices | None) -> None:
        self.names = names
        self.column = {name: j for j, name in enumerate(names)}
        self.priced: set[str] = set() if base is None else set(names)
        start = Prices.of(np.zeros(len(names))) if base is None else base
        self.cost, self.discounted, self.group = start.cost.copy(), start.discounted.copy(), start.group.copy()
        self.number = {name: g for g, name in enumerate(start.groups)}

    def result(self) -> Prices:
        absent = (name for name in self.names if name not in self.priced)
        flaws = (Flaw("", f"{name!r} has no price; give 0 to a feature that is free") for name in absent)
        reject(flaws, "invalid feature_costs")
        return Prices(self.cost, self.discounted, self.group, tuple(self.number))

    def read_object(self, costs: Mapping[str, Any]) -> Iterator[Flaw]:
        for name, price in costs.items():
            flaw = self._flaw_of_name(name, pointer(name)) or _flaw_of_price(price, pointer(name))
            if flaw:
                yield flaw
            else:
                j = self.column[name]
                self.cost[j] = price
                self.discounted[j] = min(price, self.discounted[j]) if self.group[j] >= 0 else price
                self.priced.add(name)

    def read_list(self, costs: Sequence[Any]) -> Iterator[Flaw]:
        listed: set[str] = set()
        for i, entry in enumerate(costs):
            sound = True
            for flaw in self._flaws_of_entry(entry, pointer(i), listed):
                sound = False
                yield flaw
            if sound:
                self._take(entry)

    def _flaws_of_entry(self, entry: Any, loc: str, listed: set[str]) -> Iterator[Flaw]:
        if not isinstance(entry, Mapping):
            yield Flaw(loc, "an entry is an object with feature and cost")
        elif not (_NEEDED <= entry.keys() <= _KEYS):
            yield from _flaws_of_keys(entry, loc)
        elif flaw := self._flaw_of_name(entry["feature"], f"{loc}/feature"):
            yield flaw
        else:
            yield from _flaws_of_values(entry, loc, listed)

    def _take(self, entry: Mapping[str, Any]) -> None:
        name, cost, group, discounted = map(entry.get, ("feature", "cost", "group", "discounted_cost"))
        j = self.column[str(name)]
        self.cost[j], self.discounted[j] = cost, cost if discounted is None else discounted
        self.group[j] = -1 if group is None else self.number.setdefault(group, len(self.number))
        self.priced.add(str(name))

    def _flaw_of_name(self, name: Any, loc: str) -> Flaw | None:
        if isinstance(name, str) and name in self.column:
            return None
        return Flaw(loc, unknown("feature", name, self.column))


def _flaws_of_keys(entry: Mapping[str, Any], loc: str) -> Iterator[Flaw]:
    for key in entry:
        if key not in _KEYS:
            yield Flaw(loc + pointer(key), unknown("key", key, sorted(_KEYS)))
    for key in sorted(_NEEDED - entry.keys(), reverse=True):
        yield Flaw(loc, f"{key} is absent")


def _flaws_of_values(entry: Mapping[str, Any], loc: str, listed: set[str]) -> Iterator[Flaw]:
    """What is wrong with an entry of a known feature, which is added to `listed`, the features of those before it."""
    name, cost, group, discounted = map(entry.get, ("feature", "cost", "group", "discounted_cost"))
    if name in listed:
        yield Flaw(f"{loc}/feature", f"{name!r} is priced twice; keep one entry")
    listed.add(str(name))
    if group is not None and not (isinstance(group, str) and 0 < len(group) <= MAX_NAME):
        yield Flaw(f"{loc}/group", f"a group is named by a string of at most {MAX_NAME} characters, or null for none")
    if group is not None and discounted is None:
        yield Flaw(loc, "a member of a group needs its discounted_cost")
    wrong = _flaw_of_price(cost, f"{loc}/cost")
    wrong_discounted = None if discounted is None else _flaw_of_price(discounted, f"{loc}/discounted_cost")
    yield from filter(None, (wrong, wrong_discounted))
    if wrong or wrong_discounted or discounted is None:
        return
    if discounted > cost:
        yield Flaw(f"{loc}/discounted_cost", f"the discounted cost is above the cost {cost}")
    elif group is None and discounted != cost:
        yield Flaw(f"{loc}/discounted_cost", "a discount needs a group that it belongs to")


def _flaw_of_price(value: Any, loc: str) -> Flaw | None:
    message = _wrong_price(value)
    return Flaw(loc, message) if message else None


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


def _wrong_price(value: Any) -> str:
    """The same for a price, which is 0 or far from the smallest floats."""
    return _wrong(value, "a price") or ("" if value == 0 or value >= _SMALLEST else _TOO_SMALL)
