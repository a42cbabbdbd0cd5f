"""Columns of numbers as small codes, so that split search is counting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAX_BINS = 255  # codes 0…254 in one byte
MISSING = 255  # the code that is left


@dataclass(frozen=True, eq=False)
class Table:
    """n rows of m columns in codes: `codes` (m, n) uint8; `low`, `high` (m, 255) the ends of each bin's values."""

    codes: np.ndarray
    low: np.ndarray
    high: np.ndarray


def bin_columns(X: np.ndarray) -> Table:
    """Bins of float64 `X` (n, m), NaN where missing.

    A column of at most 255 different values has one bin per value, so that nothing is lost; a longer one is cut at its
    quantiles. O(m n log n), one byte per cell and one column of floats at a time.
    """
    n, m = X.shape
    table = Table(np.empty((m, n), dtype=np.uint8), np.zeros((m, MAX_BINS)), np.zeros((m, MAX_BINS)))
    for j in range(m):
        column = X[:, j]
        values = np.unique(column[~np.isnan(column)])
        last = values if len(values) <= MAX_BINS else _quantiles(column)
        table.codes[j] = np.searchsorted(last, column)
        table.codes[j, np.isnan(column)] = MISSING
        if len(values):
            first = values[np.concatenate(([0], np.searchsorted(values, last[:-1], side="right")))]
            table.low[j, : len(last)] = first
            table.high[j, : len(last)] = last
    return table


def _quantiles(column: np.ndarray) -> np.ndarray:
    """The largest value of each bin, ascending: values of the column itself, the last one its maximum."""
    known = np.sort(column[~np.isnan(column)])
    places = (np.arange(1, MAX_BINS + 1) * len(known)) // MAX_BINS - 1
    return np.unique(known[places])
