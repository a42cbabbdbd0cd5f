"""Warn of rows that a table contains again: copies in both halves of a split make every figure too good."""

from __future__ import annotations

import numpy as np

from app.data.table import Table

_SHARE = 0.05  # of the rows, from which repeats are named
_TELLING = 0.9  # of the different rows: so many values has a column that tells rows apart


def repeated_rows(table: Table) -> list[str]:
    """A sentence if many rows of the table occur again though two columns tell rows apart; O(n m log n).

    Rows of few different values, or of one column, repeat without being copies.
    """
    n, m = table.X.shape
    if n < 2 or m < 2:
        return []
    X = np.where(np.isnan(table.X), np.nan, table.X + 0.0)  # one kind of NaN, one of zero
    different = len(np.unique(X.view(np.dtype((np.void, X.itemsize * m)))))
    repeats = n - different
    if repeats < _SHARE * n or sum(_tells(column, different) for column in X.T) < 2:
        return []
    message = (
        f"{repeats:,} of {n:,} rows are repeats of others: if these are copies, the metrics, and what the model"
        " promises for new cases, are too good; train with each row once"
    )
    return [message]


def _tells(column: np.ndarray, different: int) -> bool:
    """Whether the values of a column tell nearly all the different rows apart in which it is not missing."""
    present = column[~np.isnan(column)]
    return len(np.unique(present)) >= _TELLING * different * max(len(present) / len(column), 0.1)
