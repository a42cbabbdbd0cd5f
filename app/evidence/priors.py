"""Class shares of the population in use, estimated from posteriors alone."""

from __future__ import annotations

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
    priors, low, high = np.zeros((3, len(trained)))
    priors[seen] = q
    low[seen], high[seen] = np.transpose([_likely_range(R, q, k) for k in range(len(seen))])
    return EstimatedPriors(priors, low, high, p_value)


def _most_likely(R: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Mixture weights (K,) that maximise `sum(log(R q))`, from the start `q`, which is positive."""
    from scipy.optimize import nnls  # noqa: PLC0415 - imported with the first request that needs it

    heavy = np.full((1, R.shape[1]), 1e4 * len(R))  # holds the sum at 1
    for _ in range(_ROUNDS):
        S = R / (R @ q)[:, None]
        try:
            aim, _ = nnls(np.vstack((S, heavy)), np.append(np.full(len(R), 2.0), heavy[0, 0]))
        except RuntimeError:  # it found no end
            aim = q
        steps = [q, *(q + 0.5**i * (aim / aim.sum() - q) for i in range(8))]
        moved: np.ndarray = max(steps, key=lambda each: float(np.log(np.maximum(R @ each, _TINY)).sum()))
        moved = moved * (R / (R @ moved)[:, None]).mean(axis=0)  # a round of EM never does harm
        moved /= moved.sum()
        if np.abs(moved - q).max() < _CLOSE:
            return moved
        q = moved
    return q


def _likely_range(R: np.ndarray, q: np.ndarray, k: int) -> tuple[float, float]:
    """The shares of component k, from least to greatest, that the likelihood ratio does not reject at 5 %."""
    own, mixture = R[:, k], R @ q
    active = np.flatnonzero((q > _WEIGHTLESS) & (np.arange(len(q)) != k))
    if not len(active):  # the others have no weight: the one that explains most takes what k gives up
        ends = [_ends((own - R[:, j]) / mixture, float(q[k])) for j in range(len(q)) if j != k]
        return min(ends, default=(1.0, 1.0))
    # `own` less the combination of the others, of sum 1, that imitates it best: what tells k from them
    S = R[:, active] / mixture[:, None]
    base, others = S[:, 0], S[:, 1:] - S[:, [0]]
    gap = own / mixture - base
    imitation = others @ np.linalg.lstsq(others, gap, rcond=None)[0] if others.shape[1] else 0.0
    return _ends(gap - imitation, float(q[k]))


def _ends(direction: np.ndarray, share: float) -> tuple[float, float]:
    """How far the share of k can move, until the log-likelihood falls by 1.92; a move of 1 changes the densities (n,)
    of the cases by these factors, less 1.
    """
    return share - _reach(-direction, share), share + _reach(direction, 1 - share)


def _reach(direction: np.ndarray, limit: float) -> float:
    """The greatest move of at most `limit`, within 1e-6."""
    low, high, move = 0.0, limit, limit
    while high - low > 1e-6:
        moved = 1 + move * direction
        is_rejected = bool((moved <= 0).any()) or -2 * np.log(moved).sum() > _CHI2_95
        low, high = (low, move) if is_rejected else (move, high)
        move = (low + high) / 2
    return low
