"""Steps from table places and linear scores to probabilities, without overflow."""

from __future__ import annotations

import numpy as np

FEW = 64  # rows up to which one operation on a bigger array is cheaper than several


def summed(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """For each row of `places` (n, c) the sum (n, L) of those rows of `table` (T, L). O(n c L), O(n L) space."""
    if len(places) <= FEW:
        total: np.ndarray = table.take(places, axis=0).sum(axis=1)
        return total
    total = np.zeros((len(places), table.shape[1]))
    for column in places.T:
        total += table.take(column, axis=0)
    return total


def softmax(Z: np.ndarray) -> np.ndarray:
    """Rows of probabilities proportional to exp(Z), (n, K); overwrites Z. Some entry of a row is finite."""
    Z -= Z.max(axis=1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=1, keepdims=True)
    return Z
