"""Training rows that lend values to rows which lack what no row in training lacked.

A model learns from rows without a value what it means that the value is missing. Where training had
no such row it knows nothing: trees send the row to the larger child, linear models take the mean.
So the answer is averaged over likely values, those of training rows which resemble the row in the
features that it has (a hot deck: Andridge, Little 2010, "A review of hot deck imputation").
Measured against masked training rows, imputation and others: benchmarks/missing_in_service.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from payoff.decisions.quantities import Distribution, Samples
from payoff.stored import Stored

DRAWS = 10
"""How many training rows lend their values to one row."""
NEAREST = 20
"""The fewest rows that resemble a row, of which these are drawn."""
ROWS = 500
_CELLS = 200_000  # numbers that are kept, which are fewer rows of a wide table
_ROWS_AT_ONCE = 200  # whose distances fit into a processor's cache
# With this spread the mean squared difference of two random ranks is 1.
_SPREAD = math.sqrt(6.0)
_TINY = 1e-9  # by so much rounding may change distances and weights
_LEVELS = (np.arange(50) + 0.5) / 50  # of the quantiles that stand for a distribution


@dataclass(frozen=True, eq=False)
class Background(Stored):
    """B training rows (B, m) in the order of the model's answers for them.

    `complete` (m,) marks the features that no row in training lacked, `categorical` (m,) those that
    hold category codes. `codes` are the ascending codes that training contained of each feature
    that is both. The features `apart` do not decide which rows lend: an answer that may only rise
    with one would else change with the values that are lent.
    """

    rows: np.ndarray
    complete: np.ndarray
    categorical: np.ndarray
    codes: Mapping[int, np.ndarray]
    apart: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        categorical: Sequence[int],
        answer: Callable[[np.ndarray], np.ndarray],
        apart: Sequence[int] = (),
    ) -> Self:
        """From rows X (n, m) with weights (n,), and a model's answers (n,) or (n, K) to rows."""
        n, m = X.shape
        complete = np.array([not np.isnan(column).any() for column in X.T])
        count = min(n, ROWS, max(NEAREST, _CELLS // m))
        # The smallest of such numbers are a draw by weight without replacement (Efraimidis and
        # Spirakis 2006), in logarithms, which do not overflow.
        waits = np.log(np.random.default_rng(0).exponential(size=n)) - np.log(weights)
        rows = np.ascontiguousarray(X[np.argsort(waits)[:count]])
        answers = answer(rows).reshape(count, -1)
        order = answers[:, answers.var(axis=0).argmax()].argsort(kind="stable")
        codes = {j: np.unique(X[:, j]) for j in categorical if complete[j]}
        is_categorical = np.isin(np.arange(m), categorical)
        return cls(rows[order], complete, is_categorical, codes, apart)

    @cached_property
    def _limits(self) -> np.ndarray:
        """The greatest code (m,) of each feature in `codes`, below all codes where training left
        some out; infinite for other features.
        """
        limits = np.full(len(self.complete), np.inf)
        for j, codes in self.codes.items():
            limits[j] = codes[-1] if len(codes) == codes[-1] + 1 else -1.0
        return limits

    @cached_property
    def _sorted(self) -> list[np.ndarray]:
        """The known values of each feature, ascending."""
        return [np.sort(column[~np.isnan(column)]) for column in self.rows.T]

    @cached_property
    def _places(self) -> np.ndarray:
        return self.places(self.rows)

    def gaps(self, X: np.ndarray) -> Gaps | None:
        """What rows X (n, m) lack of the `complete` features: values that are missing, and
        categories that training did not contain. None where they lack nothing.
        """
        has_all = (  # NaN compares false
            (self._limits >= X).all()
            if self.codes
            else not math.isnan(np.minimum.reduce(X, axis=None, initial=np.inf))
        )
        if has_all:
            return None
        marks = np.isnan(X) & self.complete
        for j, codes in self.codes.items():
            marks[:, j] = ~np.isin(X[:, j], codes)
        return Gaps(self, X, marks) if marks.any() else None

    def lenders(self, X: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """The positions (n, DRAWS) of the rows that lend their values to rows X (n, m) where these
        have `marks` (n, m).

        They are of the N nearest in the other features, N the greater of `NEAREST` and
        B^(4 / (4 + d)) with d of these: the rate at which averages over neighbours of a smooth
        function err least (Györfi and others 2002, "A distribution-free theory of nonparametric
        regression"). The nearer a row, the more it weighs. Of the rows in the order of the answers
        those at even steps of the weight are drawn: so few of them have nearly the mean of all.
        O(n B (m + log B)), and memory n B.
        """
        B = len(self.rows)
        marks = marks | np.isin(np.arange(X.shape[1]), self.apart)
        distance = self._distances(X, marks)
        nearest = np.clip(B ** (4 / (4 + (~marks).sum(axis=1))), NEAREST, B).astype(
            np.intp
        )
        ascending = np.sort(distance, axis=1)
        limit = np.take_along_axis(ascending, nearest[:, None] - 1, axis=1)
        near = distance <= limit + _TINY
        farther = distance - ascending[:, :1]
        mean = (farther * near).sum(axis=1, keepdims=True) / nearest[:, None]
        weights = near * np.exp(-farther / np.where(mean > 0, mean, 1.0))
        reached = np.cumsum(weights, axis=1)
        reached /= reached[:, -1:] * (1 - _TINY)
        steps = (np.arange(DRAWS) + 0.5) / DRAWS
        return np.stack([(reached >= step).argmax(axis=1) for step in steps], axis=1)

    def _distances(self, X: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """The sum over the features without marks of differences (n, B), each about 1 on average.

        Squared differences of ranks, but categories, and numbers that training lacked, differ by at
        most 1. One product for all ranks takes a tenth of the time of a loop over them.
        """
        ranked = self.complete & ~self.categorical
        places = self.places(X)
        known = (~marks)[:, ranked].astype(np.float64)
        ranks = places[:, ranked] * known
        lender_ranks = self._places[:, ranked]
        distance = known @ np.square(lender_ranks).T - 2 * ranks @ lender_ranks.T
        distance += np.square(ranks).sum(axis=1, keepdims=True)
        for j in np.flatnonzero(~ranked):
            difference = places[:, j, None] - self._places[:, j]
            distance += np.minimum(np.square(difference), ~marks[:, j, None])
        return np.asarray(distance)

    def places(self, X: np.ndarray) -> np.ndarray:
        """Ranks of numbers from 0 to `_SPREAD`, codes of categories, -1 where missing (n, m)."""
        places = X.copy()
        for j in np.flatnonzero(~self.categorical):
            known = self._sorted[j]
            ends = known.searchsorted(X[:, j]) + known.searchsorted(X[:, j], "right")
            places[:, j] = _SPREAD * ends / (2 * max(len(known), 1))
        places[np.isnan(X)] = -1.0
        return places


class Gaps(NamedTuple):
    """Rows X (n, m), of which some lack what no training row lacked: `marks` (n, m)."""

    background: Background
    X: np.ndarray
    marks: np.ndarray

    def of(self, rows: np.ndarray | slice) -> Gaps:
        """Some of the rows."""
        return self._replace(X=self.X[rows], marks=self.marks[rows])

    def draws(self) -> list[np.ndarray]:
        """`DRAWS` times the rows (n, m), each time with other values in place of the marks."""
        lenders = np.concatenate(
            [
                self.background.lenders(self.X[rows], self.marks[rows])
                for rows in _chunks(np.arange(len(self.X)))
            ]
        )
        return [
            np.where(self.marks, self.background.rows[rows], self.X)
            for rows in lenders.T
        ]

    def averaged(self, answer: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """A model's answers (n, …), each the mean over likely values where the row has a mark."""
        answers = answer(self.X)
        lacking = np.flatnonzero(self.marks.any(axis=1))
        for rows in _chunks(lacking):
            parts = answer(np.concatenate(self.of(rows).draws()))
            shape = DRAWS, len(rows), *parts.shape[1:]
            answers[rows] = parts.reshape(shape).mean(axis=0)
        return answers

    def mixtures(
        self, distribution: Callable[[np.ndarray], Distribution]
    ) -> Iterator[Samples]:
        """The distributions of the rows: of one with a mark the mixture over likely values.

        A mixture has `len(_LEVELS)` quantiles of each of its parts.
        """
        lacks = np.asarray(self.marks.any(axis=1))
        ends = (np.flatnonzero(lacks[1:] != lacks[:-1]) + 1).tolist()
        for start, end in pairwise([0, *ends, len(lacks)]):
            part = self.of(slice(start, end))
            if lacks[start]:
                quantiles = [
                    distribution(rows).quantiles(_LEVELS) for rows in part.draws()
                ]
                values = np.sort(np.concatenate(quantiles, axis=1), axis=1)
                size = values.shape[1]
                yield Samples(values, np.arange(1, size + 1)[None] / size)
            else:
                yield from distribution(part.X).parts()


def _chunks(rows: np.ndarray) -> list[np.ndarray]:
    """Positions of rows, at least one, in chunks of at most `_ROWS_AT_ONCE`."""
    return np.array_split(rows, math.ceil(len(rows) / _ROWS_AT_ONCE))
