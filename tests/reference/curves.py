"""Transforms of one numeric feature, one value at a time and straight from their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return next(x for i, x in enumerate(ordered, start=1) if i >= share * len(ordered) - 1e-9)


def clipped(x: float, values: Sequence[float]) -> float:
    """X within the 2 % and 98 % quantiles of the values; of ten values or fewer, within all.

    Where both quantiles are one value: within the medians of the values below and above it.
    """
    low, high = quantile(values, 0.02), quantile(values, 0.98)
    if len(set(values)) <= 10:
        low, high = min(values), max(values)
    elif low == high:
        below, above = [one for one in values if one < low], [one for one in values if one > low]
        low, high = quantile(below or [low], 0.5), quantile(above or [high], 0.5)
    return min(max(x, low), high)


def yeo_johnson(x: float, power: float) -> float:
    """Yeo and Johnson's power transform, case by case."""
    if x >= 0:
        return math.log1p(x) if power == 0 else ((x + 1) ** power - 1) / power
    return -math.log1p(-x) if power == 2 else -((1 - x) ** (2 - power) - 1) / (2 - power)
