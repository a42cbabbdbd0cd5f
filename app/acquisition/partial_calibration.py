"""Probabilities that mean what they say also where only a part of the features is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_RIDGE = 10.0  # rows that speak for no factor
_SMALLEST = 1e-3  # of a forest's share that is told from none; pure leaves have many zeros
_FREEDOM = 30.0  # inverse ridge of the curves: after few questions shares hardly differ, and mean much by it


@dataclass(frozen=True, eq=False)
class StageCurve:
    """Multinomial logistic curves on the forest's log probabilities, bent by how much is known.

    `weights` (F, K) and `offset` (K,) act on the log probabilities (centred), the same times the share of the usual
    questions that are answered, and this share; `typical` is the usual number of questions; probabilities stay above
    `lowest`, as a finite number of rows cannot prove that something never happens.
    """

    weights: np.ndarray
    offset: np.ndarray
    typical: float
    lowest: float

    @classmethod
    def fit(cls, P: np.ndarray, known: np.ndarray, y: np.ndarray, weight: np.ndarray, typical: float) -> StageCurve:
        """From states: P (N, K), `known` (N,) features each, true class codes y (N,), weights (N,). O(N K^2)."""
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - 80 MB that applying it can spare

        K = P.shape[1]
        model = LogisticRegression(C=_FREEDOM, max_iter=1000).fit(_inputs(P, known, typical), y, sample_weight=weight)
        weights, offset = np.zeros((model.coef_.shape[1], K)), np.full(K, -np.inf)
        if len(model.classes_) == 2:
            weights[:, model.classes_[1]] = model.coef_[0]
            offset[model.classes_] = (0.0, model.intercept_[0])
        else:
            weights[:, model.classes_], offset[model.classes_] = model.coef_.T, model.intercept_
        return cls(weights, offset, typical, 1 / (weight.sum() + 2))

    def apply(self, P: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (N, K) for the forest's P (N, K) with `known` (N,) features each."""
        # einsum adds up a row in the same order whatever the number of rows: a batch is its cases, to the last digit
        scores = np.einsum("nf,fk->nk", _inputs(P, known, self.typical), self.weights) + self.offset
        return _probabilities(scores, self.lowest)


@dataclass(frozen=True, eq=False)
class Blend:
    """The product of J forests' probabilities, each to a power, and of a factor for each class.

    `powers` (J,) >= 0, `offset` (K,) the logarithms of the factors; probabilities stay above `lowest`.
    """

    powers: np.ndarray
    offset: np.ndarray
    lowest: float

    @classmethod
    def fit(cls, parts: Sequence[np.ndarray], y: np.ndarray, weight: np.ndarray) -> Blend:
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
            ridge = _RIDGE * parameters[J:]
            gradient = np.concatenate((np.tensordot(logs, wrong, 2), wrong.sum(axis=0) + ridge))
            return float((total - scores[rows, y]) @ weight + 0.5 * ridge @ parameters[J:]), gradient

        from scipy.optimize import minimize  # noqa: PLC0415 - only fitting needs it

        bounds = [(0.0, None)] * J + [(None, None)] * K
        start = np.concatenate((np.full(J, 1 / J), np.zeros(K)))
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(found[:J], found[J:], 1 / (weight.sum() + 2))

    def apply(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Calibrated probabilities (N, K) from the J parts (N, K)."""
        scores = sum((power * _logs(P) for power, P in zip(self.powers, parts, strict=True)), start=self.offset)
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


def _inputs(P: np.ndarray, known: np.ndarray, typical: float) -> np.ndarray:
    logs = _logs(P)
    share = np.minimum(known / typical, 1.0)[:, None]
    return np.concatenate((logs, logs * share, share), axis=1)
