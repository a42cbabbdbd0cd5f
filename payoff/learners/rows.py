"""Rows to fit on: their folds, their weights, and how large their numbers may be."""

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np

from payoff.decisions.folds import UNJUDGED
from payoff.errors import Invalid, pointer

ALL = -2
"""The number of a fold without rows: a model trained without it is trained on all rows."""
SINGLE = float(np.finfo(np.float32).max)
"""The largest number that trees which compare in single precision take."""


class FoldedRows(NamedTuple):
    """Rows (n, m), class codes (n,), positive weights (n,), and each row's fold 0, 1, …, int8 (n,).

    A row of fold `UNJUDGED` (-1) is in no fold: every model learns from it.
    """

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    fold: np.ndarray

    @classmethod
    def in_no_fold(cls, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Self:
        """Rows that are all in no fold, to fit all of them (`ALL`)."""
        return cls(X, codes, weights, np.full(len(X), UNJUDGED, dtype=np.int8))

    def without(self, fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, codes and weights outside a fold; of `ALL` all of them, not copied."""
        if fold == ALL:
            return self[:3]
        inside = self.fold != fold
        return self.X[inside], self.codes[inside], self.weights[inside]

    def only(self, fold: int) -> np.ndarray:
        """The rows X of a fold."""
        return self.X[self.fold == fold]


def stage_name(number: int, folds: int) -> str:
    """The name of a fit in progress reports: without each fold, and then with all rows."""
    return (
        "final fit" if number == folds else f"calibration fold {number + 1} of {folds}"
    )


def check_sizes(X: np.ndarray, columns: Iterable[int], largest: float = SINGLE) -> None:
    """Raise Invalid at the first of these columns of X (n, m) with a number of larger magnitude."""
    # Column by column, as a copy of the whole table may be large.
    for j in columns:
        if np.nanmax(np.abs(X[:, j]), initial=0.0) > largest:
            message = (
                f"numbers must be at most {largest:.3g} in magnitude; use a larger unit"
            )
            raise Invalid.at(pointer("columns", int(j)), message)


def weights_or_ones(sample_weight: np.ndarray | None, n: int) -> np.ndarray:
    """The weights (n,) of rows, 1 each where there are none."""
    return np.ones(n) if sample_weight is None else np.asarray(sample_weight)
