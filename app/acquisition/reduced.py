"""Forests that lack some features of a chain's order: they answer where these cannot be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

import numpy as np

from app.acquisition.extra_trees import ExtraTrees
from app.acquisition.partial_calibration import Blend
from app.arrays import F32, F64, Bools, Ints

Lacking = tuple[int, tuple[int, ...]]
"""What a forest reads: the first so many features of the order, but those at some places (0, 1, …)."""

_SINGLE, _PAIRED = 5, 3  # places lacking alone, and in pairs: before a later one a good state of the chain ends
_SHORT, _PAIR = 7, 6  # how many features are the first: each number up to here, and all; or with a pair, this or all


def lacking(S: int, gaps: Bools) -> list[Lacking]:
    """The forests for an order of S features; none is for a lack of what has gaps (S,) in training."""
    places, lengths = np.flatnonzero(~gaps).tolist(), sorted({*range(2, min(S, _SHORT) + 1), S})
    single = [((place,), lengths) for place in places if place < _SINGLE]
    pairs = combinations([place for place in places if place < _PAIRED], 2)
    both = [*single, *((pair, sorted({min(S, _PAIR), S})) for pair in pairs)]
    return [(length, lost) for lost, several in both for length in several if length > lost[-1] + 1]


@dataclass(frozen=True, eq=False)
class Reduced:
    """F forests of T trees on all rows, each with some features of the order, `lacking` (F,); K classes with a `prior`.

    Of the states 0 … S of the chain and these forests: what each `reads` (S + 1 + F, S), and its log `loss` on unseen
    rows; `masked_loss`: that of the masked forest. `blends` (F,) calibrate each with the one before it that lacks the
    same, or are empty.
    """

    lacking: Sequence[Lacking]
    forests: ExtraTrees
    prior: F64
    reads: Bools
    loss: F64
    masked_loss: float
    blends: Sequence[Blend]

    @classmethod
    def of(cls, S: int, lacking: Sequence[Lacking], forests: ExtraTrees, prior: F64) -> Self:
        """Not calibrated: the loss is the less, the more features are read."""
        without = [np.isin(np.arange(S), lost, invert=True) & (np.arange(S) < length) for length, lost in lacking]
        reads = np.concatenate((np.tri(S + 1, S, -1, dtype=bool), without))
        return cls(lacking, forests, prior, reads, -reads.sum(axis=1, dtype=np.float64), np.inf, [])

    def best(self, available: Bools) -> Ints:
        """For each row, with features `available` (n, S): the state, or S + 1 + the forest, of least loss that reads no
        other; -1, the masked forest, if that reads less than half of them and has a larger loss. O(n F S).
        """
        unknown = (~available).astype(np.float32) @ self.reads.T.astype(np.float32)
        best = np.where(unknown > 0, np.inf, self.loss).argmin(axis=1)
        few = 2 * self.reads[best].sum(axis=1) < available.sum(axis=1)
        return np.where(few & (self.loss[best] > self.masked_loss), -1, best)

    def answer(self, rows: F32, k: int) -> F64:
        """Calibrated probabilities (n, K) of rows (n, S) from forest k."""
        parts = [self.shares(rows, one) for one in self._blended(k)]
        return self.blends[k].apply(parts) if self.blends else parts[0]

    def shares(self, rows: F32, k: int) -> F64:
        """What forest k says (n, K), with half a tree that says the prior: a few trees are too sure."""
        T = self.forests.roots.shape[1]
        P = self.forests.shares(rows, np.full(len(rows), k + 1, dtype=np.int32))
        P += (self.prior / 2 - P / 2) / (T + 0.5)
        return P

    def calibrated(self, P: F64, y: np.ndarray, weight: np.ndarray, *losses: float) -> Self:
        """With blends fitted on `shares` P (n, F, K) of unseen rows; `losses`: of the masked forest, of the states."""
        parts = [[P[:, one] for one in self._blended(k)] for k in range(len(self.lacking))]
        blends = [Blend.fit(part, y, weight) for part in parts]
        own = [mean_loss(blend.apply(part), y, weight) for blend, part in zip(blends, parts, strict=True)]
        return replace(self, loss=np.array([*losses[1:], *own]), masked_loss=losses[0], blends=blends)

    def _blended(self, k: int) -> list[int]:
        return [k, k - 1] if k and self.lacking[k - 1][1] == self.lacking[k][1] else [k]


def mean_loss(P: F64, y: np.ndarray, weight: np.ndarray) -> float:
    """The weighted mean log loss of probabilities P (n, K) > 0 for the classes y (n,)."""
    return float(np.average(-np.log(P[np.arange(len(y)), y]), weights=weight))
