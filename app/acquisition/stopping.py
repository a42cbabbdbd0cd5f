"""What it has been worth to go on asking: learnt from rows that the forest did not see, for any benefit matrix.

A forest that stops when more is not worth its price solves a stopping problem. Training keeps an `Experience`: the
states that rows pass through, none of them grown from these rows, with the probabilities in each. It does not depend on
benefits. When a request brings a matrix and prices, every row's decision in every state has its benefit, and one pass
from the last state to the first values going on: the gain of a question is the benefit of what happens after it (asking
on as long as that pays) less the benefit of deciding now. Regressed on what is at stake, this is the estimate that a
case is judged by.
Source: Longstaff, Schwartz, "Valuing American options by simulation" (2001), whose regression is by time; here it is by
the feature that comes next, so that it also serves cases that begin with other knowledge than the rows did.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.acquisition.partial_calibration import StageCurve
from app.acquisition.prices import Prices, check_budget
from app.acquisition.session import slack_of
from app.acquisition.trajectories import Trajectories, purchases
from app.decisions.benefit import decide

FEW = 10.0  # states in which a feature comes next; with fewer it is taken for any feature
_BLOCK = 2_000_000  # states times actions that are in memory together
_RIDGE = 1e-2  # relative, on the slope: a handful of states must not give a steep line


@dataclass(frozen=True, eq=False)
class Worth:
    """The gain of asking for a feature and going on from there: a line in the stake, for m features.

    `stake` is the expected value of knowing the truth at once: `min_a sum_i p_i (max_c b[i][c] - b[i][a])`.
    The gain is `offset[j] + slope[j] s + bend[j] s^2`, where s is the stake moved into `[low[j], high[j]]`, the stakes
    that the line was fitted on; it is at least 0. If `bounded`, it is at most the stake itself, which no information
    can exceed.
    """

    offset: np.ndarray
    slope: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bounded: bool
    bend: np.ndarray | None = None

    @classmethod
    def line(cls, m: int, *, offset: float, slope: float, bounded: bool) -> Worth:
        """The same line, valid for every stake, for each of m features."""
        return cls(np.full(m, offset), np.full(m, slope), np.zeros(m), np.full(m, np.inf), bounded)

    def gain(self, feature: np.ndarray, stake: np.ndarray) -> np.ndarray:
        """Expected gain >= 0, before the price of the feature itself; 0 where no truth would change the decision.

        Never falls as the stake rises if `bounded`, without a bend.
        """
        seen = np.clip(stake, self.low[feature], self.high[feature]) if self.bounded else stake
        bend = 0.0 if self.bend is None else self.bend[feature] * seen * seen
        gain = np.maximum(self.offset[feature] + self.slope[feature] * seen + bend, 0.0)
        return np.where(stake > 0, np.minimum(gain, stake) if self.bounded else gain, 0.0)

    def stops(self, feature: np.ndarray, price: np.ndarray, stake: np.ndarray) -> np.ndarray:
        """Where the feature is not worth its price; one that is free is never refused."""
        refused: np.ndarray = (price > 0) & (self.gain(feature, stake) <= price)
        return refused


@dataclass(frozen=True, eq=False)
class Experience:
    """n rows on their way through forests that were grown without them, at the prices of training.

    `asked`, `missing` (n, S) and `length` (n,) as in `Trajectories`; `P` (n, S + 1, K) float32 calibrated
    probabilities; `y` (n,) class codes; `curve` calibrates probabilities of unfinished cases (None: they already are);
    `n_features`. `bounded`: whether the estimated gain keeps to the bounds of `Worth`; models trained before those
    existed keep their lines.
    """

    asked: np.ndarray
    missing: np.ndarray
    length: np.ndarray
    P: np.ndarray
    y: np.ndarray
    curve: StageCurve | None
    n_features: int
    bounded: bool = False

    def __len__(self) -> int:
        return len(self.y)

    def worth(self, B: np.ndarray, prices: Prices, budget: float | None = None) -> Worth:
        """What going on is worth with benefits B (K, A), at these prices, where a case may spend `budget`.

        The order of questions stays the one at the prices of training, which is an approximation where prices differ.
        So is passing over a question that the budget does not buy: those after it are taken to gain what they gained
        with its answer. What fewer than ten affordable questions cannot tell is as without a budget.
        O(n S (K A + 1)).
        """
        return self.fitted(*self.valued(B), prices, budget)

    def fitted(self, stake: np.ndarray, now: np.ndarray, prices: Prices, budget: float | None = None) -> Worth:
        """`worth` from what `valued` returns, or a multiple of it."""
        free = self._backward(stake, now, prices, math.inf, None)
        limit = check_budget(budget)
        return free if math.isinf(limit) else self._backward(stake, now, prices, limit + slack_of(limit), free)

    def ends(self, worth: Worth, stake: np.ndarray, prices: Prices) -> tuple[np.ndarray, np.ndarray]:
        """The state in which each row stops (n,), and what it has paid in each state (n, S + 1)."""
        price, paid, _ = purchases(self.asked, self.missing, prices)
        states = np.arange(self.asked.shape[1] + 1)
        stops = np.broadcast_to(states >= self.length[:, None], stake.shape).copy()
        stops[:, :-1] |= worth.stops(self.asked, price, stake[:, :-1])
        return stops.argmax(axis=1), np.cumsum(np.pad(paid, ((0, 0), (1, 0))), axis=1)

    def error(self, B: np.ndarray) -> float:
        """By how much stopping by `worth` may earn less per case than the better of asking for nothing and for all.

        Two standard errors of what all features gain on these n rows, and 3/n times the largest loss: what no row
        showed may still happen that often (rule of three). In the unit of benefits B (K, A). O(n S K A).
        """
        _, now = self.valued(B)
        gain = now[np.arange(len(self)), self.length] - now[:, 0]
        unseen = 3.0 / len(self) * float(np.ptp(B, axis=1).max())
        return 2.0 * float(gain.std()) / math.sqrt(len(self)) + unseen

    def _backward(self, stake: np.ndarray, now: np.ndarray, prices: Prices, limit: float, spare: Worth | None) -> Worth:
        price, paid, bought = purchases(self.asked, self.missing, prices, limit)
        sums = _Sums(self.n_features, spare, bounded=self.bounded)
        ahead = np.zeros(len(self))  # what going on from the state gains, less what it costs
        for s in range(self.asked.shape[1] - 1, -1, -1):
            on = np.flatnonzero(bought[:, s])
            feature = self.asked[on, s]
            gain = now[on, s + 1] + ahead[on] - now[on, s]
            sums.add(feature, stake[on, s], gain)
            stopped = sums.worth().stops(feature, price[on, s], stake[on, s])
            ahead[on] = np.where(stopped, 0.0, gain - paid[on, s])
        return sums.worth()

    def valued(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is at stake in each state, and what the decision there earns, less the most, each (n, S + 1)."""
        states, actions = self.P.shape[1], B.shape[1]
        loss = B.max(axis=1, keepdims=True) - B
        stake, now = np.empty(self.P.shape[:2]), np.empty(self.P.shape[:2])
        block = max(1, _BLOCK // (states * actions))
        for start in range(0, len(self), block):
            rows = slice(start, start + block)
            P = self.P[rows].reshape(-1, self.P.shape[2]).astype(np.float64)
            choice = decide(P, -loss).choice.reshape(-1, states)
            stake[rows], now[rows] = at_stake(P, B).reshape(-1, states), -loss[self.y[rows, None], choice]
        return stake, now


def at_stake(P: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The expected value (n,) of knowing the truth, for P (n, K) and B (K, A): the expected loss of the best action.

    What every action earns alike for a class does not enter, so that it cannot drown the rest in rounding.
    """
    loss = B.max(axis=1, keepdims=True) - B
    stake: np.ndarray = (P @ loss).min(axis=1)
    return np.where(stake > 1e-12 * loss.max(initial=0.0), stake, 0.0)  # what rounding leaves is nothing


def learn(rows: Trajectories, y: np.ndarray, n_features: int, finish: Callable[[np.ndarray], np.ndarray]) -> Experience:
    """The experience of trajectories to the very end through forests that did not see the rows; y (n,) class codes.

    `finish` makes the probabilities (n, K) of finished rows out of the forests'. Some row must have been asked.
    """
    states = np.arange(rows.P.shape[1])
    before = states < rows.length[:, None]
    known = np.broadcast_to(states, before.shape)[before].astype(np.float64)
    typical = float(rows.length.mean())
    truth = np.repeat(y, before.sum(axis=1))
    # all states have the same weight: weights by the length of a trajectory would let its end tilt the shares at its
    # beginning
    weight = np.full(len(truth), len(rows) / len(truth))
    curve = StageCurve.fit(rows.P[before], known, truth, weight, typical)
    P = np.full(rows.P.shape, 1 / rows.P.shape[2], dtype=np.float32)
    P[before] = curve.apply(rows.P[before], known)
    everyone = np.arange(len(rows))
    P[everyone, rows.length] = finish(rows.P[everyone, rows.length])
    return Experience(rows.asked.astype(np.int16), rows.missing, rows.length, P, y, curve, n_features, bounded=True)


class _Sums:
    """Running sums of a line through (stake, gain) for each of m features; `spare` is for what is hardly seen."""

    def __init__(self, m: int, spare: Worth | None, *, bounded: bool) -> None:
        self._m, self._spare, self._bounded = m, spare, bounded
        self._sums = np.zeros((5, m))
        self._low, self._high = np.full(m, np.inf), np.full(m, -np.inf)

    def add(self, feature: np.ndarray, stake: np.ndarray, gain: np.ndarray) -> None:
        weights = (np.ones(len(feature)), stake, gain, stake * stake, stake * gain)
        self._sums += [np.bincount(feature, weight, minlength=self._m) for weight in weights]
        np.minimum.at(self._low, feature, stake)
        np.maximum.at(self._high, feature, stake)

    def worth(self) -> Worth:
        count, stake, gain = self._sums[:3].sum(axis=1).tolist()
        if count < FEW:  # too few for a line: the share of all that was at stake that they have gained
            share = min(max(gain, 0.0) / stake, 1.0) if stake > 0 else 0.0
            return self._spare or Worth.line(self._m, offset=0.0, slope=share, bounded=self._bounded)
        offset, slope = _line(self._sums, bounded=self._bounded)
        pooled_offset, pooled_slope = _line(self._sums.sum(axis=1, keepdims=True), bounded=self._bounded)
        rare = self._sums[0] < FEW
        return Worth(
            np.where(rare, pooled_offset, offset),
            np.where(rare, pooled_slope, slope),
            np.where(rare, self._low.min(), self._low),
            np.where(rare, self._high.max(), self._high),
            self._bounded,
        )


def _line(sums: np.ndarray, *, bounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """Offset and slope of least squares from the sums (5, m).

    With `bounded` the slope is at least 0 and at most 1: with twice as much at stake, information is worth no less,
    and the value of perfect information grows by no more than the stake does.
    """
    _, x, y, xx, xy = sums / np.maximum(sums[0], 1.0)
    spread = np.maximum(xx - x * x, 0.0)
    tiny = spread <= 1e-12 * xx
    slope = np.where(tiny, 0.0, (xy - x * y) / np.where(tiny, 1.0, spread * (1 + _RIDGE)))
    if bounded:
        slope = np.clip(slope, 0.0, 1.0)
    return y - slope * x, slope
