"""Quantities that cost least in expectation, limited in their sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.decisions.quantities import Distribution
from app.errors import Invalid

_LEAST = 1e-300  # the level of the least value that a distribution has
_LEVELS = 33  # between which the sum passes its limit, to collect few steps
_EQUAL = 1e-12  # relative; levels that differ by less differ by rounding


class Limited(NamedTuple):
    """Quantities (n,), and what one unit more in their sum would save."""

    quantities: np.ndarray
    price: float


class _Steps(NamedTuple):
    """From one value of a row to the next: its row, the probability up to there, and the difference, (steps,) each."""

    row: np.ndarray
    level: np.ndarray
    size: np.ndarray

    def taken(self, some: np.ndarray, n: int) -> np.ndarray:
        """By how much some of them raise the quantities (n,)."""
        return np.bincount(self.row[some], self.size[some], n)


def within_sum(distribution: Distribution, over: float, under: float, most: float) -> Limited:
    """The quantities (n,) of a sum of at most `most` that cost least in expectation, a unit too much costing `over`.

    A step at a level saves under - (over + under) · level for each unit, so steps are taken in the order of their
    levels until the sum is reached; of those at the last level each row takes the same share. Invalid where the least
    values of the rows have a larger sum. O(steps log) for the steps near the last level, beside two passes.
    """
    levels = np.linspace(_LEAST, under / (over + under), _LEVELS)
    found = distribution.quantiles(levels)
    sums = found.sum(axis=0)
    if sums[-1] <= most:
        return Limited(np.ascontiguousarray(found[:, -1]), 0.0)
    if sums[0] > most:
        raise Invalid.at("", f"the least values of the distributions sum to {sums[0]:.12g}; allow at least that much")
    first = int(np.searchsorted(sums, most, side="right")) - 1
    low, high = found[:, first], found[:, first + 1]
    steps = _between(distribution, low, high)
    order = np.argsort(steps.level, kind="stable")
    passing = min(int(np.searchsorted(low.sum() + np.cumsum(steps.size[order]), most, side="right")), len(order) - 1)
    last = float(steps.level[order[passing]])
    below, at = steps.level < last * (1 - _EQUAL), np.abs(steps.level - last) <= last * _EQUAL
    chosen, more = low + steps.taken(below, distribution.n), steps.taken(at, distribution.n)
    share = min(max((most - chosen.sum()) / more.sum(), 0.0), 1.0)
    return Limited(chosen + share * more, under - (over + under) * last)


def _between(distribution: Distribution, low: np.ndarray, high: np.ndarray) -> _Steps:
    """The steps of each row from one of its values (n,) to another."""
    start, found = 0, []
    for values, reached in distribution.parts():
        end = start + len(values)
        inside = (values[:, :-1] >= low[start:end, None]) & (values[:, :-1] < high[start:end, None])
        row, place = np.nonzero(inside & (values[:, :-1] < values[:, 1:]))
        levels = np.broadcast_to(reached, values.shape)[row, place]
        found.append(_Steps(row + start, levels, values[row, place + 1] - values[row, place]))
        start = end
    return _Steps(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
