"""The worth of further questions, learnt from rows that the forest did not see, for any matrix.

A forest that stops when the next feature is not worth its price solves a stopping problem. Training
keeps an `Experience`: the states that rows pass through, in forests that were not grown from these
rows, with the probabilities in each state. It does not depend on benefits. When a request brings a
matrix and prices, every row's decision in every state has its benefit, and one pass from the last
state to the first values going on: the gain of a question is the benefit of what happens after it
(asking on as long as that pays) less the benefit of deciding at once. Regressed on what is at
stake, this is the estimate that decides whether a case stops.
Source: Longstaff, Schwartz, "Valuing American options by simulation" (2001), whose regression is by
       time: so it is in a chain of forests, where all cases meet the same states. Elsewhere it is
       by the feature that comes next, so that it also serves cases that begin with other knowledge
       than the rows did. `StageCurve` and `Blend` make probabilities mean what they say also where
       only a part of the features is known.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy

from payoff.acquisition.prices import Prices, limit_of, purchases, slack_of
from payoff.acquisition.states import Trajectories
from payoff.decisions.benefit import decide
from payoff.decisions.calibration import Calibrator
from payoff.stored import Stored

# A feature that comes next in fewer states has no line of its own, but that of all features.
MIN_STATES_OF_LINE = 10.0
_BLOCK = 2_000_000  # states times actions that are in memory together
_RIDGE = 1e-2  # relative, on the slope: a handful of states must not give a steep line


@dataclass(frozen=True, eq=False)
class Worth(Stored):
    """The gain of acquiring each of m features and going on: a line or parabola in the stake.

    The stake is the expected value of knowing the truth at once:
    `min_a sum_i p_i (max_c b[i][c] - b[i][a])`. The gain is `offset[j] + slope[j] s + bend[j] s^2`,
    where s is the stake moved into `[low[j], high[j]]`, the stakes that were fitted; `bend` is None
    for lines. It is at least 0, and at most the stake, which no information can exceed.
    """

    offset: np.ndarray
    slope: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bend: np.ndarray | None = None

    @classmethod
    def line(cls, m: int, slope: float) -> Self:
        """One line through 0, valid for every stake, for each of m features."""
        return cls(np.zeros(m), np.full(m, slope), np.zeros(m), np.full(m, np.inf))

    def gain(self, feature: np.ndarray, stake: np.ndarray) -> np.ndarray:
        """Expected gain >= 0, before the price of the feature itself.

        It is 0 where no truth would change the decision. A line never falls as the stake rises.
        """
        fitted = np.clip(stake, self.low[feature], self.high[feature])
        gain = self.offset[feature] + self.slope[feature] * fitted
        if self.bend is not None:
            gain = gain + self.bend[feature] * fitted * fitted
        gain = np.maximum(gain, 0.0)
        return np.where(stake > 0, np.minimum(gain, stake), 0.0)

    def stops(
        self, feature: np.ndarray, price: np.ndarray, stake: np.ndarray
    ) -> np.ndarray:
        """Where the feature is not worth its price; one that is free is never refused."""
        return (price > 0) & (self.gain(feature, stake) <= price)


@dataclass(frozen=True, eq=False)
class Experience(Stored):
    """The trajectories of n rows through forests grown without them, at the prices of training.

    `asked`, `missing` (n, S) and `length` (n,) as in `Trajectories`; `P` (n, S + 1, K) float32
    calibrated probabilities; `y` (n,) class codes; `curve` calibrates probabilities of unfinished
    cases (None: they already are); `n_features`.
    """

    asked: np.ndarray
    missing: np.ndarray
    length: np.ndarray
    P: np.ndarray
    y: np.ndarray
    curve: "StageCurve | None"
    n_features: int

    def __len__(self) -> int:
        return len(self.y)

    def worth(
        self, B: np.ndarray, prices: Prices, budget: float | None = None
    ) -> Worth:
        """The worth of going on with benefits B (K, A), at `prices`, where a case spends a budget.

        The order of questions stays the one at the prices of training, which is an approximation
        where prices differ. So is passing over a question that the budget does not buy: those after
        it are taken to gain what they gained with its answer. With fewer than `MIN_STATES_OF_LINE`
        affordable questions the worth is that without a budget.
        O(n S (K A + 1)).
        """
        stake, benefit = self.valued(B)
        unlimited = self._backward(stake, benefit, prices, math.inf, None)
        limit = limit_of(budget)
        if math.isinf(limit):
            return unlimited
        return self._backward(
            stake, benefit, prices, limit + slack_of(limit), unlimited
        )

    def _backward(
        self,
        stake: np.ndarray,
        benefit: np.ndarray,
        prices: Prices,
        limit: float,
        fallback: Worth | None,
    ) -> Worth:
        """The lines of all features; `fallback` where too few questions are affordable."""
        price, paid, bought = purchases(self.asked, self.missing, prices, limit)
        sums = _Sums(self.n_features, fallback)
        ahead = np.zeros(
            len(self)
        )  # the gain of going on from the state, less its cost
        for s in range(self.asked.shape[1] - 1, -1, -1):
            on = np.flatnonzero(bought[:, s])
            feature = self.asked[on, s]
            gain = benefit[on, s + 1] + ahead[on] - benefit[on, s]
            sums.add(feature, stake[on, s], gain)
            stopped = sums.worth().stops(feature, price[on, s], stake[on, s])
            ahead[on] = np.where(stopped, 0.0, gain - paid[on, s])
        return sums.worth()

    def valued(self, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stake in each state, and the benefit of deciding there less the largest of the class.

        Both are (n, S + 1).
        """
        states, actions = self.P.shape[1], B.shape[1]
        loss = B.max(axis=1, keepdims=True) - B
        stake, benefit = np.empty(self.P.shape[:2]), np.empty(self.P.shape[:2])
        block = max(1, _BLOCK // (states * actions))
        for start in range(0, len(self), block):
            rows = slice(start, start + block)
            P = self.P[rows].reshape(-1, self.P.shape[2]).astype(np.float64)
            choice = decide(P, -loss).choice.reshape(-1, states)
            stake[rows] = at_stake(P, B).reshape(-1, states)
            benefit[rows] = -loss[self.y[rows, None], choice]
        return stake, benefit


def at_stake(P: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The expected value (n,) of knowing the truth, for P (n, K) and B (K, A).

    It is the expected loss of the best action. A benefit that all actions have for a class does not
    enter, so that differences between actions are not lost in rounding.
    """
    loss = B.max(axis=1, keepdims=True) - B
    stake: np.ndarray = (P @ loss).min(axis=1)
    rounding = 1e-12 * loss.max(initial=0.0)
    return np.where(stake > rounding, stake, 0.0)


def stopping_states(
    trajectories: Trajectories,
    worths: Sequence[tuple[np.ndarray, Worth]],
    matrix: np.ndarray,
    probabilities: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """The state (n,) in which each row stops, as the next feature is not worth its price.

    `worths` are matrices (K, A), each with its worth of asking; `matrix` (n,) is the number of the
    one by which a row stops. `probabilities` are those of `state_probabilities` for P, known and
    finished.
    """
    n, S = trajectories.asked.shape
    states = np.broadcast_to(np.arange(S), (n, S))
    stops = np.ones((n, S + 1), dtype=bool)
    for number, (B, worth) in enumerate(worths):
        open_states = (states < trajectories.length[:, None]) & (matrix == number)[
            :, None
        ]
        unfinished = np.zeros(int(open_states.sum()), dtype=bool)
        P = probabilities(
            trajectories.P[:, :S][open_states], states[open_states], unfinished
        )
        feature, price = (
            trajectories.asked[open_states],
            trajectories.price[open_states],
        )
        stops[:, :S][open_states] = worth.stops(feature, price, at_stake(P, B))
    ends: np.ndarray = np.minimum(stops.argmax(axis=1), trajectories.length)
    return ends


class _Sums:
    """Running sums of a line through (stake, gain) for each of m features.

    `fallback` is the worth where all features together have too few states for a line.
    """

    def __init__(self, m: int, fallback: Worth | None) -> None:
        self._m = m
        self._fallback = fallback
        self._sums = np.zeros((5, m))
        self._low, self._high = np.full(m, np.inf), np.full(m, -np.inf)

    def add(self, feature: np.ndarray, stake: np.ndarray, gain: np.ndarray) -> None:
        weights = (np.ones(len(feature)), stake, gain, stake * stake, stake * gain)
        self._sums += [
            np.bincount(feature, weight, minlength=self._m) for weight in weights
        ]
        np.minimum.at(self._low, feature, stake)
        np.maximum.at(self._high, feature, stake)

    def worth(self) -> Worth:
        count, stake, gain = self._sums[:3].sum(axis=1).tolist()
        if count < MIN_STATES_OF_LINE:
            if self._fallback is not None:
                return self._fallback
            # Too few states for a line: the share that they gained of all that was at stake.
            share = min(max(gain, 0.0) / stake, 1.0) if stake > 0 else 0.0
            return Worth.line(self._m, share)
        offset, slope = _line(self._sums)
        pooled_offset, pooled_slope = _line(self._sums.sum(axis=1, keepdims=True))
        rare = self._sums[0] < MIN_STATES_OF_LINE
        return Worth(
            np.where(rare, pooled_offset, offset),
            np.where(rare, pooled_slope, slope),
            np.where(rare, self._low.min(), self._low),
            np.where(rare, self._high.max(), self._high),
        )


def _line(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offset and slope of least squares from the sums (5, m).

    The slope is at least 0 and at most 1: with twice as much at stake, information is worth no
    less, and the value of perfect information grows by no more than the stake does.
    """
    _, x, y, xx, xy = sums / np.maximum(sums[0], 1.0)
    spread = np.maximum(xx - x * x, 0.0)
    tiny = spread <= 1e-12 * xx
    steepness = (xy - x * y) / np.where(tiny, 1.0, spread * (1 + _RIDGE))
    slope = np.clip(np.where(tiny, 0.0, steepness), 0.0, 1.0)
    return y - slope * x, slope


_PRIOR_ROWS = 10.0  # the weight, in rows, of the ridge on the factors of classes
# a smaller share of a forest counts as this: pure leaves have many zeros
_SMALLEST = 1e-3


@dataclass(frozen=True, eq=False)
class StageCurve(Stored):
    """Multinomial logistic curves on the forest's log probabilities, bent by how much is known.

    `weights` (F, K) and `offset` (K,) act on three kinds of inputs: the log probabilities
    (centred), these times the share of the typical number of questions that are answered, and this
    share; `typical` is that number; probabilities stay above `lowest`, as a finite number of rows
    cannot prove that a class never occurs.
    """

    weights: np.ndarray
    offset: np.ndarray
    typical: float
    lowest: float

    def apply(self, P: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (N, K) for the forest's P (N, K), with `known` (N,) features."""
        # einsum adds up a row in the same order whatever the number of rows: the answers of a batch
        # are those of its cases, to the last digit.
        inputs = stage_inputs(P, known, self.typical)
        scores = np.einsum("nf,fk->nk", inputs, self.weights) + self.offset
        return _probabilities(scores, self.lowest)


@dataclass(frozen=True, eq=False)
class Blend(Stored):
    """The product of J forests' probabilities, each to a power, and of a factor for each class.

    `powers` (J,) >= 0, `offset` (K,) the logarithms of the factors; probabilities stay above
    `lowest`.
    """

    powers: np.ndarray
    offset: np.ndarray
    lowest: float

    @classmethod
    def fit(
        cls, parts: Sequence[np.ndarray], y: np.ndarray, weight: np.ndarray
    ) -> Self:
        """By maximum likelihood from J times P (N, K), class codes y and weights (N,). O(N J K)."""
        J = len(parts)
        n, K = parts[0].shape
        logs = np.stack([_logs(P) for P in parts])
        rows = np.arange(n)

        def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            scores = np.tensordot(parameters[:J], logs, 1) + parameters[J:]
            scores -= scores.max(axis=1, keepdims=True)
            total = np.log(np.exp(scores).sum(axis=1))
            wrong = np.exp(scores - total[:, None])
            wrong[rows, y] -= 1.0
            wrong *= weight[:, None]
            ridge = _PRIOR_ROWS * parameters[J:]
            gradient = np.concatenate(
                (np.tensordot(logs, wrong, 2), wrong.sum(axis=0) + ridge)
            )
            value = (total - scores[rows, y]) @ weight + 0.5 * ridge @ parameters[J:]
            return float(value), gradient

        bounds = [(0.0, None)] * J + [(None, None)] * K
        start = np.concatenate((np.full(J, 1 / J), np.zeros(K)))
        fitted = scipy.optimize.minimize(
            loss, start, jac=True, method="L-BFGS-B", bounds=bounds
        ).x
        return cls(fitted[:J], fitted[J:], 1 / (weight.sum() + 2))

    def apply(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Calibrated probabilities (N, K) from the J parts (N, K)."""
        terms = (power * _logs(P) for power, P in zip(self.powers, parts, strict=True))
        scores = sum(terms, start=self.offset)
        return _probabilities(scores, self.lowest)


def _probabilities(scores: np.ndarray, lowest: float) -> np.ndarray:
    Q: np.ndarray = np.exp(scores - scores.max(axis=1, keepdims=True))
    Q /= Q.sum(axis=1, keepdims=True)
    np.maximum(Q, lowest, out=Q)
    Q /= Q.sum(axis=1, keepdims=True)
    return Q


def _logs(P: np.ndarray) -> np.ndarray:
    logs: np.ndarray = np.log(np.maximum(P, _SMALLEST))
    logs -= logs.mean(axis=1, keepdims=True)
    return logs


def stage_inputs(P: np.ndarray, known: np.ndarray, typical: float) -> np.ndarray:
    """The inputs (N, F) that the weights of a `StageCurve` act on."""
    logs = _logs(P)
    share = np.minimum(known / typical, 1.0)[:, None]
    return np.concatenate((logs, logs * share, share), axis=1)


def state_probabilities(
    P: np.ndarray,
    known: np.ndarray,
    finished: np.ndarray,
    calibrator: Calibrator | None,
    experience: Experience | None,
) -> np.ndarray:
    """Calibrated probabilities (n, K) for a model's P (n, K).

    They are calibrated by the `calibrator` where a case is `finished` (n,), else by the experience
    of states with as many `known` features (n,).
    """
    final = P if calibrator is None else calibrator.apply(P)
    if experience is None or experience.curve is None or finished.all():
        return final
    return np.where(finished[:, None], final, experience.curve.apply(P, known))
