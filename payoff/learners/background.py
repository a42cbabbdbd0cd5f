"""Training rows that lend values to rows which lack what no row in training lacked.

A model learns from rows without a value what it means that the value is missing. Where training had
no such row it knows nothing: trees send the row to the larger child, linear models take the mean.
So the answer is averaged over likely values, those of training rows which resemble the row in the
features that it has (a hot deck: Andridge, Little 2010, "A review of hot deck imputation").
Measured against masked training rows, imputation and others: benchmarks/missing_in_service.md.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from payoff.decisions.quantities import Distribution, Samples
from payoff.stored import Stored

DRAWS = 10
"""The training rows that lend their values to one row."""
NEAREST = 20
"""The fewest rows that resemble a row, of which these are drawn."""
ROWS = 500
_CELLS = 200_000  # numbers that are kept, which are fewer rows of a wide table
_FEWEST_ROWS = 50
_CELLS_AT_ONCE = 1_000_000  # numbers that are in memory together
_CELLS_IN_CACHE = 100_000  # distances that are computed together
# The mean of this times the squared difference of two random ranks from 0 to 1 is 1.
_SCALE = 6.0
_TINY = 1e-9  # by so much rounding may change distances and weights
_LEVELS = (np.arange(50) + 0.5) / 50  # of the quantiles that stand for a distribution


class Filled(NamedTuple):
    """Rows (f, m) without gaps: `DRAWS` for each row with gaps, and else the row itself.

    `starts` (n,) are where those for each row begin.
    """

    rows: np.ndarray
    starts: np.ndarray

    def mean(self, answers: np.ndarray) -> np.ndarray:
        """The mean (n, …) of answers (f, …) for each row."""
        sums = np.add.reduceat(answers, self.starts, axis=0)
        counts = np.diff(self.starts, append=len(answers))
        return np.asarray(sums / counts.reshape(-1, *[1] * (answers.ndim - 1)))


@dataclass(frozen=True, eq=False)
class Background(Stored):
    """B training rows (B, m) in the order of the model's answers for them.

    `complete` (m,) marks the features that no row in training lacked. Of those that hold category
    codes, `columns` (c,), `codes` are the ascending codes that training contained.
    """

    rows: np.ndarray
    complete: np.ndarray
    categorical: np.ndarray
    columns: np.ndarray
    codes: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        weights: np.ndarray,
        categorical: Sequence[int],
        answer: Callable[[np.ndarray], np.ndarray],
    ) -> Self:
        """From rows X (n, m) with weights (n,), and a model's answers (n,) or (n, K) to rows."""
        n, m = X.shape
        complete = np.array([not np.isnan(column).any() for column in X.T])
        count = min(n, ROWS, max(_FEWEST_ROWS, _CELLS // m))
        random = np.random.default_rng(0)
        # The smallest of such numbers are a draw by weight without replacement (Efraimidis and
        # Spirakis 2006), in logarithms, which do not overflow.
        numbers = np.log(random.exponential(size=n)) - np.log(weights)
        rows = np.ascontiguousarray(X[np.argsort(numbers)[:count]])
        answers = answer(rows).reshape(count, -1)
        order = answers[:, answers.var(axis=0).argmax()].argsort(kind="stable")
        columns = np.array([j for j in categorical if complete[j]], dtype=np.intp)
        codes = tuple(np.unique(X[:, j]) for j in columns)
        return cls(
            rows[order],
            complete,
            np.isin(np.arange(m), categorical),
            columns,
            codes,
        )

    @cached_property
    def _limits(self) -> np.ndarray:
        """The greatest code (m,) of each of `columns`, below all codes where training left some
        out; infinite for other features.
        """
        limits = np.full(len(self.complete), np.inf)
        for j, codes in zip(self.columns, self.codes, strict=True):
            limits[j] = codes[-1] if len(codes) == codes[-1] + 1 else -1.0
        return limits

    @cached_property
    def _sorted(self) -> list[np.ndarray]:
        """The known values of each feature, ascending."""
        return [np.sort(column[~np.isnan(column)]) for column in self.rows.T]

    @cached_property
    def _places(self) -> np.ndarray:
        return self.places(self.rows)

    def gaps(self, X: np.ndarray) -> np.ndarray | None:
        """What rows X (n, m) lack of the `complete` features (n, m): missing values, and categories
        that training did not contain. None where they lack nothing.
        """
        if len(self.columns):
            has_all = bool((self._limits >= X).all())  # NaN compares false
        else:
            has_all = not math.isnan(np.minimum.reduce(X, axis=None, initial=np.inf))
        if has_all:
            return None
        gaps = np.isnan(X)
        gaps &= self.complete
        for j, codes in zip(self.columns, self.codes, strict=True):
            gaps[:, j] = ~np.isin(X[:, j], codes)
        return gaps if gaps.any() else None

    def fills(self, X: np.ndarray, gaps: np.ndarray) -> Iterator[Filled]:
        """Rows X (n, m) with values in place of their gaps (n, m), a block of rows at a time.

        O(n B (m + log B)) for rows with gaps.
        """
        step = max(1, _CELLS_AT_ONCE // (DRAWS * X.shape[1]))
        for start in range(0, len(X), step):
            block = slice(start, start + step)
            lacks = np.asarray(gaps[block].any(axis=1))
            counts = np.where(lacks, DRAWS, 1)
            rows = X[block].repeat(counts, axis=0)
            lenders = self.lenders(X[block][lacks], gaps[block][lacks])
            holes = gaps[block].repeat(counts, axis=0)
            rows[holes] = self.rows[lenders.ravel()][holes[lacks.repeat(counts)]]
            yield Filled(rows, np.cumsum(counts) - counts)

    def draws(self, X: np.ndarray, gaps: np.ndarray) -> Iterator[np.ndarray]:
        """`DRAWS` times the rows X (n, m), each time with other values in place of their gaps."""
        for lenders in self.lenders(X, gaps).T:
            yield np.where(gaps, self.rows[lenders], X)

    def lenders(self, X: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        """The numbers (n, DRAWS) of the background's rows that lend their values to rows X (n, m).

        They are of the N nearest in the features without gaps, N the greater of `NEAREST` and
        B^(4 / (4 + d)) with d such features: the rate at which averages over neighbours of a smooth
        function err least (Györfi and others 2002, "A distribution-free theory of nonparametric
        regression"). The nearer a row, the more it weighs. Of the rows in the order of the answers
        those at even steps of the weight are drawn: so few of them have nearly the mean of all.
        """
        step = max(1, _CELLS_IN_CACHE // len(self.rows))
        blocks = [slice(start, start + step) for start in range(0, len(X), step)]
        drawn = [self._drawn(X[block], gaps[block]) for block in blocks]
        return np.concatenate([np.empty((0, DRAWS), dtype=np.intp), *drawn])

    def _drawn(self, X: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        """`lenders` of a few rows."""
        B = len(self.rows)
        distance = self._distances(X, gaps)
        known = (~gaps).sum(axis=1)
        nearest = np.maximum(NEAREST, B ** (4 / (4 + known))).astype(np.intp)
        ascending = np.sort(distance, axis=1)
        last = np.minimum(nearest, B)[:, None] - 1
        near = distance <= np.take_along_axis(ascending, last, axis=1) + _TINY
        farther = distance - ascending[:, :1]
        mean = (farther * near).sum(axis=1) / near.sum(axis=1)
        unit = np.where(mean > 0, mean, 1.0)
        reached = np.cumsum(near * np.exp(-farther / unit[:, None]), axis=1)
        steps = (np.arange(DRAWS) + 0.5) / DRAWS
        total = reached[:, -1:] * (1 - _TINY)
        picks = [(reached >= step * total).argmax(axis=1) for step in steps]
        return np.stack(picks, axis=1)

    def _distances(self, X: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        """The sum over the features without gaps of differences (n, B), each about 1 on average.

        Squared differences of ranks, but categories, and numbers that training lacked, differ by at
        most 1. One product for all ranks takes a tenth of the time of a loop over them.
        """
        ranked = self.complete & ~self.categorical
        places = self.places(X)
        known = (~gaps)[:, ranked].astype(np.float64)
        ranks = places[:, ranked] * known
        lender_ranks = self._places[:, ranked]
        distance = np.square(ranks).sum(axis=1, keepdims=True)
        distance = distance - 2 * ranks @ lender_ranks.T
        distance += known @ np.square(lender_ranks).T
        distance *= _SCALE
        for j in np.flatnonzero(~ranked):
            difference = _SCALE * np.square(places[:, j, None] - self._places[:, j])
            difference[gaps[:, j]] = 0.0
            distance += np.minimum(difference, 1.0)
        return np.asarray(distance)

    def places(self, X: np.ndarray) -> np.ndarray:
        """Ranks from 0 to 1 of numbers among the background's rows, codes of categories (n, m)."""
        places = np.empty(X.shape)
        for j, ascending in enumerate(self._sorted):
            x = X[:, j]
            if self.categorical[j]:
                places[:, j] = x
            else:
                ends = ascending.searchsorted(x), ascending.searchsorted(x, "right")
                places[:, j] = (ends[0] + ends[1]) / (2 * max(len(ascending), 1))
            places[np.isnan(x), j] = -1.0
        return places

    def mixtures(
        self,
        distribution: Callable[[np.ndarray], Distribution],
        X: np.ndarray,
        gaps: np.ndarray,
    ) -> Iterator[Samples]:
        """The distributions of rows X (n, m): of one with gaps the mixture over likely values.

        A mixture has `len(_LEVELS)` quantiles of each of its parts.
        """
        lacks = np.asarray(gaps.any(axis=1))
        ends = [*(np.flatnonzero(lacks[1:] != lacks[:-1]) + 1).tolist(), len(X)]
        for start, end in pairwise([0, *ends]):
            run = slice(start, end)
            if not lacks[start]:
                yield from distribution(X[run]).parts()
                continue
            for filled in self.fills(X[run], gaps[run]):
                quantiles = distribution(filled.rows).quantiles(_LEVELS)
                values = np.sort(quantiles.reshape(len(filled.starts), -1), axis=1)
                size = values.shape[1]
                yield Samples(values, np.arange(1, size + 1)[None] / size)
