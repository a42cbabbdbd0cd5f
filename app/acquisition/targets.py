"""Stopping at a mean cost or an error in place of benefits: how much a right class must be worth for that."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from app.acquisition.prices import Prices
from app.acquisition.stopping import Experience
from app.decisions.benefit import LARGEST
from app.errors import Invalid, pointer

_SIZES = 41  # over ten orders of magnitude
_STEPS = 16  # of bisection between two of them
_CHEAP, _DEAR = 1e-2, 1e6  # worth of a right class in units of the smallest price, and of all prices


def parse_target(target: Any) -> tuple[str, float]:
    """`{"cost": 6}` or `{"error": 0.1}` as a name and a number; Invalid with the place."""
    if not isinstance(target, dict) or len(target) != 1 or not target.keys() <= {"cost", "error"}:
        raise Invalid.at("", 'a target is an object with cost or error, as in {"cost": 6}')
    ((name, value),) = target.items()
    most = LARGEST if name == "cost" else 1
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise Invalid.at(pointer(name), f"{name} is a number from 0 to {most:g}")
    return name, float(value)


def size_for(experience: Experience, prices: Prices, name: str, value: float) -> float:
    """What a right class must be worth, so that stopping by worth has this mean `cost`, or `error`, on the experience.

    Of the costs that are reached the largest up to `value`; of the sizes with at most this error the cheapest. Neither
    rises or falls all the way with the size, so many are tried. Invalid at /error where none of them reaches it.
    O(60 n S).
    """
    stake, now = experience.valued(np.eye(experience.P.shape[2]))
    wrong = experience.P.argmax(axis=2) != experience.y[:, None]
    rows = np.arange(len(experience))

    def cost_and_error(size: float) -> tuple[float, float]:
        ends, paid = experience.ends(experience.fitted(size * stake, size * now, prices), size * stake, prices)
        return float(paid[rows, ends].mean()), float(wrong[rows, ends].mean())

    real = prices.cost[prices.cost > 0]
    if not len(real):
        return 1.0
    sizes = np.geomspace(_CHEAP * float(real.min()), _DEAR * float(real.sum()), _SIZES)
    tried = [(size, *cost_and_error(size)) for size in sizes.tolist()]
    if name == "cost":
        return _best(tried, cost_and_error, lambda cost, _: cost <= value, lambda cost: cost, 1)
    if (least := min(error for _, _, error in tried)) > value:
        raise Invalid.at(
            "/error", f"the error on unseen rows is at least {least:.4g}, with all that is worth asking for"
        )
    return _best(tried, cost_and_error, lambda _, error: error <= value, lambda cost: -cost, -1)


def _best(
    tried: list[tuple[float, float, float]], cost_and_error: Callable[[float], tuple[float, float]],
    holds: Callable[[float, float], bool], merit: Callable[[float], float], step: int,
) -> float:  # fmt: skip
    """Of the sizes `tried` (size, cost, error), and some between the best and the next one where it does not hold, the
    one of the largest merit of its cost among those where it holds; the first one where there is none.
    """
    good = [i for i, (_, *found) in enumerate(tried) if holds(*found)]
    if not good:
        return tried[0][0]
    at = max(good, key=lambda i: merit(tried[i][1]))
    best, most = tried[at][0], merit(tried[at][1])
    if not 0 <= at + step < len(tried) or at + step in good:
        return best
    inside, outside = best, tried[at + step][0]
    for _ in range(_STEPS):
        middle = math.sqrt(inside * outside)
        cost, error = cost_and_error(middle)
        if not holds(cost, error):
            outside = middle
            continue
        inside = middle
        if merit(cost) > most:
            best, most = middle, merit(cost)
    return best
