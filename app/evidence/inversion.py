"""Ends of an interval: where a test of shifted distributions begins to reject."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

FAR = 30.0  # log-odds


def cornish_fisher(total: float, cumulants: tuple[float, ...], dispersion: float) -> float:
    """The standard normal value whose tail is that of `total` in a distribution with these cumulants."""
    mean, second, third, fourth, _ = cumulants
    if second <= 0:
        return float(np.sign(total - mean) * np.inf) if total != mean else 0.0
    z = (total - mean) / float(np.sqrt(second * dispersion))
    g, k = third / second**1.5, fourth / second**2
    return float(z - g * (z * z - 1) / 6 - k * (z**3 - 3 * z) / 24 + g * g * (4 * z**3 - 7 * z) / 36)


def crossing(function: Callable[[float], float], start: float, sign: int) -> float:
    """Where a function that is positive at `start` first is negative in the direction of `sign`, at most 30 away."""
    step, last = 0.02, start
    while abs(last - start) < FAR:
        following = last + sign * step
        if function(following) < 0:
            return root(function, *sorted((last, following)))
        last, step = following, step * 1.6
    return last


def root(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq  # noqa: PLC0415 - imported with the first report

    ends = function(low), function(high)
    if ends[0] * ends[1] > 0:
        return low if abs(ends[0]) < abs(ends[1]) else high
    return float(brentq(function, low, high, xtol=1e-9, rtol=1e-12))
