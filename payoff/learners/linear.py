"""A linear model folded together with its preparation, so that a row costs one product."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import expit

from payoff.decisions.explanations import Contributions, of_terms
from payoff.stored import Stored

LARGEST = 1e100  # of a number's magnitude: the squares of such numbers, and their sums, stay finite
FEW = 64  # rows up to which one operation on a bigger array is cheaper than several
_TILE = 64  # rows that NumPy gets as one long row: short ones take it twice the time
_CELLS = 1_000_000  # of the rows whose terms are in memory together
_ZERO = np.zeros(())


def summed(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """For each row of `places` (n, c) the sum (n, L) of those rows of `table` (T, L). O(n c L), O(n
    L) space.
    """
    if len(places) <= FEW:
        return table.take(places, axis=0).sum(axis=1)
    total = np.zeros((len(places), table.shape[1]))
    for column in places.T:
        total += table.take(column, axis=0)
    return total


def softmax(Z: np.ndarray) -> np.ndarray:
    """Rows of probabilities proportional to exp(Z), (n, K); overwrites Z. Some entry of a row is
    finite.
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
        H = (
            None
            if X.shape[1] == len(self.columns) and self._in_order
            else X.take(self.columns, axis=1)
        )
        X = X if H is None else H
        tiles, rest = divmod(len(X), _TILE)
        if not tiles:
            return _bend(X, self.uppers, self.knots, out=H)
        H = np.empty(X.shape) if H is None else H
        cut, shape = len(X) - rest, (tiles, _TILE * len(self.columns))
        bounds = np.tile(self.uppers, _TILE), np.tile(self.knots, _TILE)
        _bend(X[:cut].reshape(shape), *bounds, out=H[:cut].reshape(shape))
        if rest:
            _bend(X[cut:], self.uppers, self.knots, out=H[cut:])
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
    """Scores (n, L) of raw rows (n, m): what a linear model on `Design.matrix` gives, with
    everything multiplied out.

    `coef` (numeric features, L) and `intercept` (L,) act on raw numbers; `means` fill a missing one
    and `marks` (as `coef`) are added for it; `table` (values, L) holds the term of every category
    code, from `offsets` on for each feature, the last of its `lasts + 1` places being "missing",
    which is also where codes beyond training end.
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
    def beside(cls, parts: Sequence[Self]) -> Self:
        """One model with the scores of several, all folded with the same design (of the same rows
        and weights).
        """
        return replace(
            parts[0],
            coef=np.hstack([one.coef for one in parts]),
            intercept=np.hstack([one.intercept for one in parts]),
            marks=np.hstack([one.marks for one in parts]),
            table=np.hstack([one.table for one in parts]),
        )

    def recorded(self, X: np.ndarray, weights: np.ndarray) -> Self:
        """A copy with the mean term of each feature in rows X (n, m) of these weights (n,)."""
        total, step = np.zeros((X.shape[1], len(self.intercept))), max(_CELLS // X.shape[1], 1)
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            total += np.tensordot(weights[rows], self.terms(X[rows]), axes=1)
        return replace(self, typical=total / weights.sum())

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        """See `of_terms`."""
        return of_terms(
            self.terms(X) - self.typical, self.intercept + self.typical.sum(axis=0), chosen
        )

    def terms(self, X: np.ndarray) -> np.ndarray:
        """What each feature adds to the intercepts, (n, m, L). O(n m L)."""
        N, T = self._columns(X), np.zeros((*X.shape, len(self.intercept)))
        missing = np.isnan(N)
        N = np.where(missing, self.means, np.clip(N, -LARGEST, LARGEST))
        owners = np.arange(X.shape[1]) if self.numeric is None else self.numeric
        for w, j in enumerate(owners if self.hinges is None else self.hinges.columns):
            T[:, j] += N[:, w, None] * self.coef[w] + missing[:, w, None] * self.marks[w]
        for c, j in enumerate(self.categorical):
            T[:, j] += self.table[np.fmin(X[:, j], self.lasts[c]).astype(np.intp) + self.offsets[c]]
        return T

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Linear scores (n, L), finite for all rows of finite numbers and NaN. O(n m L)."""
        with np.errstate(over="ignore", invalid="ignore"):
            Z = self.plain_scores(X)
            flat = Z.ravel()
            finite = flat.dot(flat) < np.inf  # else something is missing, or beyond all measure
        if not finite:
            Z = self._careful(self._columns(X))
        if len(self.categorical):
            # fmin passes over NaN: a missing code goes to the last place, and so does one beyond
            # training.
            codes = np.fmin(X.take(self.categorical, axis=1), self.lasts).astype(np.intp)
            codes += self.offsets
            Z += summed(self.table, codes)
        return Z

    def plain_scores(self, X: np.ndarray) -> np.ndarray:
        """The part (n, L) of the scores that numeric features have, in rows where none is missing.
        O(n m L).
        """
        Z: np.ndarray = self._columns(X).dot(self.coef)
        Z += self.intercept
        return Z

    def _columns(self, X: np.ndarray) -> np.ndarray:
        if self.hinges is not None:
            return self.hinges.apply(X)
        return X if self.numeric is None else X.take(self.numeric, axis=1)

    def _careful(self, N: np.ndarray) -> np.ndarray:
        missing = np.isnan(N)
        scores: np.ndarray = np.where(missing, self.means, np.clip(N, -LARGEST, LARGEST)).dot(
            self.coef
        )
        scores += self.intercept
        scores += missing.astype(np.float64).dot(self.marks)
        return scores


def probabilities(Z: np.ndarray) -> np.ndarray:
    """Probabilities of two classes from the log-odds (n, 1) of the second, or of K classes from K
    scores (n, K).
    """
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
        """Of scores (n, L), which are overwritten."""
        return probabilities(Z)

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        return self.linear.contributions(X, chosen)
