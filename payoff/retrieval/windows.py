"""G-Mean and H-Mean: means over two independent counts, the true positives above the cut and the
misses below it.

Each of the two laws enters as a short list of values with weights (`window_rule`):

- With a variance below 625: the law itself, by recursion over the items, without entries below
  1e-24, whose mass is counted. A law with standard deviation s is smooth enough to keep only every
  (s/2)-th entry: that changes its Fourier transform only at 4 pi / s and above, by at most e^-50
  for the law alone. For s >= 12 the analyticity of the loss (modulus at most 1 wherever the counts
  have positive real part) makes that a proof, with less than 2e-14 (docs/explanation/retrieval.md);
  between 6.3 and 12 it is what tests observe. There, full laws are used as long as that takes a
  second or two, and the result reports when they were not; the loss of the set that is returned
  always comes from full laws.
- From there on: the 8-point Gauss rule with the first 16 moments of the law, taken from its
  cumulants, which are sums over the items. Cauchy's estimate for the integrand and Bennett's
  inequality for the tails give an error below 1e-14.

The optimum over k is certified without any assumption on the shape of the curve. Both means are
concave in (TPR, TNR), so by Jensen's inequality L_k >= 1 - mean(E[TPR_k], E[TNR_k]), and those
expectations come for all k from one quadrature. Only the k whose bound is below the best loss so
far are evaluated.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import Polynomial, hermite_e

from payoff.arrays import F64, I64
from payoff.compiled import copy, vector
from payoff.retrieval.losses import Loss
from payoff.retrieval.quadrature import UNIT, Curve, Rates

SPAN = 256  # items between stored windows
# The widest window: it has the entries above TRIM at the largest windowed variance, at most 565 by
# Bennett's inequality.
WIDTH = 640
TRIM = 1e-24  # entries below this at the ends of a window are dropped, and their mass is counted
POINTS = 8  # nodes of a Gauss rule; its moments up to 2 POINTS - 1 need the cumulants up to 15
GAUSS_FROM = 625.0  # variance from which a Gauss rule's guaranteed error is below 1e-14
EDGE = 9.5  # standard deviations within which the Gauss rule's integrand is taken as analytic
NEWTON_STEPS = 6  # from a distance below 0.1 the nodes converge in five
PROVEN = 144.0  # variance from which a thinned window has a proven error
# Variance from which a thinned window is accurate to the last digits in all tests; the probability
# of no hit is e^-40 there.
OBSERVED = 40.0
THINNING_ERROR = 2e-14  # of a thinned window with a variance of at least PROVEN
# So many k with a law between OBSERVED and PROVEN are evaluated in full, at 0.1 ms each.
MOST_FULL_LAWS = 20_000


@dataclass(frozen=True)
class Best:
    """The best k, its loss and the guaranteed bound on the error of that loss.

    `proven`: whether it is proven that k is the best, up to that error.
    """

    k: int
    loss: float
    error: float
    proven: bool


# The points from which Newton's method finds the nodes of a Gauss rule.
_START = np.asarray(hermite_e.hermegauss(POINTS)[0])
MEANS = {"g_mean": False, "h_mean": True}  # whether the mean of a loss is harmonic


def mean_curve(p: np.ndarray, loss: Loss, _empty: int) -> Curve:
    """The losses of all sizes, some microseconds each."""
    return MeanOfRates(p, harmonic=MEANS[loss.name]).curve()


class MeanOfRates:
    """Expected G-Mean or H-Mean losses of the first k of the items p, for any k."""

    def __init__(self, p: np.ndarray, *, harmonic: bool) -> None:
        """Store windows and cumulants: O(n), up to 640 operations and 20 bytes for each item."""
        self.harmonic = harmonic
        self.n = len(p)
        self._p = p
        self._q = 1.0 - p
        cumulants = np.empty((self.n // SPAN + 1, 2 * POINTS))
        span_cumulants(p, self._q, _cumulant_polynomials(), cumulants)
        nothing = np.zeros((1, cumulants.shape[1]))
        self._before = np.concatenate([nothing, np.cumsum(cumulants, axis=0)])
        self._after = np.concatenate(
            [np.cumsum(cumulants[::-1], axis=0)[::-1], nothing]
        )
        windows = int((self._after[:, 2] < GAUSS_FROM).sum())
        firsts, sizes = np.zeros((2, windows), np.int64)
        self._windows = np.zeros((windows, WIDTH)), firsts, sizes, np.zeros(windows)
        suffix_windows(p, self._q, *self._windows)

    def losses(
        self, ks: np.ndarray, *, in_full: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """L_k for ascending ks, and the error of each, which is guaranteed if `in_full`.

        Windows are thinned from the variance PROVEN on, or else from OBSERVED on.
        """
        out = np.empty((2, len(ks)))
        stride_from = PROVEN if in_full else OBSERVED
        mean_losses(
            self._p, self._q, np.asarray(ks, dtype=np.int64), self.harmonic, stride_from, _START,
            _cumulant_polynomials(), self._before, self._after, *self._windows, out,
        )  # fmt: skip
        return np.maximum(out[0], 0.0), out[1] + self.rounding()

    def rounding(self) -> float:
        """The rounding error of a loss.

        Each entry of a law, its sum, means and cumulants have a relative error of at most 3 u for
        each item.
        """
        return (8 * self.n + 4096) * UNIT + THINNING_ERROR

    def curve(self) -> Curve:
        """L_0 … L_n."""
        ks = np.arange(self.n + 1)
        in_full = self._few_unproven(ks)
        values, errors = self.losses(ks, in_full=in_full)
        return Curve(values, float(errors.max()), in_full)

    def best(self, rates: Rates, low: int, high: int) -> Best:
        """The k from low to high with the least expected loss; `rates` are those of p."""
        bound = 1 - self._mean(
            rates.recall[low : high + 1], rates.specificity[low : high + 1]
        )
        slack = 4 * rates.error + 2 * self.rounding()
        first = low + int(np.argmin(bound))
        incumbent = float(self.losses(np.array([first]), in_full=False)[0][0])
        candidates = low + np.flatnonzero(bound <= incumbent + slack)
        in_full = self._few_unproven(candidates)
        values, _ = self.losses(candidates, in_full=in_full)
        k = int(candidates[np.argmin(values)])
        loss, error = self.losses(np.array([k]))
        return Best(k, float(loss[0]), float(error[0]), in_full)

    def _few_unproven(self, ks: np.ndarray) -> bool:
        """Whether few enough of these k have a law that thinning would leave unproven."""
        front = np.concatenate([[0.0], np.cumsum(self._p * self._q)])
        back = front[-1] - front
        unproven = ((front >= OBSERVED) & (front < PROVEN)) | (
            (back >= OBSERVED) & (back < PROVEN)
        )
        return int(np.count_nonzero(unproven[ks])) <= MOST_FULL_LAWS

    def _mean(self, tpr: np.ndarray, tnr: np.ndarray) -> np.ndarray:
        if not self.harmonic:
            return np.asarray(np.sqrt(tpr * tnr))
        total = tpr + tnr
        return np.where(total > 0, 2 * tpr * tnr / np.where(total > 0, total, 1.0), 0.0)


@lru_cache
def _cumulant_polynomials() -> np.ndarray:
    """Cumulant r of one label as a polynomial in v = p q, times q - p for odd r.

    Each is the derivative of the one before with respect to the logit of p.
    """
    count = 2 * POINTS
    v = Polynomial([0.0, 1.0])
    table = np.zeros((count, POINTS))
    even = v
    for r in range(2, count, 2):
        odd = v * even.deriv()
        table[r, : even.degree() + 1] = even.coef
        table[r + 1, : odd.degree() + 1] = odd.coef
        even = v * ((1 - 4 * v) * odd.deriv() - 2 * odd)
    return table


@vector
def add_cumulants(row: F64, p: float, q: float, polynomials: F64) -> None:
    """Add the cumulants of one Bernoulli variable, by `_cumulant_polynomials`."""
    v, skew = p * q, q - p
    row[0] += p
    row[1] += q
    row[2] += v
    for r in range(3, row.size):
        value = 0.0
        for c in range(polynomials.shape[1] - 1, -1, -1):
            value = value * v + polynomials[r, c]
        row[r] += value * skew if r % 2 else value


@vector
def span_cumulants(p: F64, q: F64, polynomials: F64, out: F64) -> None:
    """out[b] = the cumulants of the items of span b, as by `add_cumulants`, but many at a time."""
    v, skew = np.empty(SPAN), np.empty(SPAN)
    for b in range(out.shape[0]):
        lo = b * SPAN
        size = min(SPAN, p.size - lo)
        out[b, :] = 0.0
        for i in range(size):
            v[i], skew[i] = p[lo + i] * q[lo + i], q[lo + i] - p[lo + i]
            out[b, 0] += p[lo + i]
            out[b, 1] += q[lo + i]
            out[b, 2] += v[i]
        for r in range(3, out.shape[1]):
            c0, c1, c2, c3, c4, c5, c6, c7 = polynomials[r]
            even = r % 2 == 0
            total = 0.0
            for i in range(size):
                x = v[i]
                upper = c4 + x * (c5 + x * (c6 + x * c7))
                value = c0 + x * (c1 + x * (c2 + x * (c3 + x * upper)))
                total += value if even else value * skew[i]
            out[b, r] = total


@vector
def slide(old: F64, size: int, p: float, q: float, new: F64) -> tuple[int, int, float]:
    """Trim the window old[0:size], add a variable, and write the window to new.

    Returns the number of entries skipped in front, the new size, and the mass dropped.
    """
    skip, dropped = 0, 0.0
    while size - skip > 1 and old[skip] < TRIM:
        dropped += old[skip]
        skip += 1
    while size - skip > 1 and (old[size - 1] < TRIM or size - skip >= WIDTH):
        dropped += old[size - 1]
        size -= 1
    length = size - skip
    new[0] = q * old[skip]
    for t in range(1, length):
        new[t] = q * old[skip + t] + p * old[skip + t - 1]
    new[length] = p * old[size - 1]
    return skip, length + 1, dropped


@vector
def window_rule(
    pmf: F64,
    size: int,
    first: int,
    total: int,
    variance: float,
    stride_from: float,
    rule: F64,
) -> int:
    """rule[0:3] = hits, misses, weights of the window, thinned to every stride-th entry.

    Returns the number of entries. Where many p are equal, their q = 1 - p are rounded alike and the
    mass of the law drifts from 1; it is divided out.
    """
    stride = max(1, int(np.sqrt(variance) / 2)) if variance >= stride_from else 1
    mass = 0.0
    for t in range(size):
        mass += pmf[t]
    count = 0
    for t in range(0, size, stride):
        rule[0, count] = first + t
        rule[1, count] = total - first - t
        rule[2, count] = pmf[t] * (stride / mass)
        count += 1
    return count


@vector
def gauss_rule(row: F64, start: F64, rule: F64) -> float:
    """rule[0:3] = hits, misses, weights of the Gauss rule with the row's moments.

    Returns its guaranteed error.
    Modified Chebyshev algorithm on E[He_r(Z)], which follow from the cumulants beyond the second;
    the nodes by Newton's method from those of He_8. The integrand is analytic and at most 1 in
    modulus where hits and misses have positive real part; Cauchy's estimate in the disc of radius r
    and Bennett's inequality give the error.
    """
    sd = np.sqrt(row[2])
    moments, cumulants = np.zeros(2 * POINTS), np.zeros(2 * POINTS)
    for r in range(3, 2 * POINTS):
        cumulants[r] = row[r] / sd**r
    moments[0] = 1.0
    for r in range(3, 2 * POINTS):
        binomial = (r - 1.0) * (r - 2.0) / 2.0  # r - 1 over j - 1
        for j in range(3, r + 1):
            moments[r] += binomial * cumulants[j] * moments[r - j]
            binomial *= (r - j) / j
    a, b = recurrence(moments)
    norm = 1.0
    for j in range(1, POINTS):
        norm *= b[j]
    for i in range(POINTS):
        x = start[i]
        for _ in range(NEWTON_STEPS):
            before, value, slope_before, slope = 0.0, 1.0, 0.0, 0.0
            for j in range(POINTS):
                shifted = x - a[j]
                slope, slope_before = (
                    shifted * slope + value - b[j] * slope_before,
                    slope,
                )
                value, before = shifted * value - b[j] * before, value
            x -= value / slope
        rule[0, i] = row[0] + sd * x
        rule[1, i] = row[1] - sd * x
        rule[2, i] = norm / (slope * before)
    radius = min(row[0], row[1]) - EDGE * sd
    u = EDGE / sd
    tail = 8.0 * np.exp(-row[2] * ((1.0 + u) * np.log1p(u) - u))
    error: float = 2.0 * POINTS * norm * (sd / radius) ** (2 * POINTS) + tail
    return error


@vector
def recurrence(moments: F64) -> tuple[F64, F64]:
    """The three-term recurrence of the monic orthogonal polynomials, from E[He_0] … E[He_15]."""
    a, b = np.zeros(POINTS), np.zeros(POINTS)
    before, row = np.zeros(2 * POINTS), np.zeros(2 * POINTS)
    copy(moments, row)
    b[0] = 1.0
    for k in range(1, POINTS):
        new = np.zeros(2 * POINTS)
        for j in range(k, 2 * POINTS - k):
            new[j] = (
                row[j + 1]
                - a[k - 1] * row[j]
                - b[k - 1] * before[j] * (k > 1)
                + j * row[j - 1]
            )
        a[k] = new[k + 1] / new[k] - row[k] / row[k - 1]
        b[k] = new[k] / row[k - 1]
        before, row = row, new
    return a, b


@vector
def mean_quality(
    front: F64, rows: int, back: F64, columns: int, harmonic: bool
) -> float:
    """Σ Σ weight weight mean(TPR, TNR) over two rules: `front` of (tp, fp), `back` of (fn, tn)."""
    total = 0.0
    for i in range(rows):
        tp, fp, inner = front[0, i], front[1, i], 0.0
        for j in range(columns):
            fn, tn = back[0, j], back[1, j]
            tpr = tp / (tp + fn) if tp + fn > 0.0 else 1.0
            tnr = tn / (tn + fp) if tn + fp > 0.0 else 1.0
            if harmonic:
                both = tpr + tnr
                value = 2.0 * tpr * tnr / both if both > 0.0 else 0.0
            else:
                value = np.sqrt(tpr * tnr)
            inner += back[2, j] * value
        total += front[2, i] * inner
    return total


@vector
def suffix_windows(
    p: F64, q: F64, stored: F64, firsts: I64, sizes: I64, lost: F64
) -> None:
    """The laws of the sums of the last items: row 0 of no items, row r of the last r spans.

    `lost` becomes the mass that each law dropped.
    """
    law, spare = np.zeros(WIDTH), np.zeros(WIDTH)
    law[0], size, first, gone = 1.0, 1, 0, 0.0
    end = p.size
    for r in range(stored.shape[0]):
        copy(law[:size], stored[r])
        firsts[r], sizes[r], lost[r] = first, size, gone
        if r + 1 < stored.shape[0]:
            begin = (p.size // SPAN - r) * SPAN  # the last span may be empty
            for i in range(end - 1, begin - 1, -1):
                skip, size, out = slide(law, size, p[i], q[i], spare)
                first, gone = first + skip, gone + out
                law, spare = spare, law
            end = begin


@vector
def laws_within(
    p: F64,
    q: F64,
    polynomials: F64,
    rows: F64,
    laws: F64,
    firsts: I64,
    sizes: I64,
    lost: F64,
) -> None:
    """Fill the laws and cumulants of every suffix that begins within a span, from those at its end.

    sizes stay 0 from where the variance reaches GAUSS_FROM.
    """
    for i in range(p.size - 1, -1, -1):
        copy(rows[i + 1], rows[i])
        add_cumulants(rows[i], p[i], q[i], polynomials)
        sizes[i] = 0
        if sizes[i + 1] > 0 and rows[i, 2] < GAUSS_FROM:
            skip, sizes[i], out = slide(laws[i + 1], sizes[i + 1], p[i], q[i], laws[i])
            firsts[i], lost[i] = firsts[i + 1] + skip, lost[i + 1] + out


@vector
def rule_of(
    law: F64, size: int, first: int, lost: float, total: int, row: F64, stride_from: float,
    start: F64, rule: F64,
) -> tuple[int, float]:  # fmt: skip
    """The rule of a window if there is one (size > 0), else Gauss's; returns its size and error."""
    if size > 0:
        return window_rule(law, size, first, total, row[2], stride_from, rule), lost
    return POINTS, gauss_rule(row, start, rule)


@vector
def mean_losses(
    p: F64, q: F64, ks: I64, harmonic: bool, stride_from: float, start: F64, polynomials: F64,
    before: F64, after: F64, stored: F64, firsts: I64, sizes: I64, lost: F64, out: F64,
) -> None:  # fmt: skip
    """out[:, i] = expected loss with the first ks[i] retrieved (ascending), and its error.

    The error is without rounding. before[b], after[b]: cumulants of all items before span b, and
    from span b on. stored, firsts, sizes, lost: the suffix windows, by number of spans from the
    end.
    """
    n = p.size
    spans, columns = after.shape[0] - 1, before.shape[1]
    prefix, spare = np.zeros(WIDTH), np.zeros(WIDTH)
    prefix[0] = 1.0
    size, first, gone = 1, 0, 0.0
    laws, rows = np.zeros((SPAN + 1, WIDTH)), np.zeros((SPAN + 1, columns))
    law_first, law_size = np.zeros(SPAN + 1, np.int64), np.zeros(SPAN + 1, np.int64)
    law_lost = np.zeros(SPAN + 1)
    front, back, row = np.empty((3, WIDTH)), np.empty((3, WIDTH)), np.empty(columns)
    at = 0
    for b in range(spans):
        lo, hi = b * SPAN, min((b + 1) * SPAN, n)
        if at == ks.size:
            break
        needs_laws = ks[at] < hi or b == spans - 1
        if needs_laws:
            end, r = hi - lo, spans - 1 - b
            copy(after[b + 1], rows[end])
            law_size[end] = 0
            if r < stored.shape[0]:
                copy(stored[r], laws[end])
                law_first[end], law_size[end], law_lost[end] = (
                    firsts[r],
                    sizes[r],
                    lost[r],
                )
            laws_within(
                p[lo:hi],
                q[lo:hi],
                polynomials,
                rows,
                laws,
                law_first,
                law_size,
                law_lost,
            )
        copy(before[b], row)
        for k in range(lo, hi + (b == spans - 1)):
            if at < ks.size and ks[at] == k:
                j = k - lo
                m, error = rule_of(
                    prefix, size, first, gone, k, row, stride_from, start, front
                )
                c, error_after = rule_of(
                    laws[j], law_size[j], law_first[j], law_lost[j], n - k, rows[j], stride_from,
                    start, back,
                )  # fmt: skip
                out[0, at] = 1.0 - mean_quality(front, m, back, c, harmonic)
                out[1, at] = error + error_after
                at += 1
            if k < hi and (size > 0 or needs_laws):
                add_cumulants(row, p[k], q[k], polynomials)
                if size > 0 and row[2] < GAUSS_FROM:
                    skip, size, dropped = slide(prefix, size, p[k], q[k], spare)
                    first, gone = first + skip, gone + dropped
                    prefix, spare = spare, prefix
                else:
                    size = 0
