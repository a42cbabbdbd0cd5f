"""Quantities that cost least in expectation, limited in their sum."""

import numpy as np

from payoff.decisions.quantities import Distribution
from payoff.errors import Invalid

_LEAST = 1e-300  # the level of the least value that a distribution has
_LEVELS = 33  # between which the sum passes its limit, to collect few steps
_EQUAL = 1e-12  # relative; levels that differ by less differ by rounding


def within_sum(
    distribution: Distribution, over: float, under: float, most: float
) -> tuple[np.ndarray, float]:
    """The quantities (n,) of a sum of at most `most` that cost least in expectation, a unit too
    much costing `over`; and what one unit more in their sum would save.

    A step at a level saves under - (over + under) · level for each unit, so steps are taken in the
    order of their levels until the sum is reached; of those at the last level each row takes the
    same share. Invalid where the least values of the rows have a larger sum. O(steps log) for the
    steps near the last level, beside two passes.
    """
    levels = np.linspace(_LEAST, under / (over + under), _LEVELS)
    found = distribution.quantiles(levels)
    sums = found.sum(axis=0)
    if sums[-1] <= most:
        return np.ascontiguousarray(found[:, -1]), 0.0
    if sums[0] > most:
        raise Invalid.at(
            "",
            f"the least values of the distributions sum to {sums[0]:.12g}; allow at least that much",
        )
    first = int(np.searchsorted(sums, most, side="right")) - 1
    low, high = found[:, first], found[:, first + 1]
    row, level, size = _steps(distribution, low, high)
    order = np.argsort(level, kind="stable")
    passing = int(np.searchsorted(low.sum() + np.cumsum(size[order]), most, side="right"))
    last = float(level[order[min(passing, len(order) - 1)]])
    below, at = level < last * (1 - _EQUAL), np.abs(level - last) <= last * _EQUAL
    taken, more = (np.bincount(row[some], size[some], len(low)) for some in (below, at))
    share = (most - low.sum() - taken.sum()) / more.sum()
    return low + taken + min(max(share, 0.0), 1.0) * more, under - (over + under) * last


def _steps(distribution: Distribution, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """From each value of a row to the next, between two (n,): the row, the probability up to there,
    the difference.
    """
    start, found = 0, []
    for values, reached in distribution.parts():
        end, before = start + len(values), values[:, :-1]
        inside = (
            (before >= low[start:end, None])
            & (before < high[start:end, None])
            & (before < values[:, 1:])
        )
        row, place = np.nonzero(inside)
        level = np.broadcast_to(reached, values.shape)[row, place]
        found.append((row + start, level, values[row, place + 1] - values[row, place]))
        start = end
    return [np.concatenate(column) for column in zip(*found, strict=True)]
