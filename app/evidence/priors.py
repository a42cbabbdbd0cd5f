"""Class shares of the population in use, estimated from posteriors alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

_ROUNDS = 200
_CLOSE = 1e-10  # of the shares, between two rounds
_TINY = 1e-300
_WEIGHTLESS = 1e-8
_CHI2_95 = 3.841458820694124  # 95 % quantile of chi-squared with one degree of freedom


@dataclass(frozen=True)
class EstimatedPriors:
    """Class shares and the ends of their 95 % intervals, each float64 (K,), and the p-value of the training shares."""

    priors: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: float


def estimate_priors(P: np.ndarray, trained: np.ndarray) -> EstimatedPriors:
    """The class shares under which posteriors `P` (n, K) are most likely, given those of training `trained` (K,).

    Label shift: only the shares differ from training, and `P` is calibrated for `trained`. Then the likelihood of the
    shares q is the product over rows of `sum_k q_k P_k / trained_k`. Its maximum is the fixed point of the EM of
    Saerens, Latinne and Decaestecker (2002); it is found in few rounds by the constrained Newton method of Wang (2007).
    A class without share in training keeps 0. Intervals are likelihood-ratio intervals along the least favourable
    direction of each share. They contain sampling error only: where `P` is not calibrated they are too narrow. The
    p-value is that of the likelihood-ratio test of the training shares.
    O(rounds n K^2).
    """
    seen = np.flatnonzero(trained > 0)
    R = P[:, seen] / trained[seen]
    R = np.maximum(R / np.maximum(R.max(axis=1, keepdims=True), _TINY), _TINY)
    start = trained[seen] / trained[seen].sum()
    q = _most_likely(R, start)
    ratio = max(2 * float(np.log((R @ q) / (R @ start)).sum()), 0.0)
    p_value = float(chdtrc(len(seen) - 1, ratio)) if len(seen) > 1 else 1.0
    ends = [_likely_range(R, q, k) for k in range(len(seen))]
    priors, low, high = np.zeros((3, len(trained)))
    priors[seen], low[seen], high[seen] = q, [low for low, _ in ends], [high for _, high in ends]
    return EstimatedPriors(priors, low, high, p_value)


def _most_likely(R: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Mixture weights (K,) that maximise `sum(log(R q))`, from the start `q`, which is positive."""
    likelihood = np.log(R @ q).sum()
    for _ in range(_ROUNDS):
        S = R / (R @ q)[:, None]
        aim, step = _newton(S), 1.0
        if aim is None:
            aim = q * S.mean(axis=0)
        better = np.log(np.maximum(R @ aim, _TINY)).sum()
        while better < likelihood and step > 1e-6:
            step /= 2
            better = np.log(np.maximum(R @ (q + step * (aim - q)), _TINY)).sum()
        if better < likelihood:
            break
        moved: np.ndarray = q + step * (aim - q)
        moved = np.maximum(moved * (R / (R @ moved)[:, None]).mean(axis=0), 0)  # a round of EM never does harm
        moved /= moved.sum()
        if np.abs(moved - q).max() < _CLOSE:
            return moved
        q, likelihood = moved, np.log(R @ moved).sum()
    return q


def _newton(S: np.ndarray) -> np.ndarray | None:
    """The weights that maximise the quadratic approximation, non-negative and of sum 1; None where it is singular.

    `S` (n, K) are the components' densities divided by the mixture's.
    """
    from scipy.optimize import nnls  # noqa: PLC0415 - imported with the first request that needs it

    n, K = S.shape
    try:
        L = np.linalg.cholesky(S.T @ S / n + 1e-12 * np.eye(K))
        right: np.ndarray = np.linalg.solve(L, 2 * S.mean(axis=0))
        weight = 1e4 * np.abs(L).max()  # holds the sum at 1
        aim, _ = nnls(np.vstack((L.T, np.full(K, weight))), np.append(right, weight))
    except (np.linalg.LinAlgError, RuntimeError):
        return None
    total = aim.sum()
    return np.asarray(aim / total) if total > 0 else None


def _likely_range(R: np.ndarray, q: np.ndarray, k: int) -> tuple[float, float]:
    """The shares of component k, from least to greatest, that the likelihood ratio does not reject at 5 %."""
    own = R[:, k]
    mixture = R @ q
    active = np.flatnonzero((q > _WEIGHTLESS) & (np.arange(len(q)) != k))
    if not len(active):  # the others have no weight: the one that explains most takes what k gives up
        return min((_ends(mixture, own - R[:, j], float(q[k])) for j in range(len(q)) if j != k), default=(1.0, 1.0))
    # `own` less the combination of the others, of sum 1, that imitates it best: what tells k from them
    S = R[:, active] / mixture[:, None]
    base, others = S[:, 0], S[:, 1:] - S[:, [0]]
    gap = own / mixture - base
    imitation = others @ np.linalg.lstsq(others, gap, rcond=None)[0] if others.shape[1] else 0.0
    return _ends(mixture, (gap - imitation) * mixture, float(q[k]))


def _ends(mixture: np.ndarray, direction: np.ndarray, share: float) -> tuple[float, float]:
    """How far the share of k can move, others giving way along `direction`, until the log-likelihood falls by 1.92."""
    log_likelihood = np.log(mixture).sum()

    def rejected(move: float) -> bool:
        moved = mixture + move * direction
        if (moved <= 0).any():
            return True
        return bool(2 * (log_likelihood - np.log(moved).sum()) > _CHI2_95)

    return share - _reach(rejected, share, -1), share + _reach(rejected, 1 - share, 1)


def _reach(rejected: Callable[[float], bool], limit: float, sign: int) -> float:
    """The greatest move of at most `limit` that is not rejected, within 1e-6."""
    if not rejected(sign * limit):
        return limit
    low, high = 0.0, limit
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if rejected(sign * middle) else (middle, high)
    return low
