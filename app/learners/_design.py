"""Raw rows as the columns a linear model sees: numbers scaled, categories one-hot, missing values marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from app.errors import Invalid, pointer
from app.learners._hinges import Hinges
from app.learners.base import scikit

if TYPE_CHECKING:  # SciPy's sparse matrices, which predictions do not need
    from scipy import sparse

LARGEST = 1e100  # of a number's magnitude: the squares of such numbers, and their sums, stay finite
_DENSE = 0.3  # the share of non-zeros from which a dense matrix is the smaller one, about


@dataclass(frozen=True)
class Design:
    """A fitted preparation of rows (n, m) with NaN where missing.

    The columns, in order: the `numeric` features, a missing one as its training mean, centred and scaled to variance
    1; a 0/1 mark "is missing" for each numeric feature in `marked`, those that training had missing values in; a
    0/1 column for each category of each `categorical` feature that training saw, "missing" as one of them if seen.
    A category that training never saw counts as missing. What was never missing in training and is at prediction
    counts as the mean of a number and as none of the categories. Marks and categories are not scaled, so that the
    penalty holds rare ones near zero. `values[c]` are the codes that training saw of the c-th categorical feature,
    NaN last. A row's weight counts as that many rows. With `hinges` the numeric columns are their curves, and `numeric`
    has the feature of each: one or, in splines, several in a row, of which the first has the mark.
    """

    numeric: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    marked: np.ndarray
    categorical: np.ndarray
    values: tuple[np.ndarray, ...]
    hinges: Hinges | None = None

    @classmethod
    def fit(cls, X: np.ndarray, weights: np.ndarray, categorical: Sequence[int], shape: str = "none") -> Self:
        """Learn from rows (n, m) with positive weights (n,); `shape` is `none` or one of `SHAPES`. O(n m log n).

        Raises Invalid for numbers beyond 1e100: their squares leave the floats.
        """
        numeric = np.array(sorted(set(range(X.shape[1])) - set(categorical)), dtype=np.intp)
        for j in numeric:
            _check_size(X[:, j], int(j))
        hinges = None if shape == "none" or not len(numeric) else Hinges.fit(X, weights, numeric, shape)
        if hinges is None:
            columns = [_column(X[:, j], weights) for j in numeric]  # one by one: the table may be large
        else:
            numeric = hinges.columns[hinges.starts]
            columns = [_column(x, weights) for x in hinges.curves(X).T]
        means, scales, missing = np.array(columns, dtype=np.float64).reshape(-1, 3).T
        marked = np.flatnonzero(missing * np.diff(numeric, prepend=-1))  # of a feature's curves the first
        values = tuple(np.unique(X[:, j]) for j in categorical)
        return cls(numeric, means, scales, marked, np.array(list(categorical), dtype=np.intp), values, hinges)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.numeric) + len(self.marked) + sum(map(len, self.values))

    def matrix(self, X: np.ndarray) -> np.ndarray | sparse.csr_matrix:
        """The columns (n, width) for rows (n, m); sparse where that is the smaller form. O(n width) at most."""
        front = X[:, self.numeric] if self.hinges is None else self.hinges.curves(X)
        front -= self.means
        front /= self.scales
        missing = np.isnan(front)
        front[missing] = 0.0
        if len(self.marked):
            front = np.concatenate((front, missing[:, self.marked]), axis=1)
        if not len(self.categorical):
            return front
        sparse = scikit().sparse
        columns = sparse.hstack((sparse.csr_matrix(front), self._one_hot(X)), format="csr")
        filled = front.shape[1] + len(self.categorical)
        return columns.toarray() if filled >= _DENSE * self.width else columns

    def _one_hot(self, X: np.ndarray) -> sparse.csr_matrix:
        """A 0/1 column per seen value; an unseen one counts as missing, which has no column if it was never seen."""
        rows, columns, start = [], [], 0
        for j, seen in zip(self.categorical, self.values, strict=True):
            place = np.minimum(np.searchsorted(seen, X[:, j]), len(seen) - 1)
            known = seen[place] == X[:, j]
            if np.isnan(seen[-1]):
                place[~known] = len(seen) - 1
                known[:] = True
            rows.append(np.flatnonzero(known))
            columns.append(start + place[known])
            start += len(seen)
        at = (np.concatenate(rows), np.concatenate(columns))
        return scikit().sparse.csr_matrix((np.ones(len(at[0])), at), shape=(len(X), start))


def _check_size(x: np.ndarray, j: int) -> None:
    if np.nanmax(np.abs(x), initial=0.0) > LARGEST:
        raise Invalid.at(pointer("columns", j), f"numbers must be at most {LARGEST:g} in magnitude; use a larger unit")


def _column(x: np.ndarray, weights: np.ndarray) -> tuple[float, float, bool]:
    """Mean and scale of one number, and whether it is ever missing; a missing one counts as the mean."""
    known = ~np.isnan(x)
    x, w = x[known], weights[known]
    largest = float(np.abs(x).max(initial=0.0))
    mean = float(w @ x / w.sum()) if len(x) else 0.0
    spread = float(np.sqrt(w @ (x - mean) ** 2 / weights.sum()))
    # A column that varies by rounding only is constant: scaled up, the rounding would look like data.
    constant = spread <= 10 * np.finfo(np.float64).eps * largest
    return mean, 1.0 if constant else spread, not bool(known.all())
