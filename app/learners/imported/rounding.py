"""Values of a data set that a model in 32 bits takes for others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from app.text import some_of

_OF_SPREAD = 1e-6  # a change of a value, in standard deviations of its column
_OF_GAP = 1e-3  # the same, of the distance to the next value
_SHOWN = 5


def rounding_warnings(columns: Mapping[str, np.ndarray]) -> list[str]:
    """A sentence about the columns (n,), by name, whose values 32-bit numbers do not tell apart; or none."""
    changed = {name: found for name, values in columns.items() if (found := changed_value(values)) is not None}
    if not changed:
        return []
    first = next(iter(changed))
    with np.errstate(over="ignore"):
        example = f"{changed[first]:.17g} of {first!r} becomes {float(np.float32(changed[first])):.17g}"
    named = some_of([repr(name) for name in changed], _SHOWN)
    advice = "export it with DoubleTensorType, or subtract an offset from the feature before training"
    effect = f"values of {named} change ({example}), and decisions may differ from the original's"
    return [f"the file takes 32-bit numbers, in which {effect}; {advice}"]


def changed_value(values: np.ndarray) -> float | None:
    """Of values (n,) the one that changes most as float32, where that matters beside spread and neighbours; or None."""
    distinct = np.unique(values[np.isfinite(values)])
    if len(distinct) < 2:
        return None
    with np.errstate(over="ignore"):
        change = np.abs(distinct.astype(np.float32) - distinct)
    gaps = np.diff(distinct)
    nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
    matters = (change > _OF_SPREAD * distinct.std()) & (change > _OF_GAP * nearest)
    return float(distinct[np.where(matters, change, -1.0).argmax()]) if matters.any() else None
