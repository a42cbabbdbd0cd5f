"""Quantities that cost least in expectation, limited in their sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.decisions.quantities import Distribution
from app.errors import Invalid

_LEAST = 1e-300  # the level of the least value that a distribution has
_PARTS, _ROUNDS = 16, 11  # the levels end within 16 ** -11 of each other, which is rounding


class Limited(NamedTuple):
    """Quantities (n,), and what one unit more in their sum would save."""

    quantities: np.ndarray
    price: float


def within_sum(distribution: Distribution, over: float, under: float, most: float) -> Limited:
    """The quantities (n,) of a sum of at most `most` that cost least in expectation, a unit too much costing `over`.

    With the multiplier of Lagrange as a further cost of each unit, a quantity is the quantile at (under - multiplier) /
    (over + under). The levels at which the sum passes `most` are divided until nothing but rounding is between them;
    each unit there saves the same whatever its row, so all rows take the same share of their steps. Invalid where the
    least values of the rows have a larger sum. O(quantiles at 190 levels).
    """
    ends = np.array([_LEAST, under / (over + under)])
    low, high = np.ascontiguousarray(distribution.quantiles(ends).T)
    if high.sum() <= most:
        return Limited(high, 0.0)
    if low.sum() > most:
        raise Invalid.at("", f"the least values of the distributions sum to {low.sum():.12g}; allow at least that much")
    for _ in range(_ROUNDS):
        levels = np.linspace(ends[0], ends[1], _PARTS + 1)
        found = distribution.quantiles(levels)
        passed = int(np.searchsorted(found.sum(axis=0)[1:-1], most, side="right"))
        ends = levels[passed : passed + 2]
        low, high = found[:, passed], found[:, passed + 1]
    share = (most - low.sum()) / (high.sum() - low.sum())
    return Limited(low + np.clip(share, 0.0, 1.0) * (high - low), under - (over + under) * float(ends[0]))
