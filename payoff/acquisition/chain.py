"""A chain of forests and its stops: each feature of an order adds a forest, trained on all rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar, Self

import numpy as np

from payoff.acquisition.forest import Orders, spending
from payoff.acquisition.nodes import Nodes
from payoff.acquisition.prices import Prices, chained, limit_of, slack_of
from payoff.acquisition.states import States, Trajectories, checked
from payoff.acquisition.stopping import (
    MIN_STATES_OF_LINE,
    Blend,
    Experience,
    StageCurve,
    Worth,
)
from payoff.arrays import F32, F64, I32, Bools, Indices, Ints
from payoff.stored import Stored

Lacking = tuple[int, tuple[int, ...]]
"""What a forest reads: the length of a prefix of the order, and the places (0, 1, …) it lacks."""

# The places up to which a forest lacks a single feature, and a pair of features: where a later
# place lacks its feature, a good state of the chain ends before it.
_PLACES_OF_SINGLE_GAPS = 5
_PLACES_OF_PAIRED_GAPS = 3
# Forests that lack a single feature have a prefix of each length up to this, and of the whole
# order.
_PREFIXES_OF_SINGLE_GAPS = 7
# Forests that lack a pair of features have a prefix of this length, and of the whole order.
_PREFIX_OF_PAIRED_GAPS = 6


def lacking(S: int, gaps: Bools) -> list[Lacking]:
    """The reduced forests for an order of S features; `gaps` (S,) had missing values in training.

    No forest lacks a feature with gaps, as the forests of the chain know what its missing value
    means.
    """
    places = np.flatnonzero(~gaps).tolist()
    lengths = sorted({*range(2, min(S, _PREFIXES_OF_SINGLE_GAPS) + 1), S})
    forests: list[tuple[tuple[int, ...], list[int]]]
    forests = [
        ((place,), lengths) for place in places if place < _PLACES_OF_SINGLE_GAPS
    ]
    lengths_of_pairs = sorted({min(S, _PREFIX_OF_PAIRED_GAPS), S})
    pairs = combinations(
        [place for place in places if place < _PLACES_OF_PAIRED_GAPS], 2
    )
    forests += [(pair, lengths_of_pairs) for pair in pairs]
    return [
        (length, absent)
        for absent, prefixes in forests
        for length in prefixes
        if length > absent[-1] + 1
    ]


@dataclass(frozen=True, eq=False)
class Reduced(Stored):
    """F forests of T trees on all rows, each with some features of the order; K classes.

    `lacking` (F,): what each forest reads. `reads` (S + 1 + F, S): the features that each of the
    states 0 … S of the chain and of these forests reads; `loss` (S + 1 + F,): its log loss on
    unseen rows; `masked_loss`: that of the masked forest. `blends` (F,) calibrate each forest with
    the one before it that lacks the same places, or are empty.
    """

    lacking: Sequence[Lacking]
    forests: Nodes
    reads: Bools
    loss: F64
    masked_loss: float
    blends: Sequence[Blend]

    @classmethod
    def of(cls, S: int, lacking: Sequence[Lacking], forests: Nodes) -> Self:
        """Forests that are not calibrated: the more features one reads, the less its loss."""
        without = [
            np.isin(np.arange(S), absent, invert=True) & (np.arange(S) < length)
            for length, absent in lacking
        ]
        reads = np.concatenate((np.tri(S + 1, S, -1, dtype=bool), without))
        return cls(
            lacking, forests, reads, -reads.sum(axis=1, dtype=np.float64), np.inf, []
        )

    def best(self, available: Bools) -> Ints:
        """What answers each row with features `available` (n, S): the place (n,) in `reads`.

        It is the state or forest of least loss that reads available features only; or -1, the
        masked forest, if that reads less than half of them and has a larger loss. O(n F S).
        """
        unknown = (~available).astype(np.float32) @ self.reads.T.astype(np.float32)
        best = np.where(unknown > 0, np.inf, self.loss).argmin(axis=1)
        few = 2 * self.reads[best].sum(axis=1) < available.sum(axis=1)
        return np.where(few & (self.loss[best] > self.masked_loss), -1, best)

    def answer(self, rows: F32, k: int) -> F64:
        """Calibrated probabilities (n, K) of rows (n, S) from forest k."""
        parts = [self.shares(rows, forest) for forest in self._blended(k)]
        return self.blends[k].apply(parts) if self.blends else parts[0]

    def shares(self, rows: F32, k: int) -> F64:
        """The class shares (n, K) of forest k and of half a tree with the prior.

        The shares of a few trees alone are too close to 0 and 1.
        """
        F = len(self.lacking)
        P = self.forests.shares(rows, np.full(len(rows), k + 1, dtype=np.int32), F)
        P += (self.forests.prior / 2 - P / 2) / (len(self.forests.roots) // F + 0.5)
        return P

    def calibrated(
        self, P: F64, y: np.ndarray, weight: np.ndarray, *losses: float
    ) -> Self:
        """These forests with blends, fitted on `shares` P (n, F, K) of unseen rows.

        `losses`: that of the masked forest, and those of the chain's states 0 … S.
        """
        F = len(self.lacking)
        parts = [[P[:, forest] for forest in self._blended(k)] for k in range(F)]
        blends = [Blend.fit(part, y, weight) for part in parts]
        loss = [
            *losses[1:],
            *(mean_loss(blends[k].apply(parts[k]), y, weight) for k in range(F)),
        ]
        return replace(self, loss=np.array(loss), masked_loss=losses[0], blends=blends)

    def _blended(self, k: int) -> list[int]:
        """The forests of the blend of forest k: itself, and the one before if it lacks the same."""
        if k and self.lacking[k - 1][1] == self.lacking[k][1]:
            return [k, k - 1]
        return [k]


def mean_loss(P: F64, y: np.ndarray, weight: np.ndarray) -> float:
    """The weighted mean log loss of probabilities P (n, K) > 0 for the classes y (n,)."""
    return float(np.average(-np.log(P[np.arange(len(y)), y]), weights=weight))


@dataclass(frozen=True, eq=False)
class Chain(Stored):
    """S forests over the columns of `order` (S,), K classes: state s >= 1 reads s columns.

    In state 0 the answer is the prior. `blends` calibrate the states 1 … S, or are empty: each
    takes the forest of its state and some just before it, which err on other rows. `gaps`
    (S,) marks columns that had missing values in training, so that their forests know what a
    missing value means. Where another column is missing, a state without it or one of the `reduced`
    forests answers, or `masked`, one forest of rows with random gaps, calibrated by `masked_curve`,
    if too many are missing. `orders` ranks categories; `n_features` are the columns of a row.
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
        """Calibrated probabilities (n, K) in the last state; checks nothing.

        X (n, m), NaN where missing.
        """
        return self.answers(
            self._ordered(X), np.full(len(X), len(self.order), dtype=np.int32)
        )

    def predict(self, X: F64) -> np.ndarray:
        """The most probable class (n,) of rows as in `posterior`, ties to the first."""
        return self.posterior(X).argmax(axis=1)

    def step(
        self, X: F64, status: Ints, prices: Prices, budget: float | None = None
    ) -> States:
        """The states of n cases (`StepwiseModel.step`).

        A case is in the state of the longest prefix of the order that is known or cannot be had;
        later features that are known count when the prefix reaches them. The next feature is the
        first that is unknown, or none if that is not affordable. O(n (T depth + K^2)).
        """
        X, status, limit = checked(self.n_features, X, status, prices, budget)
        n, m = X.shape
        S = len(self.order)
        known = status[:, self.order]
        state = np.logical_and.accumulate(known != 0, axis=1).sum(
            axis=1, dtype=np.int32
        )
        rows = np.where(known >= 1, self._ordered(X), np.float32(np.nan))
        P = self.answers(rows, state)
        missed = (np.isnan(rows) & (np.arange(S) < state[:, None])).any(axis=1)
        spent, price = np.empty(n), np.empty((n, m))
        spending(status, prices.arrays, len(prices.groups), spent, price)
        order = np.zeros((n, m), dtype=np.int32)
        waiting = np.zeros((n, m), dtype=np.int32)
        order[:, :S] = self.order[np.argsort(known != 0, axis=1, kind="stable")]
        waiting[:, self.order] = known == 0
        finished = state == S
        prediction = P.argmax(axis=1).astype(np.int32)
        following = np.where(finished, -1, np.append(self.order, -1)[state]).astype(
            np.int32
        )
        # Where no feature follows, this is the price of the last column, which is not read.
        offered = price[np.arange(n), following]
        following[(following >= 0) & (spent + offered > limit + slack_of(limit))] = -1
        return States(
            waiting, price, order, waiting.sum(axis=1, dtype=np.int32), spent, P,
            finished.astype(np.int32), (finished & missed).astype(np.int32),
            np.where(finished, prediction, -1), prediction, following, np.full(n, np.nan), 1, limit,
        )  # fmt: skip

    def travel(
        self,
        X: F64,
        prices: Prices,
        budget: float | None = None,
        missing: Bools | None = None,
    ) -> Trajectories:
        """Trajectories of n rows (`StepwiseModel.travel`) along the order.

        O(n S (T depth + K^2)); memory n S K.
        """
        unknown = np.zeros(np.shape(X), dtype=np.int32)
        X, _, limit = checked(self.n_features, X, unknown, prices, budget)
        free = np.isnan(X) if missing is None else missing
        n, S = len(X), len(self.order)
        features = np.repeat(self.order[None].astype(np.int32), n, axis=0)
        price, _, reached = chained(features, free[:, self.order], prices, limit)
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
            np.where(reached, features, -1), np.where(reached, price, 0.0), free, P,
            P.argmax(axis=2), length, np.where(resolved, length, -1), resolved,
        )  # fmt: skip

    def answers(self, rows: F32, state: I32) -> F64:
        """Calibrated probabilities (n, K) of `rows` (n, S), each in its `state` (n,).

        The columns of `rows` are those of the order.
        """
        parts = [self.shares(rows, state - back) for back in range(self._depth)]
        return self._calibrated(rows, state, parts)

    def shares(self, rows: F32, state: I32) -> F64:
        """The class shares (n, K) by the forest of each row's `state` (n,), not calibrated.

        A state below 1 takes the first forest.
        """
        return self.forests.shares(rows, np.maximum(state, 1), len(self.order))

    @property
    def _depth(self) -> int:
        """How many forests the largest blend takes."""
        return len(self.blends[-1].powers) if self.blends else 1

    def _calibrated(self, rows: F32, state: I32, parts: Sequence[F64]) -> F64:
        """Calibrated probabilities from `parts`: the `shares` in each row's state, the one before,
        …
        """
        P = parts[0].copy()
        for s in np.unique(state).tolist():
            places = np.flatnonzero(state == s)
            if s == 0:
                P[places] = self.forests.prior
            elif self.blends:
                blend = self.blends[s - 1]
                P[places] = blend.apply(
                    [part[places] for part in parts[: len(blend.powers)]]
                )
        gaps = np.isnan(rows) & (np.arange(rows.shape[1]) < state[:, None])
        unexpected = (gaps & ~self.gaps).any(axis=1)
        if unexpected.any():
            P[unexpected] = self._without(
                rows[unexpected], state[unexpected], gaps[unexpected]
            )
        return P

    def _without(self, rows: F32, state: I32, gaps: Bools) -> F64:
        """Calibrated probabilities where a column has `gaps` (n, S), but had none in training."""
        S = rows.shape[1]
        P = np.empty((len(rows), len(self.forests.prior)))
        best = np.full(len(rows), -1)
        if self.reduced is not None:
            best = self.reduced.best(
                (np.arange(S) < state[:, None]) & (~gaps | self.gaps)
            )
        for k in np.unique(best).tolist():
            places = np.flatnonzero(best == k)
            if k < 0:
                P[places] = self._from_masked(rows[places], state[places], gaps[places])
            elif self.reduced is not None and k > S:
                P[places] = self.reduced.answer(rows[places], k - S - 1)
            else:
                P[places] = self.answers(
                    rows[places], np.full(len(places), k, dtype=np.int32)
                )
        return P

    def _from_masked(self, rows: F32, state: I32, gaps: Bools) -> F64:
        """Probabilities of the masked forest, calibrated by the number of known values."""
        unknown = np.arange(rows.shape[1]) >= state[:, None]
        masked = np.where(unknown, np.float32(np.nan), rows)
        P = self.masked.shares(masked, np.ones(len(rows), dtype=np.int32))
        if self.masked_curve is None:
            return P
        return self.masked_curve.apply(P, state - gaps.sum(axis=1))

    def _ordered(self, X: F64) -> F32:
        """The columns of the order (n, S), categories ranked."""
        return self.orders.apply(X)[:, self.order]


@dataclass(frozen=True, eq=False)
class ChainExperience(Experience):
    """n rows in every state of chains that were grown without them.

    All rows acquire all features, in one order.
    """

    @classmethod
    def of(
        cls,
        P: np.ndarray,
        y: np.ndarray,
        missing: np.ndarray,
        order: Sequence[int],
        n_features: int,
    ) -> Self:
        """From calibrated P (n, S + 1, K), class codes y (n,), and the `order` (S,) of features.

        `missing` (n, S) marks missing values in the columns of the order.
        """
        features = np.repeat(np.asarray(order, dtype=np.int32)[None], len(y), axis=0)
        length = np.full(len(y), len(order))
        return cls(features, missing, length, P.astype(np.float32), y, None, n_features)

    def worth(
        self, B: np.ndarray, prices: Prices, budget: float | None = None
    ) -> Worth:
        """`Experience.worth`, by a parabola: O(n S K A).

        From the last state to the first, the gain of going on is regressed on the stake and its
        square.
        """
        stake, benefit = self.valued(B)
        price, paid, reached = chained(
            self.asked, self.missing, prices, limit_of(budget)
        )
        S = self.asked.shape[1]
        parabolas = np.zeros((5, self.n_features))
        offset, slope, bend, low, high = parabolas
        worth = Worth(offset, slope, low, high, bend)  # views: it follows the parabolas
        value = benefit[:, S]
        for s in range(S - 1, -1, -1):
            on = reached[:, s]
            j = self.asked[0, s]
            gain = value - benefit[:, s]
            if on.any():
                parabolas[:, j] = _parabola(stake[on, s], gain[on])
            feature = np.full(len(on), j)
            on &= ~worth.stops(feature, price[:, s], stake[:, s])
            value = np.where(on, value - paid[:, s], benefit[:, s])
        return worth


def _parabola(
    z: np.ndarray, gain: np.ndarray
) -> tuple[float, float, float, float, float]:
    """Offset, slope and bend of least squares, and the range of the stakes z (n,).

    With few rows, or where z hardly varies, it is the mean gain.
    """
    low, high = float(z.min()), float(z.max())
    if len(z) < MIN_STATES_OF_LINE or high - low <= 1e-9 * high:
        return float(gain.mean()), 0.0, 0.0, low, high
    width = high - low
    x = (z - low) / width  # from 0 to 1, so that stakes of any size are solved alike
    powers = np.stack((np.ones(len(x)), x, x * x), axis=1)
    (c0, c1, c2), *_ = np.linalg.lstsq(powers, gain, rcond=1e-9)
    slope = c1 / width
    bend = c2 / (width * width)
    offset = c0 - slope * low + bend * low * low
    return float(offset), float(slope - 2 * bend * low), float(bend), low, high
