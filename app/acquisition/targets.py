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

_STEPS = 30  # of bisection, over ten orders of magnitude
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

    Of the costs that are reached the largest up to `value`; of the sizes with at most this error the smallest. Invalid
    at /error where no size reaches it. O(30 n S).
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
    low, high = _CHEAP * float(real.min()), _DEAR * float(real.sum())
    if name == "cost":
        return _last(lambda size: cost_and_error(size)[0] <= value, low, high)
    if (least := cost_and_error(high)[1]) > value:
        raise Invalid.at(
            "/error", f"the error on unseen rows is at least {least:.4g}, with all that is worth asking for"
        )
    return _last(lambda size: cost_and_error(size)[1] > value, low, high, beyond=True)


def _last(holds: Callable[[float], bool], low: float, high: float, *, beyond: bool = False) -> float:
    """About the largest size from `low` to `high` at which it holds; with `beyond` the next one, where it does not."""
    if not holds(low):
        return low
    if holds(high):
        return high
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high if beyond else low
