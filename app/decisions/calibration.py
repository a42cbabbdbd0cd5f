"""Calibrators: maps from a model's probabilities to probabilities that happen as often as they say.

Both kinds are monotone curves, one per class. Two classes need one curve (class 1; class 0 is the rest); with more
classes each class has its own, fitted one against the rest, and a row is divided by its sum. A curve fitted on n rows
stays within [1/(n+2), (n+1)/(n+2)]: n cases cannot prove that something never happens. So a row's sum is never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

_SUREST = 1e-15  # a probability closer to 0 or 1 has no finite log-odds worth fitting


class Calibrator(Protocol):
    """What every fitted calibrator can do."""

    def apply(self, P: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (n, K) for the model's own (n, K): rows sum to 1; nothing is checked. O(n K)."""
        ...


@dataclass(frozen=True)
class Sigmoid:
    """Platt's curves `1/(1 + exp(-(slope log-odds + offset)))`, slopes >= 0; one per class, or one for two classes."""

    slopes: np.ndarray
    offsets: np.ndarray
    lowest: float

    def apply(self, P: np.ndarray) -> np.ndarray:
        Q = P[:, 1:] if len(self.slopes) == 1 else P
        odds = logit(np.minimum(np.maximum(Q, _SUREST), 1.0 - _SUREST))
        odds *= self.slopes
        odds += self.offsets
        return _joined(np.minimum(np.maximum(expit(odds), self.lowest), 1.0 - self.lowest))


@dataclass(frozen=True)
class Isotonic:
    """Rising piecewise linear curves through knots, flat outside; one per class, or one for two classes."""

    knots: tuple[np.ndarray, ...]
    heights: tuple[np.ndarray, ...]

    def apply(self, P: np.ndarray) -> np.ndarray:
        if len(self.knots) == 1:
            out = np.empty_like(P)
            np.subtract(1.0, np.interp(P[:, 1], self.knots[0], self.heights[0]), out[:, 0])
            np.subtract(1.0, out[:, 0], out[:, 1])
            return out
        curves = zip(self.knots, self.heights, strict=True)
        return _joined(np.column_stack([np.interp(P[:, k], *curve) for k, curve in enumerate(curves)]))


def fit_sigmoid(P: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Sigmoid:
    """Platt's sigmoid on log-odds, with his smoothed targets.

    `P` (n, K) are out-of-fold probabilities, `codes` (n,) the true classes 0…K-1, `weights` (n,) positive. A slope
    that would be negative becomes 0: then the scores carry no order, and the curve is the class's share.
    Platt (1999), Probabilistic outputs for support vector machines, section 2.2. O(n K) per step, some ten steps.
    """
    curves = [_platt(logit(np.clip(P[:, k], _SUREST, 1 - _SUREST)), codes == k, weights) for k in _curves(P)]
    slopes, offsets = np.array(curves).T
    return Sigmoid(slopes, offsets, 1 / (len(P) + 2))


def fit_isotonic(P: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Isotonic:
    """Isotonic regression (pool adjacent violators) of "is class k" on the probability of k.

    Arguments as in `fit_sigmoid`; O(n log n) per class. Between two knots the curve is linear.
    """
    lowest = 1 / (len(P) + 2)
    fits = [IsotonicRegression().fit(P[:, k], (codes == k).astype(np.float64), weights) for k in _curves(P)]
    return Isotonic(
        tuple(fit.X_thresholds_.astype(np.float64) for fit in fits),
        tuple(np.clip(fit.y_thresholds_, lowest, 1 - lowest) for fit in fits),
    )


def _curves(P: np.ndarray) -> range:
    """The classes that need a curve."""
    return range(1, 2) if P.shape[1] == 2 else range(P.shape[1])


def _joined(Q: np.ndarray) -> np.ndarray:
    """Curve values (n, 1) or (n, K), all positive, as rows that sum to 1."""
    if Q.shape[1] == 1:
        return np.concatenate((1.0 - Q, Q), axis=1)
    Q /= Q.sum(axis=1, keepdims=True)
    return Q


def _platt(odds: np.ndarray, is_class: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Slope (>= 0) and offset of the likeliest sigmoid."""
    weights = weights * (len(weights) / weights.sum())  # the smoothing counts rows
    inside, outside = float(weights[is_class].sum()), float(weights[~is_class].sum())
    target = np.where(is_class, (inside + 1) / (inside + 2), 1 / (outside + 2))

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        z = line[0] * odds + line[1]
        gap = weights * (expit(z) - target)
        value = weights @ (np.logaddexp(0.0, z) - target * z)
        return value / len(odds), np.array([gap @ odds, gap.sum()]) / len(odds)

    start = np.array([1.0, 0.0])
    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None), (None, None)], options=options)
    return float(found.x[0]), float(found.x[1])
