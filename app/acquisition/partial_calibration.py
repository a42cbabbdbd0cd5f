"""Probabilities that mean what they say also where only a part of the features is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

_RIDGE = 10.0  # rows that speak for no factor
_SMALLEST = 1e-3  # of a forest's share that is told from none; pure leaves have many zeros


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
        K = P.shape[1]
        model = LogisticRegression(C=1.0, max_iter=1000).fit(_inputs(P, known, typical), y, sample_weight=weight)
        weights, offset = np.zeros((model.coef_.shape[1], K)), np.full(K, -np.inf)
        if len(model.classes_) == 2:
            weights[:, model.classes_[1]] = model.coef_[0]
            offset[model.classes_] = (0.0, model.intercept_[0])
        else:
            weights[:, model.classes_], offset[model.classes_] = model.coef_.T, model.intercept_
        return cls(weights, offset, typical, 1 / (weight.sum() + 2))

    @classmethod
    def tempered(cls, P: np.ndarray, y: np.ndarray, weight: np.ndarray) -> StageCurve:
        """One exponent for all probabilities P (N, K), and a factor for each class; a few rows bear no more. O(N K)."""
        n, K = P.shape
        logs, rows = _inputs(P, np.zeros(n), 1.0)[:, :K], np.arange(n)

        def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            scores = parameters[0] * logs + parameters[1:]
            scores -= scores.max(axis=1, keepdims=True)
            total = np.log(np.exp(scores).sum(axis=1))
            wrong = np.exp(scores - total[:, None])
            wrong[rows, y] -= 1.0
            wrong *= weight[:, None]
            ridge = _RIDGE * parameters[1:]
            gradient = np.concatenate(([(wrong * logs).sum()], wrong.sum(axis=0) + ridge))
            return float((total - scores[rows, y]) @ weight + 0.5 * ridge @ parameters[1:]), gradient

        found = minimize(
            loss, np.append(1.0, np.zeros(K)), jac=True, method="L-BFGS-B", bounds=[(0.0, None), *[(None, None)] * K]
        ).x
        weights = np.concatenate((found[0] * np.eye(K), np.zeros((K + 1, K))))
        return cls(weights, found[1:], 1.0, 1 / (weight.sum() + 2))

    def apply(self, P: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (N, K) for the forest's P (N, K) with `known` (N,) features each."""
        # einsum adds up a row in the same order whatever the number of rows: a batch is its cases, to the last digit
        scores = np.einsum("nf,fk->nk", _inputs(P, known, self.typical), self.weights) + self.offset
        Q: np.ndarray = np.exp(scores - scores.max(axis=1, keepdims=True))
        Q /= Q.sum(axis=1, keepdims=True)
        np.maximum(Q, self.lowest, out=Q)
        Q /= Q.sum(axis=1, keepdims=True)
        return Q


def _inputs(P: np.ndarray, known: np.ndarray, typical: float) -> np.ndarray:
    logs = np.log(np.maximum(P, _SMALLEST))
    logs -= logs.mean(axis=1, keepdims=True)
    share = np.minimum(known / typical, 1.0)[:, None]
    return np.concatenate((logs, logs * share, share), axis=1)
