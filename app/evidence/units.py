"""A unit in which powers of money neither overflow nor vanish."""

from __future__ import annotations

import numpy as np

SMALLEST = float(np.finfo(np.float64).tiny)
ROUNDING = 1e-12  # relative: differences below it are those of rounding alone


def unit_for(unit: float, *amounts: np.ndarray) -> float:
    """The unit, or the least power of two that none of the amounts exceeds, whichever is larger.

    Multiplication by a power of two is exact.
    """
    largest = max(float(np.abs(own).max(initial=0.0)) for own in amounts)
    return max(unit, float(np.ldexp(1.0, np.frexp(largest)[1]))) if largest > unit else unit
