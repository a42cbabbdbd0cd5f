"""Numeric features as curves that a linear model can weigh: clipped, bent by a power, or bent at their quartiles.

A linear model of raw numbers breaks where a feature has a heavy tail: the few rows far out decide its slope. All curves
here are constant beyond the training quantiles `_TAIL` and 1 - `_TAIL`, and linear between knots. So each is a sum of
hinges max(min(x, upper) - knot, 0), and a row still costs one product. Of a feature that has one value in nearly all
rows the limits are those of `_beside`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from app.arrays import TILE
from app.learners.base import scikit

Curve = tuple[np.ndarray, np.ndarray, np.ndarray]
_TAIL = 0.02
_FEW = 10  # a feature of up to so many values is not clipped: its rare values may be the ones that matter
_QUARTILES = (0.25, 0.5, 0.75)
_ZERO = np.zeros(())
_SEGMENTS = 8  # of straight lines that stand for a power curve
_POWERS = (-4.0, 4.0)


@dataclass(frozen=True)
class Hinges:
    """W hinges of raw columns, and the D curves that are made of them.

    Hinge w is max(min(x, uppers[w]) - knots[w], 0) of column `columns[w]`; its training mean is `means[w]`. Curve d is
    the sum of the hinges from `starts[d]` to before `starts[d + 1]`, each times its `slopes[w]`.
    """

    columns: np.ndarray
    uppers: np.ndarray
    knots: np.ndarray
    slopes: np.ndarray
    starts: np.ndarray
    means: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, weights: np.ndarray, numeric: np.ndarray, shape: str) -> Self:
        """The curves of the features `numeric`, in their order, for rows (n, m), NaN where missing.

        `shape`: `clip` and `power` give a curve per feature, `spline` up to four. A `power` is the one of Yeo and
        Johnson (2000) with the largest likelihood, drawn as `_SEGMENTS` lines of equal rise. Positive weights (n,)
        count as repeated rows. O(n m log n).
        """
        curves = [_hinges(X[:, j], weights, shape) for j in numeric.tolist()]
        columns = np.repeat(numeric, np.array([len(curve[0]) for curve in curves], dtype=np.intp))
        parts = map(np.concatenate, zip(*curves, strict=True)) if curves else np.empty((5, 0))
        uppers, knots, slopes, first, means = parts
        return cls(columns, uppers, knots, slopes, np.flatnonzero(first), means)

    @cached_property
    def _in_order(self) -> bool:
        """Whether there is one hinge for each of the first columns."""
        return np.array_equal(self.columns, np.arange(len(self.columns)))

    def apply(self, X: np.ndarray) -> np.ndarray:
        """The hinges (n, W) of rows (n, m), NaN where missing. O(n W)."""
        H = None if X.shape[1] == len(self.columns) and self._in_order else X.take(self.columns, axis=1)
        X = X if H is None else H
        tiles, rest = divmod(len(X), TILE)
        if not tiles:
            return _bend(X, self.uppers, self.knots, out=H)
        H = np.empty(X.shape) if H is None else H
        cut, shape = len(X) - rest, (tiles, TILE * len(self.columns))
        bounds = np.tile(self.uppers, TILE), np.tile(self.knots, TILE)
        _bend(X[:cut].reshape(shape), *bounds, out=H[:cut].reshape(shape))
        if rest:
            _bend(X[cut:], self.uppers, self.knots, out=H[cut:])
        return H

    def curves(self, X: np.ndarray) -> np.ndarray:
        """The curves (n, D) of rows (n, m), NaN where missing. O(n W)."""
        H = self.apply(X)
        H *= self.slopes
        return np.add.reduceat(H, self.starts, axis=1) if len(self.starts) else H


def _bend(X: np.ndarray, uppers: np.ndarray, knots: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    H: np.ndarray = np.minimum(X, uppers, out=out)
    H -= knots
    np.maximum(H, _ZERO, out=H)
    return H


def _hinges(x: np.ndarray, weights: np.ndarray, shape: str) -> tuple[np.ndarray, ...]:
    """The hinges of a column (n,): uppers, knots, slopes, whether a curve begins with it, and training mean."""
    known = ~np.isnan(x)
    x, w = x[known], weights[known]
    places, slopes, first = _curve(x, w, shape) if len(x) else _clip(x, w, np.zeros(2))
    inside = np.maximum(np.minimum(x, places[-1])[:, None] - places[:-1], 0.0)
    means = w @ inside / max(w.sum(), 1e-300)
    return np.full(len(slopes), places[-1]), places[:-1], slopes, first, means


def _curve(x: np.ndarray, w: np.ndarray, shape: str) -> Curve:
    order = np.argsort(x, kind="stable")
    x, w = x[order], w[order]
    if np.count_nonzero(np.diff(x)) < _FEW:
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
    return places, np.diff(np.diff(heights) / np.diff(places), prepend=0.0), np.arange(_SEGMENTS) == 0


def _spline(x: np.ndarray, w: np.ndarray, ends: np.ndarray) -> Curve:
    inner = _quantiles(x, w, _QUARTILES)
    places = np.concatenate((ends[:1], inner[(inner > ends[0]) & (inner < ends[1])], ends[1:]))
    return places, np.ones(len(places) - 1), np.ones(len(places) - 1)


SHAPES: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Curve]] = {
    "clip": _clip,
    "power": _power,
    "spline": _spline,
}
"""By name, the simplest first: from sorted values (n,), their weights, and the two ends of the curve, the increasing
places (k + 1,) of its knots, the last its end; the change of slope at each of the k; and whether a curve begins there.
"""


def _beside(x: np.ndarray, w: np.ndarray, common: float) -> np.ndarray:
    """The medians of the sorted values below and above the one that nearly all rows have.

    Of so few values a quantile farther out is close to the largest, which the tail decides.
    """
    sides = (x < common, x > common)
    return np.concatenate([_quantiles(x[side], w[side], (0.5,)) if side.any() else [common] for side in sides])


def _quantiles(x: np.ndarray, w: np.ndarray, shares: Sequence[float] | np.ndarray) -> np.ndarray:
    """The distinct weighted quantiles of sorted values."""
    reach = np.cumsum(w)
    return np.unique(x[np.minimum(np.searchsorted(reach, np.asarray(shares) * reach[-1]), len(x) - 1)])


def yeo_johnson(x: np.ndarray, power: float) -> np.ndarray:
    """A power of 1 + x for x >= 0, and with 2 - power of 1 - x below (Yeo and Johnson 2000, equation 2.1)."""
    logs = np.log1p(np.abs(x))
    powers = np.where(x >= 0, power, 2.0 - power)
    flat = np.abs(powers) < 1e-8
    t: np.ndarray = np.where(flat, logs, np.expm1(powers * logs) / np.where(flat, 1.0, powers))
    return np.where(x < 0, -t, t)


def inverse(t: np.ndarray, power: float) -> np.ndarray:
    """The x of which `yeo_johnson` is t."""
    powers = np.where(t >= 0, power, 2.0 - power)
    flat = np.abs(powers) < 1e-8
    logs = np.log1p(powers * np.abs(t)) / np.where(flat, 1.0, powers)
    x: np.ndarray = np.expm1(np.where(flat, np.abs(t), logs))
    return np.where(t < 0, -x, x)


def _most_likely(x: np.ndarray, w: np.ndarray) -> float:
    """The power with which values x (n,) of weights (n,) are most like a normal sample."""
    share = w / w.sum()
    slope = float(share @ np.copysign(np.log1p(np.abs(x)), x))

    def loss(power: float) -> float:
        t = yeo_johnson(x, power)
        return 0.5 * float(np.log(share @ (t - share @ t) ** 2)) - (power - 1.0) * slope

    return float(scikit().minimize_scalar(loss, bounds=_POWERS, method="bounded").x)
