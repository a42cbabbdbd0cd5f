"""A linear model folded together with its preparation, so that a row costs one product."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import expit

from payoff.decisions.explanations import Contributions, of_terms
from payoff.stored import Stored

# The largest magnitude of a number: the squares of such numbers, and their sums, stay finite.
LARGEST_NUMBER = 1e100
# Up to so many rows one operation on a bigger array is cheaper than several on smaller ones.
ROWS_AT_ONCE = 64
_TILE = 64  # rows that NumPy gets as one long row: short rows take twice the time
_CELLS = 1_000_000  # terms that are in memory together
_ZERO = np.zeros(())


def summed(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """For each row of `places` (n, c) the sum (n, L) of those rows of `table` (T, L).

    O(n c L) time, O(n L) space.
    """
    if len(places) <= ROWS_AT_ONCE:
        return table.take(places, axis=0).sum(axis=1)
    total = np.zeros((len(places), table.shape[1]))
    for column in places.T:
        total += table.take(column, axis=0)
    return total


def softmax(Z: np.ndarray) -> np.ndarray:
    """Rows of probabilities proportional to exp(Z), (n, K); overwrites Z.

    Each row has a finite entry.
    """
    Z -= Z.max(axis=1, keepdims=True)
    np.exp(Z, out=Z)
    Z /= Z.sum(axis=1, keepdims=True)
    return Z


@dataclass(frozen=True)
class Hinges(Stored):
    """W hinges of raw columns, and the D curves that are made of them.

    Hinge w is max(min(x, uppers[w]) - knots[w], 0) of column `columns[w]`; its training mean is
    `means[w]`. Curve d is the sum of the hinges from `starts[d]` to before `starts[d + 1]`, each
    times its `slopes[w]`.
    """

    columns: np.ndarray
    uppers: np.ndarray
    knots: np.ndarray
    slopes: np.ndarray
    starts: np.ndarray
    means: np.ndarray

    @cached_property
    def _in_order(self) -> bool:
        """Whether there is one hinge for each of the first columns."""
        return np.array_equal(self.columns, np.arange(len(self.columns)))

    def apply(self, X: np.ndarray) -> np.ndarray:
        """The hinges (n, W) of rows (n, m), NaN where missing. O(n W)."""
        H: np.ndarray | None = None
        if X.shape[1] != len(self.columns) or not self._in_order:
            H = X = X.take(self.columns, axis=1)
        tiles = len(X) // _TILE
        if not tiles:
            return _bend(X, self.uppers, self.knots, out=H)
        H = np.empty(X.shape) if H is None else H
        end = tiles * _TILE
        shape = tiles, _TILE * len(self.columns)
        bounds = np.tile(self.uppers, _TILE), np.tile(self.knots, _TILE)
        _bend(X[:end].reshape(shape), *bounds, out=H[:end].reshape(shape))
        if end < len(X):
            _bend(X[end:], self.uppers, self.knots, out=H[end:])
        return H

    def curves(self, X: np.ndarray) -> np.ndarray:
        """The curves (n, D) of rows (n, m), NaN where missing. O(n W)."""
        H = self.apply(X)
        H *= self.slopes
        return np.add.reduceat(H, self.starts, axis=1) if len(self.starts) else H


def _bend(
    X: np.ndarray, uppers: np.ndarray, knots: np.ndarray, out: np.ndarray | None
) -> np.ndarray:
    H: np.ndarray = np.minimum(X, uppers, out=out)
    H -= knots
    np.maximum(H, _ZERO, out=H)
    return H


@dataclass(frozen=True)
class Linear(Stored):
    """Scores (n, L) of raw rows (n, m): a linear model on `Design.matrix`, multiplied out.

    `coef` (numeric features, L) and `intercept` (L,) act on raw numbers; `means` replace a missing
    number, for which `marks` (as `coef`) are added; `table` (values, L) holds the term of every
    category code, from `offsets` on for each feature, the last of its `lasts + 1` places being
    "missing", where codes that training did not contain end, too.
    """

    numeric: np.ndarray | None
    coef: np.ndarray
    intercept: np.ndarray
    means: np.ndarray
    marks: np.ndarray
    categorical: np.ndarray
    lasts: np.ndarray
    offsets: np.ndarray
    table: np.ndarray
    hinges: Hinges | None = None
    typical: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The mean term (m, L) of each feature in training, once `recorded`."""

    @classmethod
    def beside(cls, models: Sequence[Self]) -> Self:
        """One model with the scores of several, all folded with the same design."""
        return replace(
            models[0],
            coef=np.hstack([model.coef for model in models]),
            intercept=np.hstack([model.intercept for model in models]),
            marks=np.hstack([model.marks for model in models]),
            table=np.hstack([model.table for model in models]),
        )

    def recorded(self, X: np.ndarray, weights: np.ndarray) -> Self:
        """A copy with the mean term of each feature in rows X (n, m) of these weights (n,)."""
        total = np.zeros((X.shape[1], len(self.intercept)))
        step = max(_CELLS // X.shape[1], 1)
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            total += np.tensordot(weights[rows], self.terms(X[rows]), axes=1)
        return replace(self, typical=total / weights.sum())

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        """See `of_terms`."""
        base = self.intercept + self.typical.sum(axis=0)
        return of_terms(self.terms(X) - self.typical, base, chosen)

    def terms(self, X: np.ndarray) -> np.ndarray:
        """What each feature adds to the intercepts, (n, m, L). O(n m L)."""
        N = self._columns(X)
        T = np.zeros((*X.shape, len(self.intercept)))
        missing = np.isnan(N)
        N = np.where(missing, self.means, np.clip(N, -LARGEST_NUMBER, LARGEST_NUMBER))
        owners = np.arange(X.shape[1]) if self.numeric is None else self.numeric
        for w, j in enumerate(owners if self.hinges is None else self.hinges.columns):
            T[:, j] += (
                N[:, w, None] * self.coef[w] + missing[:, w, None] * self.marks[w]
            )
        for c, j in enumerate(self.categorical):
            T[:, j] += self.table[
                np.fmin(X[:, j], self.lasts[c]).astype(np.intp) + self.offsets[c]
            ]
        return T

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Linear scores (n, L), finite for all rows of finite numbers and NaN. O(n m L)."""
        with np.errstate(over="ignore", invalid="ignore"):
            Z = self.plain_scores(X)
            flat = Z.ravel()
            # The sum of squares is NaN or infinite where a number is missing or huge.
            finite = flat.dot(flat) < np.inf
        if not finite:
            Z = self._careful(self._columns(X))
        if len(self.categorical):
            # fmin ignores NaN: a missing code goes to the last place, and so does a larger code.
            codes = np.fmin(X.take(self.categorical, axis=1), self.lasts).astype(
                np.intp
            )
            codes += self.offsets
            Z += summed(self.table, codes)
        return Z

    def plain_scores(self, X: np.ndarray) -> np.ndarray:
        """The scores (n, L) of numeric features alone, in rows where none is missing. O(n m L)."""
        Z: np.ndarray = self._columns(X).dot(self.coef)
        Z += self.intercept
        return Z

    def _columns(self, X: np.ndarray) -> np.ndarray:
        if self.hinges is not None:
            return self.hinges.apply(X)
        return X if self.numeric is None else X.take(self.numeric, axis=1)

    def _careful(self, N: np.ndarray) -> np.ndarray:
        """`plain_scores` from numeric columns N with missing or huge numbers."""
        missing = np.isnan(N)
        filled = np.where(
            missing, self.means, np.clip(N, -LARGEST_NUMBER, LARGEST_NUMBER)
        )
        scores: np.ndarray = filled.dot(self.coef)
        scores += self.intercept
        scores += missing.astype(np.float64).dot(self.marks)
        return scores


def probabilities(Z: np.ndarray) -> np.ndarray:
    """Probabilities (n, K) from the log-odds (n, 1) of the second class, or from K scores."""
    if Z.shape[1] > 1:
        return softmax(Z)
    return expit(np.concatenate((-Z, Z), axis=1))


@dataclass(frozen=True)
class LinearScorer(Stored):
    """Two classes from one score, the log-odds of the second, or K classes from K scores."""

    linear: Linear
    converged: bool

    def posterior(self, X: np.ndarray) -> np.ndarray:
        return self.probabilities(self.linear.scores(X))

    def plain_posterior(self, X: np.ndarray) -> np.ndarray:
        """`posterior` of rows of numbers that are neither missing nor huge, without categories."""
        return self.probabilities(self.linear.plain_scores(X))

    def probabilities(self, Z: np.ndarray) -> np.ndarray:
        """The probabilities (n, K) of scores (n, L), which are overwritten."""
        return probabilities(Z)

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        return self.linear.contributions(X, chosen)
