"""Laws as windows: the proof that thinning is safe, in numbers, and what equal probabilities do to
rounding.

The proof. Let X be the count, mu its mean, v its variance, m the stride, and f(X) the mean of TPR
and TNR with the other count fixed. f is analytic with |f| <= 1 where hits and misses have a positive
real part (|tp / (tp + fn)| <= 1 there, and so on), so in the disc of radius
rho = min(sum p_i, sum q_i) >= v around mu. The thinned sum is
sum_{j < m} e^(-2 pi i j r / m) E[f(X) e^(i theta_j X)] with theta_j = 2 pi j / m, of which j = 0 is
wanted. Let T_d be f's Taylor polynomial at mu of odd degree d, and A_j the largest modulus of
phi(z) = E e^(z (X - mu)) on |z - i theta_j| = delta.

1. The polynomial part. Cauchy bounds its coefficients by rho^-r and |E[(X - mu)^r e^(i theta_j X)]|
   by r! delta^-r A_j: in all at most sum_{r <= d} r! (rho delta)^-r sum_j A_j, where Bennett's
   inequality bounds |phi| (`alias`).
2. The remainder. |f - T_d| <= (d + 2) (|x - mu| / rho)^(d + 1) on the whole support: inside the disc
   by the maximum principle, outside because |f| <= 1. It adds at most
   (d + 2) rho^-(d + 1) (2 E(X - mu)^(d + 1) + (d + 1)! delta^-(d + 1) sum_j A_j), with
   E(X - mu)^(d + 1) <= (d + 1)! lambda^-(d + 1) e^(v (e^lambda - 1 - lambda)) for every lambda > 0.

With d = 57, delta = 2 / sqrt(v) and the best lambda the sum of both is 6e-19 at v = 144, m = 6, and
falls with v.
"""

import math

import numpy as np
import pytest

from payoff.retrieval import windows
from payoff.retrieval.windows import MeanOfRates
from tests.reference import losses

BITS = 240


def alias(variance, angle, radius):
    """The largest modulus of a centred law's transform on a circle around i angle, whatever its
    probabilities.

    |phi(e + i a)| <= exp(v (e^|e| - 1 - |e|)) (Bennett) times exp(-v e^-|e| (1 - cos a)), from
    |q + p e^(e + i a)|² = (q + p e^e)² - 2 p q e^e (1 - cos a).
    """
    z = 1j * angle + radius * np.exp(1j * np.linspace(0, 2 * np.pi, 721))
    up = np.abs(z.real)
    return float(
        np.exp(
            variance * (np.expm1(up) - up - np.exp(-up) * (1 - np.cos(z.imag)))
        ).max()
    )


def error_of_thinning(variance, stride, degree=57, radius_in_sd=2.0):
    """See the proof above: a polynomial part that the aliases of the law bound, and a
    remainder.
    """
    sd, reach = variance**0.5, variance
    radius = radius_in_sd / sd
    aliases = sum(
        alias(variance, 2 * np.pi * j / stride, radius) for j in range(1, stride)
    )
    inverse = [
        math.exp(math.lgamma(r + 1) - r * math.log(radius * reach))
        for r in range(degree + 2)
    ]
    rates = np.linspace(0.05, 3, 600) * (degree + 1) ** 0.5 / sd
    moment = min(
        math.lgamma(degree + 2)
        - (degree + 1) * math.log(rate * reach)
        + variance * (math.expm1(rate) - rate)
        for rate in rates
    )
    remainder = (degree + 2) * (2 * math.exp(moment) + inverse[-1] * aliases)
    return sum(inverse[:-1]) * aliases + remainder


@pytest.mark.parametrize("stride", range(6, int(windows.GAUSS_FROM**0.5 / 2) + 1))
def test_thinning_is_proven_from_its_variance(stride):
    """Every stride there is, at the least variance that uses it, for both laws at once."""
    variance = max((2.0 * stride) ** 2, windows.PROVEN)

    assert int(math.sqrt(variance) / 2) == stride
    assert 2 * error_of_thinning(variance, stride) < windows.THINNING_ERROR


def binomial(n, p):
    """Binomial law by integers with BITS binary places: the first value and the entries above
    1e-30.
    """
    one = 1 << BITS
    numerator, denominator = p.as_integer_ratio()
    mode = int(n * p)
    law = {mode: one}
    for t in range(mode, n):
        law[t + 1] = (
            law[t] * (n - t) * numerator // ((t + 1) * (denominator - numerator))
        )
        if law[t + 1] < one >> 120:
            break
    for t in range(mode, 0, -1):
        law[t - 1] = law[t] * t * (denominator - numerator) // ((n - t + 1) * numerator)
        if law[t - 1] < one >> 120:
            break
    total = sum(law.values())
    values = np.array(sorted(law))
    return values, np.array([(law[t] << BITS) // total / one for t in values])


@pytest.mark.parametrize("n", [4_000, 30_000])
@pytest.mark.parametrize(
    "loss", [losses.g_mean(), losses.h_mean()], ids=lambda loss: loss.name
)
def test_rounding_does_not_accumulate_over_equal_probabilities(n, loss):
    """1 - p is rounded alike for all of them, so that a law's mass would drift with n."""
    p = np.concatenate([np.full(n, 0.99), np.full(n, 0.01)])
    (tp, front), (fn, back) = binomial(n, 0.99), binomial(n, 0.01)
    table = loss.of_counts(
        tp[:, None], np.array([[n]]), tp[:, None] + fn[None, :], 2 * n
    )
    means = MeanOfRates(p, harmonic=loss.name == "h_mean")
    values, _ = means.losses(np.array([n]))

    assert values[0] == pytest.approx(front @ table @ back, abs=3e-15)
