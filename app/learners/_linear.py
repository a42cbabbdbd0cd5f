"""A linear model folded together with its preparation, so that a row costs one product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.special import expit

from app.decisions.contributions import Contributions, of_terms
from app.learners._design import LARGEST, Design
from app.learners._hinges import Hinges

FEW = 64  # rows up to which one operation on a bigger array is cheaper than several
_CELLS = 1_000_000  # of the rows whose terms are in memory together


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


@dataclass(frozen=True)
class Linear:
    """Scores (n, L) of raw rows (n, m): what a linear model on `Design.matrix` gives, with everything multiplied out.

    `coef` (numeric features, L) and `intercept` (L,) act on raw numbers; `means` fill a missing one and `marks` (as
    `coef`) are added for it; `table` (values, L) holds the term of every category code, from `offsets` on for each
    feature, the last of its `lasts + 1` places being "missing", which is also where codes beyond training end.
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
    def fold(cls, design: Design, coef: np.ndarray, intercept: np.ndarray) -> Self:
        """From the coefficients (L, width) and intercepts (L,) of L linear models on the design's columns."""
        m = len(design.numeric)
        marked = m + len(design.marked)
        raw = coef[:, :m].T / design.scales[:, None]
        intercept = intercept - design.means @ raw
        places, means, hinges = design.marked, design.means, design.hinges
        if hinges is not None:
            raw = raw.repeat(np.diff(hinges.starts, append=len(hinges.knots)), axis=0) * hinges.slopes[:, None]
            places, means = hinges.starts[design.marked], hinges.means
        marks = np.zeros_like(raw)
        marks[places] = coef[:, m:marked].T
        tables, start = [], marked
        for seen in design.values:
            tables.append(_table(seen, coef[:, start : start + len(seen)].T))
            start += len(seen)
        sizes = np.array([len(table) for table in tables], dtype=np.intp)
        return cls(
            numeric=design.numeric if tables else None,
            coef=np.ascontiguousarray(raw),
            intercept=intercept,
            means=means,
            marks=marks,
            categorical=design.categorical,
            lasts=(sizes - 1).astype(np.float64),
            offsets=(np.cumsum(sizes) - sizes).astype(np.intp),
            table=np.concatenate(tables) if tables else np.empty((0, len(intercept))),
            hinges=hinges,
        )

    @classmethod
    def beside(cls, parts: Sequence[Self]) -> Self:
        """One model with the scores of several, all folded with the same design (of the same rows and weights)."""
        first = parts[0]
        return cls(
            numeric=first.numeric,
            coef=np.hstack([one.coef for one in parts]),
            intercept=np.hstack([one.intercept for one in parts]),
            means=first.means,
            marks=np.hstack([one.marks for one in parts]),
            categorical=first.categorical,
            lasts=first.lasts,
            offsets=first.offsets,
            table=np.hstack([one.table for one in parts]),
            hinges=first.hinges,
        )

    def recorded(self, X: np.ndarray, weights: np.ndarray) -> Self:
        """The same with the mean term of each feature in rows X (n, m) of these weights (n,)."""
        total, step = np.zeros((X.shape[1], len(self.intercept))), max(_CELLS // X.shape[1], 1)
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            total += np.tensordot(weights[rows], self.terms(X[rows]), axes=1)
        return replace(self, typical=total / weights.sum())

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        """See `of_terms`."""
        return of_terms(self.terms(X) - self.typical, self.intercept + self.typical.sum(axis=0), chosen)

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
            # fmin passes over NaN: a missing code goes to the last place, and so does one beyond training.
            codes = np.fmin(X.take(self.categorical, axis=1), self.lasts).astype(np.intp)
            codes += self.offsets
            Z += summed(self.table, codes)
        return Z

    def plain_scores(self, X: np.ndarray) -> np.ndarray:
        """The part (n, L) of the scores that numeric features have, in rows where none is missing. O(n m L)."""
        Z: np.ndarray = self._columns(X).dot(self.coef)
        Z += self.intercept
        return Z

    def plain_score(self, X: np.ndarray) -> float:
        """The same for one row and one score (L = 1): a number beats an array."""
        return float(self._columns(X).dot(self.coef).item() + self.intercept.item())

    def _columns(self, X: np.ndarray) -> np.ndarray:
        if self.hinges is not None:
            return self.hinges.apply(X)
        return X if self.numeric is None else X.take(self.numeric, axis=1)

    def _careful(self, N: np.ndarray) -> np.ndarray:
        missing = np.isnan(N)
        scores: np.ndarray = np.where(missing, self.means, np.clip(N, -LARGEST, LARGEST)).dot(self.coef)
        scores += self.intercept
        scores += missing.astype(np.float64).dot(self.marks)
        return scores


def _table(seen: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Terms by category code, "missing" last, from the codes seen in training (NaN last) and their terms."""
    known = ~np.isnan(seen)
    codes = seen[known].astype(np.intp)
    absent = np.zeros(terms.shape[1]) if known.all() else terms[-1]
    table = np.tile(absent, (int(codes.max(initial=-1)) + 2, 1))
    table[codes] = terms[known]
    return table


def _logistic(z: float) -> np.ndarray:
    P: np.ndarray = expit(np.array(((-z, z),)))
    return P


@dataclass(frozen=True)
class Logit:
    """Two classes from one score: probabilities (n, 2) of the first and the second."""

    linear: Linear
    converged: bool

    def posterior(self, X: np.ndarray) -> np.ndarray:
        return self._probabilities(self.linear.scores(X))

    def plain_posterior(self, X: np.ndarray) -> np.ndarray:
        """`posterior` of rows of numbers that are neither missing nor huge, without categories."""
        if len(X) == 1:
            return _logistic(self.linear.plain_score(X))
        return self._probabilities(self.linear.plain_scores(X))

    def _probabilities(self, z: np.ndarray) -> np.ndarray:
        if len(z) == 1:
            return _logistic(z.item())
        P: np.ndarray = expit(np.concatenate((-z, z), axis=1))
        return P

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        return self.linear.contributions(X, chosen)


@dataclass(frozen=True)
class Softmax:
    """K classes from K scores."""

    linear: Linear
    converged: bool

    def posterior(self, X: np.ndarray) -> np.ndarray:
        return softmax(self.linear.scores(X))

    def plain_posterior(self, X: np.ndarray) -> np.ndarray:
        """`posterior` of rows of numbers that are neither missing nor huge, without categories."""
        return softmax(self.linear.plain_scores(X))

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        return self.linear.contributions(X, chosen)
