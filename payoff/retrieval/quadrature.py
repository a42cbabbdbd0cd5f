"""Whole curves L_0 … L_n by quadrature: O(nodes n) time, O(n) memory.

The number of nodes grows with the logarithm of the number of items: 48 for a hundred, 80 for a
million. That of a fractional-linear loss grows with the range of its denominator, to at most 208.

The generating function of the number of relevant items, G(s) = Π_i (q_i + p_i s), has E[s^P] =
G(s); 1/a is replaced by a sum of exponentials (`exponential_sum`), so each expectation of a ratio
becomes a weighted sum over the nodes of products over the items, and all k share them through
prefix sums (Natarajan et al. 2016, Table 1, for the losses).

The error that every function returns is a guarantee for each entry of the curve: the relative error
of the exponential sum times the largest value of the ratio, plus rounding. Rounding: each of the n
factors of G is off by at most 3 u (u = 2^-53), each running sum restarts every BLOCK items, and
every term of every sum is positive, so relative errors add: at most
(4 n + 8 min(n, BLOCK) + 4 n/BLOCK + 2 nodes + 64) u. Observed errors are near 1e-15.

Sums of exponentials stand for a power, Σ_j w_j exp(-a t_j) ≈ a^-power, for all a in an interval at
once: the trapezoid rule in x = log t for a^-power = Γ(power)^-1 ∫ t^(power-1) e^(-at) dt. Its
relative error is periodic in log a, and by Poisson's summation formula at most
2 Σ_m |Γ(power + 2πi m/h)| / Γ(power): 2e-16 for h = 1/4. The infinitely many nodes below t =
1/high, where exp(-at) is nearly a polynomial, are folded into the few nodes of their own Gauss
rule. An expectation of a ratio, computed with such a sum in place of 1/a, is off by at most the
same relative error whatever the distribution, since the sum replaces 1/a outcome by outcome.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import gammaincc, loggamma

from payoff.arrays import F64
from payoff.compiled import vector
from payoff.retrieval.losses import Denominator, Loss, denominator

# Items after which running sums and powers start afresh, so that rounding grows with BLOCK + n /
# BLOCK, and not with n.
BLOCK = 1024
CHUNK = 16  # factors multiplied before a logarithm: (e^-40)^16 is still a float
LEAST_FACTOR = 1e-150  # the smallest factor of an item in a node
DEAD = 80.0  # a node whose factor is below e^-80 adds nothing to the sum
STEP = 0.25  # of the trapezoid rule: an error of 2e-16; a step of 0.27 has 2e-15
TAIL_POINTS = 7  # nodes of the part below t = 1/high, with the error 1/(2·7)! · 16^-7
LAST = 40.0  # the rule ends at t = LAST / low, where e^-40 = 4e-18
# kernels loop over nodes; a multiple of the vector width needs no remainder loop
LANES = 8


@dataclass(frozen=True)
class ExponentialSum:
    """`t`, `w` ascending in t, padded with weight 0, and the guaranteed relative error."""

    t: np.ndarray
    w: np.ndarray
    error: float


def exponential_sum(power: float, low: float, high: float) -> ExponentialSum:
    """Nodes and weights for a^-power on 0 < low <= a <= high.

    O(log(high / low)) nodes: 48 where that quotient is 100, 80 where it is a million.
    """
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
    """The relative error of the trapezoid rule."""
    orders = power + 2j * np.pi / STEP * np.arange(1, 4)
    return float(2.1 * np.exp(loggamma(orders).real).sum() / math.gamma(power))


@lru_cache
def _tail(power: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Gauss's rule for the masses h e^(-i h power) at e^(-i h), i = 1, 2, …; and its error.

    By Stieltjes's procedure.
    """
    x = np.exp(-STEP * np.arange(1, math.ceil(LAST / (STEP * power))))
    mass = STEP * x**power
    before, polynomial = np.zeros_like(x), np.ones_like(x)
    squares, diagonal = [float(mass.sum())], []
    for _ in range(TAIL_POINTS):
        diagonal.append(float((mass * polynomial**2 * x).sum()) / squares[-1])
        beta = squares[-1] / squares[-2] if len(squares) > 1 else 0.0
        following = (x - diagonal[-1]) * polynomial - beta * before
        before, polynomial = polynomial, following
        squares.append(float((mass * polynomial**2).sum()))
    off = np.sqrt(
        np.array(squares[1:TAIL_POINTS]) / np.array(squares[: TAIL_POINTS - 1])
    )
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), off)
    error = squares[-1] / math.factorial(2 * TAIL_POINTS) / math.gamma(
        power
    ) + math.exp(-LAST)
    return nodes, squares[0] * vectors[0] ** 2, error


UNIT = 2.0**-53  # the unit roundoff u of a float


@dataclass(frozen=True)
class Curve:
    """L_0 … L_n and the bound on the error of each: guaranteed if `proven`, else observed.

    `windows` has the losses with observed errors.
    """

    values: np.ndarray
    error: float
    proven: bool = True


@dataclass(frozen=True)
class Rates:
    """Expected TPR and TNR of the first k items, k = 0 … n, and the guaranteed error of each."""

    recall: np.ndarray
    specificity: np.ndarray
    error: float


def rounding(n: int, nodes: int = 0) -> float:
    """The guaranteed relative rounding error of a quadrature over n items."""
    block = BLOCK
    return (4 * n + 8 * min(n, block) + 4 * n / block + 2 * nodes + 64) * UNIT


def rates(p: np.ndarray) -> Rates:
    """E[TPR_k] and E[TNR_k] for the items in the order given; O(nodes n)."""
    n = len(p)
    q = 1.0 - p
    rule = exponential_sum(1.0, 1.0, float(max(n, 1)))
    specificity = recalls(q[::-1].copy())[::-1]
    return Rates(recalls(p), specificity, rule.error + 2 * rounding(n, len(rule.t)))


def recalls(p: np.ndarray, first: int | None = None) -> np.ndarray:
    """E[TPR_k], k = 0 … first (all by default), where TPR is 1 if nothing is relevant."""
    shares, _ = _inverse_power_shares(p, 1.0, len(p) if first is None else first)
    values = none_relevant(p) + np.concatenate([[0.0], np.cumsum(shares)])
    possible = np.flatnonzero(p)
    complete = int(possible[-1]) + 1 if len(possible) else 0
    values[complete:] = 1.0
    return np.minimum(values, 1.0)


def none_relevant(p: np.ndarray) -> float:
    """Pr(P = 0) = Π q_i."""
    if np.any(p == 1.0):
        return 0.0
    return float(np.exp(np.log1p(-p).sum()))


def am_curve(p: np.ndarray, _loss: Loss, _empty: int) -> Curve:
    """1 - (E[TPR_k] + E[TNR_k]) / 2, additive over the items."""
    expected = rates(p)
    return Curve(1 - (expected.recall + expected.specificity) / 2, expected.error)


def f_beta_curve(p: np.ndarray, loss: Loss, empty: int) -> Curve:
    """1 - (1 + b²) ∫ e^(-kt) G(s) Σ_{i<=k} p_i s / (q_i + p_i s) dt with s = e^(-b² t)."""
    square = loss.square
    n = len(p)
    q = 1.0 - p
    rule = exponential_sum(1.0, 1.0 + square, n * (1.0 + square))
    s = np.exp(-square * rule.t)
    live, weights = _weights(p, q, s, (1.0 + square) * rule.w)
    sums = np.empty(n)
    f_beta_sums(p, q, rule.t[live], s[live], weights, sums)
    return Curve(
        _with_nothing(p, 1 - sums, empty), rule.error + rounding(n, len(rule.t))
    )


def jaccard_curve(p: np.ndarray, _loss: Loss, empty: int) -> Curve:
    """1 - (Σ_{i<=k} p_i) ∫ e^(-kt) Π_{i>k} (q_i + p_i s) dt with s = e^(-t)."""
    n = len(p)
    q = 1.0 - p
    rule = exponential_sum(1.0, 1.0, float(n))
    s = np.exp(-rule.t)
    blocks = _block_logs(p, q, s)
    suffix = np.cumsum(blocks[::-1], axis=0)[::-1].copy()
    sums = np.empty(n)
    jaccard_sums(p, q, rule.t, s, rule.w, suffix, sums)
    values = 1 - np.cumsum(p) * sums
    return Curve(
        _with_nothing(p, values, empty), rule.error + 2 * rounding(n, len(rule.t))
    )


def g_tp_pr_curve(p: np.ndarray, _loss: Loss, empty: int) -> Curve:
    """1 - k^-1/2 Σ_{i<=k} E[y_i P^-1/2]."""
    n = len(p)
    shares, error = _inverse_power_shares(p, 0.5, n)
    values = 1 - np.cumsum(shares) / np.sqrt(np.arange(1, n + 1))
    return Curve(_with_nothing(p, values, empty), error + 2 * rounding(n))


def auc_curve(p: np.ndarray, _loss: Loss, _empty: int) -> Curve:
    """(1/n) E[FP FN / P + FP FN / (n - P)].

    FP and FN count different items, so both integrands are products.
    """
    n = len(p)
    q = 1.0 - p
    rule = exponential_sum(1.0, 1.0, float(n))
    s = np.exp(-rule.t)
    values = np.zeros(n)
    for inner, outer, swapped in ((p, q, False), (q, p, True)):
        live, weights = _weights(inner, outer, s, rule.w)
        totals = np.empty(int(live.sum()))
        if swapped:  # Σ_i q_i / (q_i + p_i s): the items of label 0 under the tilt
            tilted_totals(outer, inner, 1.0 / s[live], totals)
        else:
            tilted_totals(inner, outer, s[live], totals)
        auc_sums(inner, outer, s[live], weights, totals, swapped, values)
    curve = np.concatenate([[0.0], np.clip(values / n, 0.0, None)])
    curve[n] = 0.0
    return Curve(curve, rule.error + 4 * rounding(n, len(rule.t)))


def fractional_linear_curve(p: np.ndarray, loss: Loss, empty: int) -> Curve:
    """E[numerator / denominator] = ∫ E[numerator e^(-t denominator)] dt.

    For each k the integrand is a product over the items.
    """
    n = len(p)
    q = 1.0 - p
    form = denominator(loss, n)
    rule = exponential_sum(1.0, form.low, form.high)
    values, logs, means = np.zeros(n + 1), np.empty(n + 1), np.empty(n + 1)
    k = np.arange(n + 1)
    # What a relevant item adds to the denominator: one that is retrieved, one that is not.
    gains = np.array([form.d[1] + form.d[3], form.d[3]])
    floors = (
        form.d[0] * n
        + form.d[2] * k
        + k * min(gains[0], 0.0)
        + (n - k) * min(gains[1], 0.0)
    )
    c = np.array([form.c[0] * n, form.c[2], form.c[1] + form.c[3], form.c[3]])
    for t, w in zip(rule.t, rule.w, strict=True):
        # A node where an item has the least factor adds nothing; smaller ones make products
        # denormal.
        factors = np.exp(-np.minimum(t * np.abs(gains), -np.log(LEAST_FACTOR)))
        low = np.where(gains > 0, 1.0, factors)
        high = np.where(gains > 0, factors, 1.0)
        tilt = np.array([low[0], high[0], low[1], high[1]])
        fractional_node(
            p, q, t, w, np.maximum(floors, 0.0), tilt, c, logs, means, values
        )
    values += empty * _vanishing_mass(p, form)
    error = rule.error + 4 * rounding(n, len(rule.t)) + 8 * form.cancels * UNIT
    return Curve(values, form.largest * error)


def _vanishing_mass(p: np.ndarray, form: Denominator) -> np.ndarray:
    """For each k, the probability of the outcomes where numerator and denominator vanish."""
    n = len(p)
    k = np.arange(n + 1)
    mass = none_relevant(p) * form.vanishes(0, k, 0)
    mass = mass + none_relevant(1.0 - p) * form.vanishes(k, k, n) * (n > 0)
    for size, tp in ((0, 0), (n, n)):
        if form.vanishes(0, size, 0) and form.vanishes(tp, size, n):
            mass[size] = 1.0
    return np.asarray(mass)


def _with_nothing(p: np.ndarray, values: np.ndarray, empty: int) -> np.ndarray:
    """Put L_0 in front: a loss of 1 unless nothing is relevant, which costs `empty`."""
    return np.concatenate([[1.0 - (1 - empty) * none_relevant(p)], values])


def _block_logs(p: np.ndarray, q: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The logarithms (blocks, nodes) of the products that `log_block_products` writes."""
    logs = np.empty((-(-len(p) // BLOCK), len(s)))
    log_block_products(p, q, s, logs)
    return logs


def _weights(
    p: np.ndarray, q: np.ndarray, s: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The nodes at which G is not negligible, and w G(s) there."""
    logs = _block_logs(p, q, s).sum(axis=0)
    live = logs > -DEAD
    live[0] = True
    return live, w[live] * np.exp(logs[live])


def _inverse_power_shares(
    p: np.ndarray, power: float, first: int
) -> tuple[np.ndarray, float]:
    """E[y_i P^-power] of the first items, and the relative error of each."""
    n = len(p)
    q = 1.0 - p
    rule = exponential_sum(power, 1.0, float(max(n, 1)))
    s = np.exp(-rule.t)
    live, weights = _weights(p, q, s, rule.w)
    shares = np.empty(first)
    additive_values(p[:first], q[:first], s[live], weights, shares)
    return shares, rule.error + rounding(n, len(rule.t))


BY_QUADRATURE: dict[str, Callable[[np.ndarray, Loss, int], Curve]] = {
    "f_beta": f_beta_curve,
    "jaccard": jaccard_curve,
    "am": am_curve,
    "g_tp_pr": g_tp_pr_curve,
    "auc": auc_curve,
    "fractional_linear": fractional_linear_curve,
}
"""The curve of each loss; those of G-Mean and H-Mean are in `windows`, that of
MCC is in `dynamic_programming`.
"""


@vector
def log_block_products(p: F64, q: F64, s: F64, out: F64) -> None:
    """out[b, j] = log Π (q_i + p_i s_j) over the items of block b."""
    product = np.empty(s.size)
    for b in range(out.shape[0]):
        out[b, :] = 0.0
        last = min((b + 1) * BLOCK, p.size)
        for lo in range(b * BLOCK, last, CHUNK):
            product[:] = 1.0
            for i in range(lo, min(lo + CHUNK, last)):
                pi, qi = p[i], q[i]
                for j in range(s.size):
                    product[j] *= qi + pi * s[j]
            for j in range(s.size):
                out[b, j] += np.log(product[j])


@vector
def f_beta_sums(p: F64, q: F64, t: F64, s: F64, weights: F64, out: F64) -> None:
    """out[k - 1] = Σ_j weights_j e^(-k t_j) Σ_{i<=k} p_i s_j / (q_i + p_i s_j), k = 1 … n."""
    decay = np.exp(-t)
    base, local, power = np.zeros(t.size), np.empty(t.size), np.empty(t.size)
    alive = t.size
    for lo in range(0, p.size, BLOCK):
        while alive > 1 and lo * t[alive - 1] > DEAD:
            alive -= 1
        for j in range(alive):
            local[j] = 0.0
            power[j] = weights[j] * np.exp(-lo * t[j])
        for i in range(lo, min(lo + BLOCK, p.size)):
            pi, qi, total = p[i], q[i], 0.0
            for j in range(alive):
                tilted = pi * s[j]
                local[j] += tilted / (qi + tilted)
                power[j] *= decay[j]
                total += power[j] * (base[j] + local[j])
            out[i] = total
        for j in range(alive):
            base[j] += local[j]


@vector
def jaccard_sums(
    p: F64, q: F64, t: F64, s: F64, weights: F64, log_suffix: F64, out: F64
) -> None:
    """out[k - 1] = Σ_j weights_j e^(-k t_j) Π_{i>k} (q_i + p_i s_j), k = 1 … n.

    log_suffix[b] is the logarithm of the product over all items from block b on.
    """
    decay = np.exp(-t)
    power = np.empty(t.size)
    alive = t.size
    for b in range(log_suffix.shape[0]):
        lo = b * BLOCK
        while alive > 1 and lo * t[alive - 1] - log_suffix[b, alive - 1] > DEAD:
            alive -= 1
        for j in range(alive):
            power[j] = weights[j] * np.exp(log_suffix[b, j] - lo * t[j])
        for i in range(lo, min(lo + BLOCK, p.size)):
            pi, qi, total = p[i], q[i], 0.0
            for j in range(alive):
                power[j] *= decay[j] / (qi + pi * s[j])
                total += power[j]
            out[i] = total


@vector
def additive_values(p: F64, q: F64, s: F64, weights: F64, out: F64) -> None:
    """out[i] = p_i Σ_j weights_j s_j / (q_i + p_i s_j)."""
    scaled = weights * s
    for i in range(p.size):
        pi, qi, total = p[i], q[i], 0.0
        for j in range(s.size):
            total += scaled[j] / (qi + pi * s[j])
        out[i] = pi * total


@vector
def tilted_totals(p: F64, q: F64, s: F64, out: F64) -> None:
    """out[j] = Σ_i p_i s_j / (q_i + p_i s_j)."""
    local = np.empty(s.size)
    out[:] = 0.0
    for lo in range(0, p.size, BLOCK):
        local[:] = 0.0
        for i in range(lo, min(lo + BLOCK, p.size)):
            pi, qi = p[i], q[i]
            for j in range(s.size):
                local[j] += pi * s[j] / (qi + pi * s[j])
        for j in range(s.size):
            out[j] += local[j]


@vector
def auc_sums(
    p: F64, q: F64, s: F64, weights: F64, totals: F64, swapped: bool, out: F64
) -> None:
    """out[k - 1] += Σ_j weights_j (Σ_{i<=k} outside) (Σ_{i>k} inside).

    inside = p_i s_j / f and outside = q_i / f with f = q_i + p_i s_j; totals is the sum of `inside`
    over all items. If `swapped`, the first k items contribute `inside`, and the others `outside`.
    """
    inside, outside = np.zeros(s.size), np.zeros(s.size)
    near, far = np.empty(s.size), np.empty(s.size)
    for lo in range(0, p.size, BLOCK):
        near[:] = 0.0
        far[:] = 0.0
        for i in range(lo, min(lo + BLOCK, p.size)):
            pi, qi, total = p[i], q[i], 0.0
            for j in range(s.size):
                inverse = 1.0 / (qi + pi * s[j])
                near[j] += pi * s[j] * inverse
                far[j] += qi * inverse
                a, b = inside[j] + near[j], outside[j] + far[j]
                if swapped:
                    total += weights[j] * a * (totals[j] - b)
                else:
                    total += weights[j] * b * (totals[j] - a)
            out[i] += total
        for j in range(s.size):
            inside[j] += near[j]
            outside[j] += far[j]


@vector
def fractional_node(
    p: F64, q: F64, t: float, weight: float, floors: F64, tilt: F64, c: F64, logs: F64,
    means: F64, out: F64,
) -> None:  # fmt: skip
    """One node of a fractional-linear loss: out[k] += weight E[numerator e^(-t denominator)].

    floors[k] is the least denominator with k retrieved; tilt[0:2] are the factors of an item's
    labels 0 and 1 while it is among the first k, for what it adds above its least, tilt[2:4] after;
    c = (c0 n, c2, c1 + c3, c3).
    """
    n = p.size
    logs[n] = means[n] = 0.0
    for i in range(n - 1, -1, -1):
        factor = q[i] * tilt[2] + p[i] * tilt[3]
        logs[i] = logs[i + 1] + np.log(factor)
        means[i] = means[i + 1] + p[i] * tilt[3] / factor
    log_prefix, mean = 0.0, 0.0
    for k in range(n + 1):
        exponent = log_prefix + logs[k] - t * floors[k]
        if exponent > -DEAD:
            out[k] += (
                weight
                * np.exp(exponent)
                * (c[0] + c[1] * k + c[2] * mean + c[3] * means[k])
            )
        if k < n:
            factor = q[k] * tilt[0] + p[k] * tilt[1]
            log_prefix += np.log(factor)
            mean += p[k] * tilt[1] / factor
