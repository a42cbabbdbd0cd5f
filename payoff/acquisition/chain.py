"""A chain of forests: each next feature of one order brings a forest of its own, trained on all rows; and its stops."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar, Self

import numpy as np

from payoff.acquisition.forest import Orders, spending
from payoff.acquisition.nodes import Nodes
from payoff.acquisition.prices import Prices, chained, limit_of, slack_of
from payoff.acquisition.states import States, Trajectories, checked
from payoff.acquisition.stopping import FEW, Blend, Experience, StageCurve, Worth
from payoff.arrays import F32, F64, I32, Bools, Indices, Ints
from payoff.stored import Stored

Lacking = tuple[int, tuple[int, ...]]
"""What a forest reads: the first so many features of the order, but those at some places (0, 1, …)."""

_SINGLE, _PAIRED = (
    5,
    3,
)  # places lacking alone, and in pairs: before a later one a good state of the chain ends
_SHORT, _PAIR = (
    7,
    6,
)  # how many features are the first: each number up to here, and all; or with a pair, this or all


def lacking(S: int, gaps: Bools) -> list[Lacking]:
    """The forests for an order of S features; none is for a lack of what has gaps (S,) in training."""
    places, lengths = np.flatnonzero(~gaps).tolist(), sorted({*range(2, min(S, _SHORT) + 1), S})
    single = [((place,), lengths) for place in places if place < _SINGLE]
    pairs = combinations([place for place in places if place < _PAIRED], 2)
    both = [*single, *((pair, sorted({min(S, _PAIR), S})) for pair in pairs)]
    return [(length, lost) for lost, several in both for length in several if length > lost[-1] + 1]


@dataclass(frozen=True, eq=False)
class Reduced(Stored):
    """F forests of T trees on all rows, each with some features of the order, `lacking` (F,); K classes.

    Of the states 0 … S of the chain and these forests: what each `reads` (S + 1 + F, S), and its log `loss` on unseen
    rows; `masked_loss`: that of the masked forest. `blends` (F,) calibrate each with the one before it that lacks the
    same, or are empty.
    """

    lacking: Sequence[Lacking]
    forests: Nodes
    reads: Bools
    loss: F64
    masked_loss: float
    blends: Sequence[Blend]

    @classmethod
    def of(cls, S: int, lacking: Sequence[Lacking], forests: Nodes) -> Self:
        """Not calibrated: the loss is the less, the more features are read."""
        without = [
            np.isin(np.arange(S), lost, invert=True) & (np.arange(S) < length)
            for length, lost in lacking
        ]
        reads = np.concatenate((np.tri(S + 1, S, -1, dtype=bool), without))
        return cls(lacking, forests, reads, -reads.sum(axis=1, dtype=np.float64), np.inf, [])

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
        F = len(self.lacking)
        P = self.forests.shares(rows, np.full(len(rows), k + 1, dtype=np.int32), F)
        P += (self.forests.prior / 2 - P / 2) / (len(self.forests.roots) // F + 0.5)
        return P

    def calibrated(self, P: F64, y: np.ndarray, weight: np.ndarray, *losses: float) -> Self:
        """With blends fitted on `shares` P (n, F, K) of unseen rows; `losses`: of the masked forest, of the states."""
        parts = [[P[:, one] for one in self._blended(k)] for k in range(len(self.lacking))]
        blends = [Blend.fit(part, y, weight) for part in parts]
        own = [
            mean_loss(blend.apply(part), y, weight)
            for blend, part in zip(blends, parts, strict=True)
        ]
        return replace(
            self, loss=np.array([*losses[1:], *own]), masked_loss=losses[0], blends=blends
        )

    def _blended(self, k: int) -> list[int]:
        return [k, k - 1] if k and self.lacking[k - 1][1] == self.lacking[k][1] else [k]


def mean_loss(P: F64, y: np.ndarray, weight: np.ndarray) -> float:
    """The weighted mean log loss of probabilities P (n, K) > 0 for the classes y (n,)."""
    return float(np.average(-np.log(P[np.arange(len(y)), y]), weights=weight))


@dataclass(frozen=True, eq=False)
class Chain(Stored):
    """S forests over the columns of `order` (S,): that of state s >= 1 reads the first s of them; K classes.

    In state 0 the answer is their prior. `blends` calibrate the states 1 … S, or are empty: each takes its own forest
    and some just before it, which are there anyway and err elsewhere. `gaps` (S,) marks columns that had missing values
    in training, so that their forests know what a missing value means. Where another column is missing, a state without
    it or one of the `reduced` forests answers, or `masked`, one forest of rows with random gaps, calibrated by
    `masked_curve`, if too many are missing. `orders` ranks categories; `n_features` are the columns of a row.
    """

    can_settle: ClassVar[bool] = False
    order: Indices
    n_features: int
    forests: Nodes
    blends: Sequence[Blend]
    gaps: Bools
    masked: Nodes
    masked_curve: StageCurve | None
    orders: Orders
    reduced: Reduced | None = None

    @property
    def columns(self) -> Indices:
        """The features of the order, ascending."""
        return np.sort(self.order)

    def posterior(self, X: F64) -> F64:
        """Calibrated probabilities (n, K) in the last state, of rows (n, m), NaN where missing; checks nothing."""
        return self.answers(self._ordered(X), np.full(len(X), len(self.order), dtype=np.int32))

    def predict(self, X: F64) -> np.ndarray:
        """The most probable class (n,) of rows as in `posterior`, ties to the first."""
        return self.posterior(X).argmax(axis=1)

    def step(self, X: F64, status: Ints, prices: Prices, budget: float | None = None) -> States:
        """The states of n cases (`StepwiseModel.step`).

        A case is in the state of the longest prefix of the order that is known or cannot be had; later features that
        are known count when the prefix reaches them. The next feature is the first that is unknown, or none if that is
        not affordable. O(n (T depth + K^2)).
        """
        X, status, limit = checked(self.n_features, X, status, prices, budget)
        n, m = X.shape
        S, known = len(self.order), status[:, self.order]
        state = np.logical_and.accumulate(known != 0, axis=1).sum(axis=1, dtype=np.int32)
        rows = np.where(known >= 1, self._ordered(X), np.float32(np.nan))
        P = self.answers(rows, state)
        missed = (np.isnan(rows) & (np.arange(S) < state[:, None])).any(axis=1)
        spent, price = np.empty(n), np.empty((n, m))
        spending(status, prices.arrays, len(prices.groups), spent, price)
        order, waiting = np.zeros((n, m), dtype=np.int32), np.zeros((n, m), dtype=np.int32)
        order[:, :S] = self.order[np.argsort(known != 0, axis=1, kind="stable")]
        waiting[:, self.order] = known == 0
        finished, prediction = state == S, P.argmax(axis=1).astype(np.int32)
        following = np.where(finished, -1, np.append(self.order, -1)[state]).astype(np.int32)
        offered = price[np.arange(n), following]  # of the last column where there is none
        following[(following >= 0) & (spent + offered > limit + slack_of(limit))] = -1
        return States(
            waiting, price, order, waiting.sum(axis=1, dtype=np.int32), spent, P, finished.astype(np.int32),
            (finished & missed).astype(np.int32), np.where(finished, prediction, -1), prediction, following,
            np.full(n, np.nan), 1, limit,
        )  # fmt: skip

    def travel(
        self, X: F64, prices: Prices, budget: float | None = None, missing: Bools | None = None
    ) -> Trajectories:
        """Trajectories of n rows (`StepwiseModel.travel`) along the order. O(n S (T depth + K^2)); memory n S K."""
        X, _, limit = checked(
            self.n_features, X, np.zeros(np.shape(X), dtype=np.int32), prices, budget
        )
        free = np.isnan(X) if missing is None else missing
        n, S = len(X), len(self.order)
        asked = np.repeat(self.order[None].astype(np.int32), n, axis=0)
        price, _, reached = chained(asked, free[:, self.order], prices, limit)
        length = reached.sum(axis=1, dtype=np.int32)
        rows = np.where(free[:, self.order], np.float32(np.nan), self._ordered(X))
        P = np.zeros((n, S + 1, len(self.forests.prior)))
        parts: list[F64] = []
        for s in range(int(length.max(initial=0)) + 1):
            state = np.full(n, s, dtype=np.int32)
            parts = [self.shares(rows, state), *parts[: self._depth - 1]]
            P[:, s] = self._calibrated(rows, state, parts)
        resolved = length == S
        return Trajectories.cut(
            np.where(reached, asked, -1), np.where(reached, price, 0.0), free, P, P.argmax(axis=2), length,
            np.where(resolved, length, -1), resolved,
        )  # fmt: skip

    def answers(self, rows: F32, state: I32) -> F64:
        """Calibrated probabilities (n, K) of `rows` (n, S) in the columns of the order, each in its `state` (n,)."""
        return self._calibrated(
            rows, state, [self.shares(rows, state - back) for back in range(self._depth)]
        )

    def shares(self, rows: F32, state: I32) -> F64:
        """What the forest of each row's `state` (n,) says, not calibrated; before the first, the first."""
        return self.forests.shares(rows, np.maximum(state, 1), len(self.order))

    @property
    def _depth(self) -> int:
        return len(self.blends[-1].powers) if self.blends else 1

    def _calibrated(self, rows: F32, state: I32, parts: Sequence[F64]) -> F64:
        """From the `shares` of each row's own state, of the one before, …"""
        P = parts[0].copy()
        for s in np.unique(state).tolist():
            there = np.flatnonzero(state == s)
            if s == 0:
                P[there] = self.forests.prior
            elif self.blends:
                P[there] = self.blends[s - 1].apply(
                    [part[there] for part in parts[: len(self.blends[s - 1].powers)]]
                )
        gaps = np.isnan(rows) & (np.arange(rows.shape[1]) < state[:, None])
        strange = (gaps & ~self.gaps).any(axis=1)
        if strange.any():
            P[strange] = self._without(rows[strange], state[strange], gaps[strange])
        return P

    def _without(self, rows: F32, state: I32, gaps: Bools) -> F64:
        S, P, best = (
            rows.shape[1],
            np.empty((len(rows), len(self.forests.prior))),
            np.full(len(rows), -1),
        )
        if self.reduced is not None:
            best = self.reduced.best((np.arange(S) < state[:, None]) & (~gaps | self.gaps))
        for k in np.unique(best).tolist():
            there = np.flatnonzero(best == k)
            if k < 0:
                P[there] = self._from_masked(rows[there], state[there], gaps[there])
            elif self.reduced is not None and k > S:
                P[there] = self.reduced.answer(rows[there], k - S - 1)
            else:
                P[there] = self.answers(rows[there], np.full(len(there), k, dtype=np.int32))
        return P

    def _from_masked(self, rows: F32, state: I32, gaps: Bools) -> F64:
        unknown = np.arange(rows.shape[1]) >= state[:, None]
        P = self.masked.shares(
            np.where(unknown, np.float32(np.nan), rows), np.ones(len(rows), dtype=np.int32)
        )
        return (
            P if self.masked_curve is None else self.masked_curve.apply(P, state - gaps.sum(axis=1))
        )

    def _ordered(self, X: F64) -> F32:
        """The columns of the order (n, S), categories ranked."""
        return self.orders.apply(X)[:, self.order]


@dataclass(frozen=True, eq=False)
class ChainExperience(Experience):
    """n rows in every state of chains that were grown without them: each is asked for all features in one order."""

    @classmethod
    def of(
        cls,
        P: np.ndarray,
        y: np.ndarray,
        missing: np.ndarray,
        order: Sequence[int],
        n_features: int,
    ) -> Self:
        """From calibrated P (n, S + 1, K), class codes y (n,), and `missing` (n, S) in the columns of `order` (S,)."""
        asked = np.repeat(np.asarray(order, dtype=np.int32)[None], len(y), axis=0)
        length = np.full(len(y), len(order))
        return cls(asked, missing, length, P.astype(np.float32), y, None, n_features)

    def worth(self, B: np.ndarray, prices: Prices, budget: float | None = None) -> Worth:
        """`Experience.worth`; from the last state to the first, the gain of going on is regressed on the stake and its
        square. O(n S K A).
        """
        stake, now = self.valued(B)
        price, paid, reached = chained(self.asked, self.missing, prices, limit_of(budget))
        S = self.asked.shape[1]
        lines = np.zeros((5, self.n_features))  # offset, slope, bend, low, high of each column
        worth = Worth(lines[0], lines[1], lines[3], lines[4], lines[2])
        value = now[:, S]
        for s in range(S - 1, -1, -1):
            on = reached[:, s]
            j, gain = self.asked[0, s], value - now[:, s]
            if on.any():
                lines[:, j] = _quadratic(stake[on, s], gain[on])
            feature = np.full(len(on), j)
            on &= ~worth.stops(feature, price[:, s], stake[:, s])
            value = np.where(on, value - paid[:, s], now[:, s])
        return worth


def _quadratic(z: np.ndarray, gain: np.ndarray) -> tuple[float, float, float, float, float]:
    """Offset, slope and bend of least squares, and the range of z (n,); the mean of few rows, or if z hardly
    varies.
    """
    low, high = float(z.min()), float(z.max())
    if len(z) < FEW or high - low <= 1e-9 * high:
        return float(gain.mean()), 0.0, 0.0, low, high
    x = (z - low) / (high - low)  # numbers of any size are solved alike
    (c0, c1, c2), *_ = np.linalg.lstsq(
        np.stack((np.ones(len(x)), x, x * x), axis=1), gain, rcond=1e-9
    )
    width = high - low
    slope, bend = c1 / width, c2 / (width * width)
    return (
        float(c0 - slope * low + bend * low * low),
        float(slope - 2 * bend * low),
        float(bend),
        low,
        high,
    )
