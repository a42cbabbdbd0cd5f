"""Probabilities as other programs compute them: rounded, in single precision, a little outside of
[0, 1].
"""

import numpy as np

# Of a probability, and of a sum of probabilities: the rounding of single precision stays below it,
# also with many classes.
TOLERANCE = 1e-6


def clipped(p: np.ndarray) -> np.ndarray:
    """Numbers at most `TOLERANCE` outside of [0, 1] become 0 or 1; all other numbers, and NaN, are
    unchanged. O(size).
    """
    if p.min(initial=0.0) >= 0.0 and p.max(initial=1.0) <= 1.0:
        return p
    nearest = np.clip(p, 0.0, 1.0)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(p - nearest) <= TOLERANCE, nearest, p)


def are_shares(P: np.ndarray) -> np.ndarray:
    """Whether each row of probabilities (n, K) sums to 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        near: np.ndarray = np.abs(P.sum(axis=1) - 1.0) <= TOLERANCE
    return near
