"""Sums of exponentials that stand for a power: Σ_j w_j exp(-a t_j) ≈ a^-power, for all a in an interval at once.

The trapezoid rule in x = log t for a^-power = Γ(power)^-1 ∫ t^(power-1) e^(-at) dt. Its relative error is periodic in
log a, and by Poisson's summation formula at most 2 Σ_m |Γ(power + 2πi m/h)| / Γ(power): 2e-16 for h = 1/4. The
infinitely many nodes below t = 1/high, where exp(-at) is nearly a polynomial, are folded into the few nodes of their
own Gauss rule. An expectation of a ratio, computed with such a sum in place of 1/a, is off by at most the same
relative error whatever the distribution, since the sum replaces 1/a outcome by outcome.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import gammaincc, loggamma

STEP = 0.25  # 0.27 would already cost 2e-15
TAIL_POINTS = 7  # error 1/(2·7)! · 16^-7 of the part below t = 1/high
LAST = 40.0  # the upper cut: e^-40 = 4e-18
LANES = 8  # kernels loop over nodes; a multiple of the vector width needs no remainder loop


@dataclass(frozen=True)
class ExponentialSum:
    """`t`, `w` ascending in t, padded with weight 0, and the guaranteed relative error."""

    t: np.ndarray
    w: np.ndarray
    error: float


def exponential_sum(power: float, low: float, high: float) -> ExponentialSum:
    """Nodes and weights for a^-power on 0 < low <= a <= high; O(log(high/low)) nodes, about 85 at high/low = 1e6."""
    start = 1.0 / high
    steps = math.ceil(math.log(LAST * high / low) / STEP)
    grid = np.exp(STEP * np.arange(steps + 1))
    tail, tail_weights, tail_error = _tail(power)
    t = start * np.concatenate([tail, grid])
    scaled = np.concatenate([tail_weights, STEP * grid**power]) / math.gamma(power)
    padding = -len(t) % LANES
    cut = float(gammaincc(power, low * t[-1]))
    t = np.concatenate([t, np.full(padding, t[-1])])
    w = np.concatenate([start**power * scaled, np.zeros(padding)])
    return ExponentialSum(t, w, _aliasing(power) + tail_error + cut)


@lru_cache
def _aliasing(power: float) -> float:
    orders = power + 2j * np.pi / STEP * np.arange(1, 4)
    return float(2.1 * np.exp(loggamma(orders).real).sum() / math.gamma(power))


@lru_cache
def _tail(power: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Gauss's rule for the masses h e^(-i h power) at e^(-i h), i = 1, 2, …, by Stieltjes's procedure."""
    x = np.exp(-STEP * np.arange(1, math.ceil(LAST / (STEP * power))))
    mass = STEP * x**power
    before, now = np.zeros_like(x), np.ones_like(x)
    squares, diagonal = [float(mass.sum())], []
    for _ in range(TAIL_POINTS):
        diagonal.append(float((mass * now**2 * x).sum()) / squares[-1])
        beta = squares[-1] / squares[-2] if len(squares) > 1 else 0.0
        before, now = now, (x - diagonal[-1]) * now - beta * before
        squares.append(float((mass * now**2).sum()))
    off = np.sqrt(np.array(squares[1:TAIL_POINTS]) / np.array(squares[: TAIL_POINTS - 1]))
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), off)
    error = squares[-1] / math.factorial(2 * TAIL_POINTS) / math.gamma(power) + math.exp(-LAST)
    return nodes, squares[0] * vectors[0] ** 2, error
