"""What it has been worth to go on asking: learnt from rows that the forest did not see, for any benefit matrix.

A forest that stops when more is not worth its price solves a stopping problem. Training keeps an `Experience`: the
states that rows pass through, none of them grown from these rows, with the probabilities in each. It does not depend on
benefits. When a request brings a matrix and prices, every row's decision in every state has its benefit, and one pass
from the last state to the first values going on: the gain of a question is the benefit of what happens after it (asking
on as long as that pays) less the benefit of deciding now. Regressed on what is at stake, this is the estimate that a
case is judged by.
Source: Longstaff, Schwartz, "Valuing American options by simulation" (2001), whose regression is by time: so it is in a
chain of forests, where all cases meet the same states. Elsewhere it is by the feature that comes next, so that it also
serves cases that begin with other knowledge than the rows did. `StageCurve` and `Blend` make probabilities mean what
they say also where only a part of the features is known.
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

FEW = 10.0  # states in which a feature comes next; with fewer it is taken for any feature
_BLOCK = 2_000_000  # states times actions that are in memory together
_RIDGE = 1e-2  # relative, on the slope: a handful of states must not give a steep line


@dataclass(frozen=True, eq=False)
class Worth(Stored):
    """The gain of asking for a feature and going on from there: a line in the stake, for m features.

    `stake` is the expected value of knowing the truth at once: `min_a sum_i p_i (max_c b[i][c] - b[i][a])`.
    The gain is `offset[j] + slope[j] s + bend[j] s^2`, where s is the stake moved into `[low[j], high[j]]`, the stakes
    that the line was fitted on; it is at least 0, and at most the stake itself, which no information can exceed.
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
        """Expected gain >= 0, before the price of the feature itself; 0 where no truth would change the decision.

        Never falls as the stake rises, without a bend.
        """
        seen = np.clip(stake, self.low[feature], self.high[feature])
        bend = 0.0 if self.bend is None else self.bend[feature] * seen * seen
        gain = np.maximum(self.offset[feature] + self.slope[feature] * seen + bend, 0.0)
        return np.where(stake > 0, np.minimum(gain, stake), 0.0)

    def stops(self, feature: np.ndarray, price: np.ndarray, stake: np.ndarray) -> np.ndarray:
        """Where the feature is not worth its price; one that is free is never refused."""
        return (price > 0) & (self.gain(feature, stake) <= price)


@dataclass(frozen=True, eq=False)
class Experience(Stored):
    """n rows on their way through forests that were grown without them, at the prices of training.

    `asked`, `missing` (n, S) and `length` (n,) as in `Trajectories`; `P` (n, S + 1, K) float32 calibrated
    probabilities; `y` (n,) class codes; `curve` calibrates probabilities of unfinished cases (None: they already are);
    `n_features`.
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

    def worth(self, B: np.ndarray, prices: Prices, budget: float | None = None) -> Worth:
        """What going on is worth with benefits B (K, A), at these prices, where a case may spend `budget`.

        The order of questions stays the one at the prices of training, which is an approximation where prices differ.
        So is passing over a question that the budget does not buy: those after it are taken to gain what they gained
        with its answer. What fewer than ten affordable questions cannot tell is as without a budget.
        O(n S (K A + 1)).
        """
        stake, now = self.valued(B)
        free = self._backward(stake, now, prices, math.inf, None)
        limit = limit_of(budget)
        return (
            free
            if math.isinf(limit)
            else self._backward(stake, now, prices, limit + slack_of(limit), free)
        )

    def _backward(
        self, stake: np.ndarray, now: np.ndarray, prices: Prices, limit: float, spare: Worth | None
    ) -> Worth:
        price, paid, bought = purchases(self.asked, self.missing, prices, limit)
        sums = _Sums(self.n_features, spare)
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
            stake[rows], now[rows] = (
                at_stake(P, B).reshape(-1, states),
                -loss[self.y[rows, None], choice],
            )
        return stake, now


def at_stake(P: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The expected value (n,) of knowing the truth, for P (n, K) and B (K, A): the expected loss of the best action.

    What every action earns alike for a class does not enter, so that it cannot drown the rest in rounding.
    """
    loss = B.max(axis=1, keepdims=True) - B
    stake: np.ndarray = (P @ loss).min(axis=1)
    return np.where(
        stake > 1e-12 * loss.max(initial=0.0), stake, 0.0
    )  # what rounding leaves is nothing


def stopping_states(
    trajectories: Trajectories,
    worths: Sequence[tuple[np.ndarray, Worth]],
    matrix: np.ndarray,
    probabilities: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """The state (n,) in which each row stops, as more is not worth its price.

    `worths` are matrices (K, A), each with what asking is worth by it, and `matrix` (n,) says by which of them a row
    stops. `probabilities` are those of `state_probabilities` for P, known and finished.
    """
    n, S = trajectories.asked.shape
    states = np.broadcast_to(np.arange(S), (n, S))
    stops = np.ones((n, S + 1), dtype=bool)
    for number, (B, worth) in enumerate(worths):
        asked = (states < trajectories.length[:, None]) & (matrix == number)[:, None]
        unfinished = np.zeros(int(asked.sum()), dtype=bool)
        P = probabilities(trajectories.P[:, :S][asked], states[asked], unfinished)
        stops[:, :S][asked] = worth.stops(
            trajectories.asked[asked], trajectories.price[asked], at_stake(P, B)
        )
    ends: np.ndarray = np.minimum(stops.argmax(axis=1), trajectories.length)
    return ends


class _Sums:
    """Running sums of a line through (stake, gain) for each of m features; `spare` is for what is hardly seen."""

    def __init__(self, m: int, spare: Worth | None) -> None:
        self._m, self._spare = m, spare
        self._sums = np.zeros((5, m))
        self._low, self._high = np.full(m, np.inf), np.full(m, -np.inf)

    def add(self, feature: np.ndarray, stake: np.ndarray, gain: np.ndarray) -> None:
        weights = (np.ones(len(feature)), stake, gain, stake * stake, stake * gain)
        self._sums += [np.bincount(feature, weight, minlength=self._m) for weight in weights]
        np.minimum.at(self._low, feature, stake)
        np.maximum.at(self._high, feature, stake)

    def worth(self) -> Worth:
        count, stake, gain = self._sums[:3].sum(axis=1).tolist()
        if (
            count < FEW
        ):  # too few for a line: the share of all that was at stake that they have gained
            share = min(max(gain, 0.0) / stake, 1.0) if stake > 0 else 0.0
            return self._spare or Worth.line(self._m, share)
        offset, slope = _line(self._sums)
        pooled_offset, pooled_slope = _line(self._sums.sum(axis=1, keepdims=True))
        rare = self._sums[0] < FEW
        return Worth(
            np.where(rare, pooled_offset, offset),
            np.where(rare, pooled_slope, slope),
            np.where(rare, self._low.min(), self._low),
            np.where(rare, self._high.max(), self._high),
        )


def _line(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offset and slope of least squares from the sums (5, m).

    The slope is at least 0 and at most 1: with twice as much at stake, information is worth no less, and the value of
    perfect information grows by no more than the stake does.
    """
    _, x, y, xx, xy = sums / np.maximum(sums[0], 1.0)
    spread = np.maximum(xx - x * x, 0.0)
    tiny = spread <= 1e-12 * xx
    slope = np.clip(
        np.where(tiny, 0.0, (xy - x * y) / np.where(tiny, 1.0, spread * (1 + _RIDGE))), 0.0, 1.0
    )
    return y - slope * x, slope


_PRIOR_ROWS = 10.0  # rows that speak for no factor
_SMALLEST = 1e-3  # of a forest's share that is told from none; pure leaves have many zeros


@dataclass(frozen=True, eq=False)
class StageCurve(Stored):
    """Multinomial logistic curves on the forest's log probabilities, bent by how much is known.

    `weights` (F, K) and `offset` (K,) act on three kinds of inputs: the log probabilities (centred), these times the
    share of the usual questions that are answered, and this share; `typical` is the usual number of questions;
    probabilities stay above `lowest`, as a finite number of rows cannot prove that something never happens.
    """

    weights: np.ndarray
    offset: np.ndarray
    typical: float
    lowest: float

    def apply(self, P: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (N, K) for the forest's P (N, K) with `known` (N,) features each."""
        # einsum adds up a row in the same order whatever the number of rows: a batch is its cases, to the last digit
        scores = (
            np.einsum("nf,fk->nk", stage_inputs(P, known, self.typical), self.weights) + self.offset
        )
        return _probabilities(scores, self.lowest)


@dataclass(frozen=True, eq=False)
class Blend(Stored):
    """The product of J forests' probabilities, each to a power, and of a factor for each class.

    `powers` (J,) >= 0, `offset` (K,) the logarithms of the factors; probabilities stay above `lowest`.
    """

    powers: np.ndarray
    offset: np.ndarray
    lowest: float

    @classmethod
    def fit(cls, parts: Sequence[np.ndarray], y: np.ndarray, weight: np.ndarray) -> Self:
        """By maximum likelihood from J times P (N, K), class codes y (N,) and weights (N,). O(N J K)."""
        J, (n, K) = len(parts), parts[0].shape
        logs, rows = np.stack([_logs(P) for P in parts]), np.arange(n)

        def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            scores = np.tensordot(parameters[:J], logs, 1) + parameters[J:]
            scores -= scores.max(axis=1, keepdims=True)
            total = np.log(np.exp(scores).sum(axis=1))
            wrong = np.exp(scores - total[:, None])
            wrong[rows, y] -= 1.0
            wrong *= weight[:, None]
            ridge = _PRIOR_ROWS * parameters[J:]
            gradient = np.concatenate((np.tensordot(logs, wrong, 2), wrong.sum(axis=0) + ridge))
            return float(
                (total - scores[rows, y]) @ weight + 0.5 * ridge @ parameters[J:]
            ), gradient

        bounds = [(0.0, None)] * J + [(None, None)] * K
        start = np.concatenate((np.full(J, 1 / J), np.zeros(K)))
        found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(found[:J], found[J:], 1 / (weight.sum() + 2))

    def apply(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Calibrated probabilities (N, K) from the J parts (N, K)."""
        scores = sum(
            (power * _logs(P) for power, P in zip(self.powers, parts, strict=True)),
            start=self.offset,
        )
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
    """What the weights of a `StageCurve` act on, (N, F)."""
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
    """Calibrated probabilities (n, K) for a model's P (n, K): by the `calibrator` where a case is `finished` (n,), else
    by the experience of states with as many `known` features (n,).
    """
    final = P if calibrator is None else calibrator.apply(P)
    if experience is None or experience.curve is None or finished.all():
        return final
    return np.where(finished[:, None], final, experience.curve.apply(P, known))
