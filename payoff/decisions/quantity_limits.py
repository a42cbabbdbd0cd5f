"""Quantities of the least expected cost, with a limit on their sum."""

import numpy as np

from payoff.decisions.quantities import Distribution
from payoff.errors import Invalid

_LOWEST_LEVEL = 1e-300  # its quantile is the least value of a distribution
_LEVELS = 33  # the sum passes its limit between two of so many levels, where there are few steps
_EQUAL = 1e-12  # relative; levels that differ by less differ by rounding


def within_sum(
    distribution: Distribution, over: float, under: float, limit: float
) -> tuple[np.ndarray, float]:
    """The quantities (n,) of the least expected cost with a sum of at most `limit`, and what one
    unit more in their sum would save.

    A unit too much costs `over`, a unit too little `under`. A step from a value of a distribution
    to the next, at a level, saves under - (over + under) · level for each unit. So steps are taken
    in the order of their levels until the sum is reached; at the last level each row takes the same
    share of its step. Invalid where the least values of the rows have a sum above the limit.
    O(steps log) for the steps near the last level, beside two passes.
    """
    levels = np.linspace(_LOWEST_LEVEL, under / (over + under), _LEVELS)
    quantiles = distribution.quantiles(levels)
    sums = quantiles.sum(axis=0)
    if sums[-1] <= limit:
        return np.ascontiguousarray(quantiles[:, -1]), 0.0
    if sums[0] > limit:
        total = f"the least values of the distributions sum to {sums[0]:.12g}"
        raise Invalid.at("", f"{total}; the limit must be at least that much")
    first = int(np.searchsorted(sums, limit, side="right")) - 1
    low, high = quantiles[:, first], quantiles[:, first + 1]
    row, level, size = _steps(distribution, low, high)
    order = np.argsort(level, kind="stable")
    passing = int(
        np.searchsorted(low.sum() + np.cumsum(size[order]), limit, side="right")
    )
    last = float(level[order[min(passing, len(order) - 1)]])
    is_below = level < last * (1 - _EQUAL)
    is_last = np.abs(level - last) <= last * _EQUAL
    steps_below = np.bincount(row[is_below], size[is_below], len(low))
    last_steps = np.bincount(row[is_last], size[is_last], len(low))
    share = (limit - low.sum() - steps_below.sum()) / last_steps.sum()
    quantities = low + steps_below + min(max(share, 0.0), 1.0) * last_steps
    return quantities, under - (over + under) * last


def _steps(
    distribution: Distribution, low: np.ndarray, high: np.ndarray
) -> list[np.ndarray]:
    """The steps from each value of a row to the next, for values from `low` (n,) to below `high`
    (n,).

    Returns of each step the row, its level, which is the probability of the value or less, and the
    difference of the values.
    """
    steps = []
    start = 0
    for values, reached in distribution.parts():
        end = start + len(values)
        value, following = values[:, :-1], values[:, 1:]
        inside = (value >= low[start:end, None]) & (value < high[start:end, None])
        row, place = np.nonzero(inside & (value < following))
        level = np.broadcast_to(reached, values.shape)[row, place]
        steps.append((row + start, level, following[row, place] - value[row, place]))
        start = end
    return [np.concatenate(column) for column in zip(*steps, strict=True)]
