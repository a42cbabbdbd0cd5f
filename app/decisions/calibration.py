"""Calibrators: maps from a model's probabilities to probabilities that match observed frequencies.

`sigmoid` is Platt's curve for two classes. For more classes it is its multinomial form: one slope for all classes and
an offset for each, so that a class of three rows is calibrated with the slope of all. `isotonic` is a monotone curve
per class, one-vs-rest; a row is divided by its sum. A calibrator fitted on n rows stays within
[1/(n+2), (n+1)/(n+2)]: n cases cannot prove that an event is impossible.

A probability of 0 has no finite log-odds, so probabilities are clipped before the logarithm. A forest of T trees has no
resolution below one vote: its limit is 1/(2 (T + 1)), because with a far smaller one a few votes of exactly 0 determine
the slope. Models without such a `resolution` use the most likely of `_LIMITS`: naive Bayes ranks correctly far beyond
1/(n+2), logistic regression with heavy tails does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, log_softmax, logit, softmax

FEW = 20  # rows of a class with which it has no isotonic curve of its own
_LIMITS = (1e-15, 1e-9, 1e-6, 1e-4)  # and 1/(n+2)
_OFFSET_ROWS = 1.0  # weight of the prior that draws the offsets to 0, in rows
_Bounds = tuple[float | None, float | None]
_OPTIONS = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9}


class Calibrator(Protocol):
    """A fitted calibrator."""

    def apply(self, P: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (n, K) for the model's own (n, K): rows sum to 1; nothing is checked. O(n K)."""
        ...


@dataclass(frozen=True)
class Sigmoid:
    """Platt's curve `1/(1 + exp(-(slope log-odds + offset)))`, slope >= 0, for class 1 of two.

    Probabilities closer to 0 or 1 than `limit` count as `limit`; the answers stay `lowest` away from 0 and 1.
    """

    slopes: np.ndarray
    offsets: np.ndarray
    lowest: float
    limit: float = _LIMITS[0]

    def apply(self, P: np.ndarray) -> np.ndarray:
        Q = P[:, 1:]
        odds = logit(np.minimum(np.maximum(Q, self.limit), 1.0 - self.limit))
        odds *= self.slopes
        odds += self.offsets
        return _joined(np.minimum(np.maximum(expit(odds), self.lowest), 1.0 - self.lowest))


@dataclass(frozen=True)
class Multinomial:
    """Probabilities proportional to `exp(slope log p_k + offset_k)`, slope >= 0, for K >= 3 classes.

    Probabilities below `limit` count as `limit`; the answers are at least about `lowest`.
    """

    slope: float
    offsets: np.ndarray
    lowest: float
    limit: float

    def apply(self, P: np.ndarray) -> np.ndarray:
        Z = np.log(np.maximum(P, self.limit))
        Z *= self.slope
        Z += self.offsets
        return _joined(np.maximum(softmax(Z, axis=1), self.lowest))


def are_constant(P: np.ndarray, models: int) -> bool:
    """Whether probabilities P (n, K) of so many models, each on rows of its own, are those of constant models."""
    return len(np.unique(P, axis=0)) <= models


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


def is_flat(calibrator: Calibrator | None) -> bool:
    """Whether it gives each row the same probabilities: those that it was fitted on ranked nothing."""
    if isinstance(calibrator, Multinomial):
        return calibrator.slope == 0
    if isinstance(calibrator, Isotonic):
        return not any(np.ptp(heights) for heights in calibrator.heights)
    return isinstance(calibrator, Sigmoid) and not calibrator.slopes.any()


def fit_calibrator(
    method: str, P: np.ndarray, codes: np.ndarray, weights: np.ndarray, resolution: float = 0.0
) -> Calibrator:
    """A calibrator by `isotonic` or `sigmoid`; the other arguments as in `fit_sigmoid`."""
    return fit_isotonic(P, codes, weights) if method == "isotonic" else fit_sigmoid(P, codes, weights, resolution)


def fit_sigmoid(
    P: np.ndarray, codes: np.ndarray, weights: np.ndarray, resolution: float = 0.0
) -> Sigmoid | Multinomial:
    """Platt's sigmoid on log-odds with his smoothed targets, or for three classes or more its multinomial form.

    `P` (n, K) are out-of-fold probabilities, `codes` (n,) the true classes 0…K-1, `weights` (n,) positive,
    `resolution` the smallest probability above 0 that the model can give, 0 where there is none. A negative
    slope becomes 0: then the scores have no ranking, and the answer is the class shares. In the multinomial form
    the targets are smoothed by one row that is shared among the classes, and the offsets have a normal prior of the
    weight of one row.
    Platt (1999), Probabilistic outputs for support vector machines, section 2.2. O(n K) per step, some ten steps, for
    each limit that is tried.
    """
    lowest = 1 / (len(P) + 2)
    vote = resolution / (2 * (1 + resolution))
    limits = (max(lowest, vote),) if resolution else (*_LIMITS, lowest)
    fit = _fit_sigmoid if P.shape[1] == 2 else _fit_multinomial
    fits = [fit(P, codes, weights, lowest, limit) for limit in limits]
    losses = [-(weights @ np.log(one.apply(P)[np.arange(len(P)), codes])) for one in fits]
    return fits[int(np.argmin(losses))]


def _fit_sigmoid(P: np.ndarray, codes: np.ndarray, weights: np.ndarray, lowest: float, limit: float) -> Sigmoid:
    slope, offset = _platt(logit(np.clip(P[:, 1], limit, 1 - limit)), codes == 1, weights)
    return Sigmoid(np.array([slope]), np.array([offset]), lowest, limit)


def _fit_multinomial(P: np.ndarray, codes: np.ndarray, weights: np.ndarray, lowest: float, limit: float) -> Multinomial:
    slope, offsets = _multinomial(np.log(np.maximum(P, limit)), codes, weights)
    return Multinomial(slope, offsets, lowest, limit)


def fit_isotonic(P: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Isotonic:
    """Isotonic regression (pool adjacent violators) of "is class k" on the probability of k.

    Arguments as in `fit_sigmoid`; O(n log n) per class. Between two knots the curve is linear. With three classes or
    more, those of fewer than `FEW` rows share one curve, fitted on the probabilities of all classes. O(n K log n K).
    """
    lowest = 1 / (len(P) + 2)
    K = P.shape[1]
    fits = [_rising(P[:, k], codes == k, weights) for k in (range(1, 2) if K == 2 else range(K))]
    rare = np.flatnonzero(np.bincount(codes, minlength=K) < FEW) if K > 2 else ()
    if len(rare):
        pooled = _rising(P.ravel(), np.eye(K)[codes].ravel(), np.repeat(weights, K))
        for k in rare:
            fits[k] = pooled
    return Isotonic(
        tuple(fit.X_thresholds_.astype(np.float64) for fit in fits),
        tuple(np.clip(fit.y_thresholds_, lowest, 1 - lowest) for fit in fits),
    )


def _rising(p: np.ndarray, is_class: np.ndarray, weights: np.ndarray) -> Any:
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415 - applying a calibration needs no scikit-learn

    return IsotonicRegression().fit(p, is_class.astype(np.float64), weights)


def _joined(Q: np.ndarray) -> np.ndarray:
    """Curve values (n, 1) or (n, K), all positive, as rows that sum to 1."""
    if Q.shape[1] == 1:
        return np.concatenate((1.0 - Q, Q), axis=1)
    Q /= Q.sum(axis=1, keepdims=True)
    return Q


def _platt(odds: np.ndarray, is_class: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Slope (>= 0) and offset of the most likely sigmoid."""
    weights = weights * (len(weights) / weights.sum())  # the smoothing counts rows
    inside, outside = float(weights[is_class].sum()), float(weights[~is_class].sum())
    target = np.where(is_class, (inside + 1) / (inside + 2), 1 / (outside + 2))

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        z = line[0] * odds + line[1]
        gap = weights * (expit(z) - target)
        value = weights @ (np.logaddexp(0.0, z) - target * z)
        return value / len(odds), np.array([gap @ odds, gap.sum()]) / len(odds)

    bounds = [(0, None), (None, None)]
    found = _minimum(loss, np.array([1.0, 0.0]), bounds)
    return float(found[0]), float(found[1])


def _multinomial(logs: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Slope (>= 0) and offsets (K,) of the most likely multinomial form, from log probabilities (n, K)."""
    n, K = logs.shape
    weights = weights / weights.sum()
    target = (np.eye(K)[codes] * n + 1 / K) / (n + 1)

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        Z = log_softmax(line[0] * logs + line[1:], axis=1)
        gap = weights[:, None] * (np.exp(Z) - target)
        value = -(weights @ (target * Z).sum(axis=1)) + _OFFSET_ROWS / (2 * n) * (line[1:] @ line[1:])
        return value, np.concatenate(([(gap * logs).sum()], gap.sum(axis=0) + _OFFSET_ROWS / n * line[1:]))

    start = np.concatenate(([1.0], np.zeros(K)))
    bounds = [(0, None), *[(None, None)] * K]
    found = _minimum(loss, start, bounds)
    return float(found[0]), found[1:]


def _minimum(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray, bounds: Sequence[_Bounds]
) -> np.ndarray:
    from scipy.optimize import minimize  # noqa: PLC0415 - 20 MB that applying a calibration can spare

    found: np.ndarray = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=_OPTIONS).x
    return found
