"""How calibrators are fitted: with scikit-learn and SciPy's solvers, which `calibration` does not
import.

A probability of 0 has no finite log-odds, so probabilities are clipped before the logarithm. A
forest of T trees has no resolution below one vote: its limit is 1/(2 (T + 1)), because with a far
smaller one a few votes of exactly 0 determine the slope. Models without such a `resolution` use the
most likely of `_LIMITS`: naive Bayes ranks correctly far below 1/(n+2), logistic regression with
heavy tails does not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit
from sklearn.isotonic import IsotonicRegression

from payoff.decisions.calibration import (
    MIN_ROWS_OF_CURVE,
    Calibrator,
    Isotonic,
    Multinomial,
    Sigmoid,
)
from payoff.decisions.row_weights import effective_rows, effective_total

_LIMITS = (1e-15, 1e-9, 1e-6, 1e-4)  # and 1/(n+2)
_OFFSET_ROWS = 1.0  # weight of the prior that draws the offsets to 0, in rows
_OPTIONS = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9}


def fit_calibrator(
    method: str,
    P: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    resolution: float = 0.0,
) -> Calibrator:
    """A calibrator by `isotonic` or `sigmoid`; the other arguments as in `fit_sigmoid`."""
    if method == "isotonic":
        return fit_isotonic(P, codes, weights)
    return fit_sigmoid(P, codes, weights, resolution)


def fit_sigmoid(
    P: np.ndarray, codes: np.ndarray, weights: np.ndarray, resolution: float = 0.0
) -> Sigmoid | Multinomial:
    """Platt's sigmoid on log-odds with his smoothed targets, or for three classes or more its
    multinomial form.

    `P` (n, K) are out-of-fold probabilities, `codes` (n,) the true classes 0…K-1, `weights` (n,)
    positive, `resolution` the smallest probability above 0 that the model can give, 0 where there
    is none. A negative slope becomes 0: then the scores have no ranking, and the answer is the
    class shares. In the multinomial form the targets are smoothed by one row that is shared among
    the classes, and the offsets have a normal prior of the weight of one row. O(n K) per step, some
    ten steps, for each limit that is tried. Source: Platt (1999), Probabilistic outputs for support
    vector machines, section 2.2.
    """
    lowest = 1 / (effective_total(weights) + 2)
    vote = resolution / (2 * (1 + resolution))
    limits = (max(lowest, vote),) if resolution else (*_LIMITS, lowest)
    fits = [_limited(P, codes, weights, lowest, limit) for limit in limits]
    rows = np.arange(len(P))
    losses = [-(weights @ np.log(fit.apply(P)[rows, codes])) for fit in fits]
    return fits[int(np.argmin(losses))]


def _limited(
    P: np.ndarray, codes: np.ndarray, weights: np.ndarray, lowest: float, limit: float
) -> Sigmoid | Multinomial:
    """A sigmoid or multinomial form, for probabilities that are clipped at `limit`."""
    if P.shape[1] > 2:
        slope, offsets = _multinomial(np.log(np.maximum(P, limit)), codes, weights)
        return Multinomial(slope, offsets, lowest, limit)
    slope, offset = platt(
        logit(np.clip(P[:, 1], limit, 1 - limit)), codes == 1, weights
    )
    return Sigmoid(np.array([slope]), np.array([offset]), lowest, limit)


def fit_isotonic(P: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Isotonic:
    """Isotonic regression (pool adjacent violators) of "is class k" on the probability of k.

    Arguments as in `fit_sigmoid`. Between two knots the curve is linear. With three classes or
    more, those of fewer than `MIN_ROWS_OF_CURVE` rows share one curve, fitted on the probabilities
    of all classes. O(n K log n K).
    """
    lowest = 1 / (effective_total(weights) + 2)
    K = P.shape[1]
    classes = range(1, 2) if K == 2 else range(K)
    fits = [_rising(P[:, k], codes == k, weights) for k in classes]
    is_rare = (
        effective_rows(weights, codes, K) < MIN_ROWS_OF_CURVE
        if K > 2
        else np.zeros(K, bool)
    )
    rare = np.flatnonzero(is_rare)
    if len(rare):
        pooled = _rising(P.ravel(), np.eye(K)[codes].ravel(), np.repeat(weights, K))
        for k in rare:
            fits[k] = pooled
    return Isotonic(
        tuple(fit.X_thresholds_.astype(np.float64) for fit in fits),
        tuple(np.clip(fit.y_thresholds_, lowest, 1 - lowest) for fit in fits),
    )


def _rising(p: np.ndarray, is_class: np.ndarray, weights: np.ndarray) -> Any:
    return IsotonicRegression().fit(p, is_class.astype(np.float64), weights)


def platt(
    odds: np.ndarray, is_class: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Slope (>= 0) and offset of the most likely sigmoid."""
    # The smoothing counts rows.
    weights = weights * (effective_total(weights) / weights.sum())
    inside, outside = float(weights[is_class].sum()), float(weights[~is_class].sum())
    target = np.where(is_class, (inside + 1) / (inside + 2), 1 / (outside + 2))

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        z = line[0] * odds + line[1]
        gap = weights * (expit(z) - target)
        value = weights @ (np.logaddexp(0.0, z) - target * z)
        return value / len(odds), np.array([gap @ odds, gap.sum()]) / len(odds)

    slope, offsets = _minimum(loss, 1)
    return slope, float(offsets[0])


def _multinomial(
    logs: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Slope (>= 0) and offsets (K,) of the most likely multinomial form, from log probabilities (n,
    K).
    """
    K = logs.shape[1]
    n = effective_total(weights)
    weights = weights / weights.sum()
    target = (np.eye(K)[codes] * n + 1 / K) / (n + 1)

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        Z = log_softmax(line[0] * logs + line[1:], axis=1)
        gap = weights[:, None] * (np.exp(Z) - target)
        penalty = _OFFSET_ROWS / (2 * n) * (line[1:] @ line[1:])
        value = -(weights @ (target * Z).sum(axis=1)) + penalty
        slope_gradient = (gap * logs).sum()
        offset_gradients = gap.sum(axis=0) + _OFFSET_ROWS / n * line[1:]
        return value, np.concatenate(([slope_gradient], offset_gradients))

    return _minimum(loss, K)


def _minimum(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]], offsets: int
) -> tuple[float, np.ndarray]:
    """The slope (>= 0) and so many offsets that minimise `loss`, which returns its value and its
    gradient.
    """
    start = np.append(1.0, np.zeros(offsets))
    bounds = [(0.0, None), *[(None, None)] * offsets]
    line = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=_OPTIONS
    ).x
    return float(line[0]), line[1:]
