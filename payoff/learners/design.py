"""Raw rows as the columns of a linear model: scaled numbers, one-hot categories, missing marks.

A linear model of raw numbers breaks where a feature has a heavy tail: the few rows far out decide
its slope. So numbers may be clipped, bent by a power, or bent at their quartiles (`SHAPES`). These
curves are constant beyond the training quantiles `_TAIL` and 1 - `_TAIL`, and linear between knots:
each is a sum of hinges. Of a feature that has one value in nearly all rows the limits are those of
`_beside`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import boxcox1p, inv_boxcox1p

from payoff.learners import loading
from payoff.learners.linear import LARGEST_NUMBER, Hinges, Linear
from payoff.learners.rows import check_sizes
from payoff.stored import Stored

if TYPE_CHECKING:  # SciPy's sparse matrices, which predictions do not need
    from scipy import sparse

# Of a linear model on a design's columns: the sign (width,) that each slope must have, 0 for any,
# and the map (width, width) from slopes to coefficients.
Slopes = tuple[np.ndarray, Any]
Curve = tuple[np.ndarray, np.ndarray, np.ndarray]
_TAIL = 0.02
# A feature with at most so many values is not clipped: its rare values may be the ones that matter.
_UNCLIPPED_VALUES = 10
_QUARTILES = (0.25, 0.5, 0.75)
_SEGMENTS = 8  # straight lines that stand for a power curve
_POWERS = (-4.0, 4.0)
# the share of non-zeros from which a dense matrix is about the smaller one
_DENSE_SHARE = 0.3


@dataclass(frozen=True)
class Design(Stored):
    """A fitted preparation of rows (n, m) with NaN where missing.

    The columns, in order: the `numeric` features, a missing one as its training mean, centred and
    scaled to variance 1; a 0/1 mark "is missing" for each numeric feature in `marked`, those that
    training had missing values in; a 0/1 column for each category of each `categorical` feature
    that training saw, "missing" as one of them if seen.

    A category that training never saw counts as missing. Where a feature was never missing in
    training, a missing number counts as the mean, a missing category as none. Marks and categories
    are not scaled, so that the penalty holds rare ones near zero. `values[c]` are the codes that
    training saw of the c-th categorical feature, NaN last. A row's weight counts as that many rows.
    With `hinges` the numeric columns are their curves, and `numeric` has the feature of each: one
    or, in splines, several in a row, of which the first has the mark.
    """

    numeric: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    marked: np.ndarray
    categorical: np.ndarray
    values: tuple[np.ndarray, ...]
    hinges: Hinges | None = None

    @classmethod
    def fit(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        categorical: Sequence[int],
        shape: str = "none",
    ) -> Self:
        """Learn from rows (n, m) with positive weights (n,); `shape` is `none` or one of `SHAPES`.

        Raises Invalid for numbers above 1e100: their squares leave the floats. O(n m log n).
        """
        numeric = np.array(
            sorted(set(range(X.shape[1])) - set(categorical)), dtype=np.intp
        )
        check_sizes(X, numeric, LARGEST_NUMBER)
        hinges = None
        if shape == "none" or not len(numeric):
            # Column by column, as a copy of the whole table may be large.
            columns = [_column(X[:, j], weights) for j in numeric]
        else:
            hinges = fit_hinges(X, weights, numeric, shape)
            numeric = hinges.columns[hinges.starts]
            columns = [_column(x, weights) for x in hinges.curves(X).T]
        means, scales, missing = np.array(columns, dtype=np.float64).reshape(-1, 3).T
        # Of the curves of a feature only the first has the mark.
        marked = np.flatnonzero(missing * np.diff(numeric, prepend=-1))
        values = tuple(np.unique(X[:, j]) for j in categorical)
        codes = np.array(list(categorical), dtype=np.intp)
        return cls(numeric, means, scales, marked, codes, values, hinges)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.numeric) + len(self.marked) + sum(map(len, self.values))

    def matrix(self, X: np.ndarray) -> np.ndarray | sparse.csr_matrix:
        """The columns (n, width) for rows (n, m); sparse where that takes less memory.

        O(n width) at most.
        """
        filled = len(self.numeric) + len(self.marked) + len(self.categorical)
        if not len(self.categorical) or filled >= _DENSE_SHARE * self.width:
            return self.dense(X)
        sparse = loading.scikit.sparse
        front = self._front(X)
        rows, columns = self._one_hot(X)
        shape = len(X), self.width - front.shape[1]
        ones = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
        return sparse.hstack((sparse.csr_matrix(front), ones), format="csr")

    def dense(self, X: np.ndarray) -> np.ndarray:
        """The columns (n, width) as an array. O(n width)."""
        front = self._front(X)
        if not len(self.categorical):
            return front
        matrix = np.zeros((len(X), self.width))
        matrix[:, : front.shape[1]] = front
        rows, columns = self._one_hot(X)
        matrix[rows, front.shape[1] + columns] = 1.0
        return matrix

    def _front(self, X: np.ndarray) -> np.ndarray:
        """The columns of numbers and marks."""
        front = X[:, self.numeric] if self.hinges is None else self.hinges.curves(X)
        front -= self.means
        front /= self.scales
        missing = np.isnan(front)
        front[missing] = 0.0
        if len(self.marked):
            front = np.concatenate((front, missing[:, self.marked]), axis=1)
        return front

    def slopes(self, signs: np.ndarray) -> Slopes | None:
        """The constraints under which scores only rise, or fall, with features of `signs` (m,) 1,
        -1; 0 leaves a feature free. None where all are free.

        A curve never falls, so its coefficient must have the sign. In a spline the curves of a
        feature begin one after the other: the slope of the scores up to the next knot is the sum of
        their coefficients so far, each divided by its scale. So it is this sum, times the scale,
        that must have the sign.
        """
        if not signs.any():
            return None
        m = len(self.numeric)
        needed = np.zeros(self.width)
        needed[:m] = signs[self.numeric]
        follows = (np.diff(self.numeric) == 0) & (needed[: m - 1] != 0)
        before = np.zeros(self.width - 1)
        before[: m - 1] = np.where(follows, self.scales[1:] / self.scales[:-1], 0.0)
        sparse = loading.scikit.sparse
        coefficients = sparse.eye(self.width) - sparse.diags(before, -1)
        return needed, coefficients.tocsr()

    def fold(self, coef: np.ndarray, intercept: np.ndarray) -> Linear:
        """One model on raw rows from linear models on these columns.

        `coef` (L, width) and `intercept` (L,) are theirs.
        """
        m = len(self.numeric)
        front = m + len(self.marked)
        raw = coef[:, :m].T / self.scales[:, None]
        intercept = intercept - self.means @ raw
        hinges = self.hinges
        if hinges is None:
            places = self.marked
            means = self.means
        else:
            sizes = np.diff(hinges.starts, append=len(hinges.knots))
            raw = raw.repeat(sizes, axis=0) * hinges.slopes[:, None]
            places = hinges.starts[self.marked]
            means = hinges.means
        marks = np.zeros_like(raw)
        marks[places] = coef[:, m:front].T
        tables = []
        start = front
        for seen in self.values:
            tables.append(_table(seen, coef[:, start : start + len(seen)].T))
            start += len(seen)
        sizes = np.array([len(table) for table in tables], dtype=np.intp)
        return Linear(
            numeric=self.numeric if tables else None,
            coef=np.ascontiguousarray(raw),
            intercept=intercept,
            means=means,
            marks=marks,
            categorical=self.categorical,
            lasts=(sizes - 1).astype(np.float64),
            offsets=(np.cumsum(sizes) - sizes).astype(np.intp),
            table=np.concatenate(tables) if tables else np.empty((0, len(intercept))),
            hinges=hinges,
        )

    def _one_hot(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the ones, with a 0/1 column per value seen in training.

        An unseen value counts as missing, which has no column if it was never seen.
        """
        lasts, offsets, table = self._columns_of_codes
        # fmin ignores NaN: a missing code goes to the last place, and so does a larger code.
        codes = np.fmin(X.take(self.categorical, axis=1), lasts).astype(np.intp)
        columns = table[codes + offsets]
        rows, features = np.nonzero(columns >= 0)
        return rows, columns[rows, features]

    @cached_property
    def _columns_of_codes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The last place and the offset of each categorical feature, and the column of each place.

        The places of a feature are its codes, and "missing"; -1 where there is no column.
        """
        tables = []
        start = 0
        for seen in self.values:
            columns = np.arange(start, start + len(seen), dtype=np.float64)
            table = _table(seen, columns[:, None])
            if not np.isnan(seen[-1]):
                unseen = np.setdiff1d(np.arange(len(table)), seen)
                table[unseen] = -1.0
            tables.append(table[:, 0].astype(np.intp))
            start += len(seen)
        sizes = np.array([len(table) for table in tables], dtype=np.intp)
        offsets = (np.cumsum(sizes) - sizes).astype(np.intp)
        return (sizes - 1).astype(np.float64), offsets, np.concatenate(tables)


def _column(x: np.ndarray, weights: np.ndarray) -> tuple[float, float, bool]:
    """Mean and scale of a number, and whether it is ever missing, which counts as the mean."""
    known = ~np.isnan(x)
    x, w = x[known], weights[known]
    largest = float(np.abs(x).max(initial=0.0))
    mean = float(w @ x / w.sum()) if len(x) else 0.0
    spread = float(np.sqrt(w @ (x - mean) ** 2 / weights.sum()))
    # A column that varies by rounding alone is constant: scaled, the rounding would look like data.
    constant = spread <= 10 * np.finfo(np.float64).eps * largest
    return mean, 1.0 if constant else spread, not bool(known.all())


def _table(seen: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Terms by category code, "missing" last, from the seen codes (NaN last) and their terms."""
    known = ~np.isnan(seen)
    codes = seen[known].astype(np.intp)
    absent = np.zeros(terms.shape[1]) if known.all() else terms[-1]
    table = np.tile(absent, (int(codes.max(initial=-1)) + 2, 1))
    table[codes] = terms[known]
    return table


def fit_hinges(
    X: np.ndarray, weights: np.ndarray, numeric: np.ndarray, shape: str
) -> Hinges:
    """The curves of the features `numeric`, in their order, for rows (n, m), NaN where missing.

    `shape`: `clip` and `power` give a curve per feature, `spline` up to four. A `power` is the one
    of Yeo and Johnson (2000) with the largest likelihood, drawn as `_SEGMENTS` lines of equal rise.
    Weights (n,) count as repeated rows. O(n m log n).
    """
    curves = [_hinges(X[:, j], weights, shape) for j in numeric.tolist()]
    columns = np.repeat(
        numeric, np.array([len(curve[0]) for curve in curves], dtype=np.intp)
    )
    parts = (
        map(np.concatenate, zip(*curves, strict=True)) if curves else np.empty((5, 0))
    )
    uppers, knots, slopes, first, means = parts
    return Hinges(columns, uppers, knots, slopes, np.flatnonzero(first), means)


def _hinges(x: np.ndarray, weights: np.ndarray, shape: str) -> tuple[np.ndarray, ...]:
    """The hinges of a column (n,): uppers, knots, slopes, whether a curve begins, and means."""
    known = ~np.isnan(x)
    x, w = x[known], weights[known]
    places, slopes, first = _curve(x, w, shape) if len(x) else _clip(x, w, np.zeros(2))
    inside = np.maximum(np.minimum(x, places[-1])[:, None] - places[:-1], 0.0)
    means = w @ inside / max(w.sum(), 1e-300)
    return np.full(len(slopes), places[-1]), places[:-1], slopes, first, means


def _curve(x: np.ndarray, w: np.ndarray, shape: str) -> Curve:
    order = np.argsort(x, kind="stable")
    x, w = x[order], w[order]
    if np.count_nonzero(np.diff(x)) < _UNCLIPPED_VALUES:
        return _clip(x, w, x[[0, -1]])
    ends = _quantiles(x, w, (_TAIL, 1.0 - _TAIL))
    return SHAPES[shape](x, w, ends if len(ends) > 1 else _beside(x, w, ends[0]))


def _clip(_x: np.ndarray, _w: np.ndarray, ends: np.ndarray) -> Curve:
    return ends, np.ones(1), np.ones(1)


def _power(x: np.ndarray, w: np.ndarray, ends: np.ndarray) -> Curve:
    inside = np.clip(x, *ends)
    unit = float(w @ np.abs(inside) / w.sum())
    power = _most_likely(inside / unit, w)
    low, high = yeo_johnson(ends / unit, power).tolist()
    heights = np.linspace(low, high, _SEGMENTS + 1)
    places = np.concatenate((ends[:1], unit * inverse(heights[1:-1], power), ends[1:]))
    slopes = np.diff(heights) / np.diff(places)
    return places, np.diff(slopes, prepend=0.0), np.arange(_SEGMENTS) == 0


def _spline(x: np.ndarray, w: np.ndarray, ends: np.ndarray) -> Curve:
    inner = _quantiles(x, w, _QUARTILES)
    places = np.concatenate(
        (ends[:1], inner[(inner > ends[0]) & (inner < ends[1])], ends[1:])
    )
    return places, np.ones(len(places) - 1), np.ones(len(places) - 1)


SHAPES: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Curve]] = {
    "clip": _clip,
    "power": _power,
    "spline": _spline,
}
"""The curves by name, the simplest first.

Each is a function of sorted values (n,), their weights, and the two ends of the curve. It returns
the increasing places (k + 1,) of the knots, the last of which is the curve's end; the change of
slope at each of the k knots; and whether a curve begins there.
"""


def _beside(x: np.ndarray, w: np.ndarray, common: float) -> np.ndarray:
    """The medians of the sorted values below and above the one that nearly all rows have.

    Of so few values a quantile farther out is close to the largest, which the tail decides.
    """
    sides = (x < common, x > common)
    return np.concatenate(
        [
            _quantiles(x[side], w[side], (0.5,)) if side.any() else [common]
            for side in sides
        ]
    )


def _quantiles(
    x: np.ndarray, w: np.ndarray, shares: Sequence[float] | np.ndarray
) -> np.ndarray:
    """The distinct weighted quantiles of sorted values."""
    reach = np.cumsum(w)
    places = np.searchsorted(reach, np.asarray(shares) * reach[-1])
    return np.unique(x[np.minimum(places, len(x) - 1)])


def yeo_johnson(x: np.ndarray, power: float) -> np.ndarray:
    """A power of 1 + x for x >= 0, and the power 2 - `power` of 1 - x below.

    Source: Yeo and Johnson (2000), equation 2.1.
    """
    return np.asarray(
        np.copysign(boxcox1p(np.abs(x), np.where(x >= 0, power, 2.0 - power)), x)
    )


def inverse(t: np.ndarray, power: float) -> np.ndarray:
    """The x of which `yeo_johnson` is t."""
    return np.asarray(
        np.copysign(inv_boxcox1p(np.abs(t), np.where(t >= 0, power, 2.0 - power)), t)
    )


def _most_likely(x: np.ndarray, w: np.ndarray) -> float:
    """The power with which values x (n,) of weights (n,) are most like a normal sample."""
    share = w / w.sum()
    slope = float(share @ np.copysign(np.log1p(np.abs(x)), x))

    def loss(power: float) -> float:
        t = yeo_johnson(x, power)
        return 0.5 * float(np.log(share @ (t - share @ t) ** 2)) - (power - 1.0) * slope

    return float(
        loading.scikit.minimize_scalar(loss, bounds=_POWERS, method="bounded").x
    )
