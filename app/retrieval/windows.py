"""G-Mean and H-Mean: means over two independent counts, the true positives above the cut and the misses below it.

Each of the two laws enters as a short list of values with weights (`_windows`):

- variance below 625: the law itself, by recursion over the items, without entries below 1e-24, whose mass is counted.
  A law with standard deviation s is smooth enough to keep only every (s/2)-th entry: what that changes is its Fourier
  transform at 4 pi / s and beyond, at most e^-50 for the law alone. For s >= 12 the loss's own analyticity (modulus at
  most 1 wherever the counts have positive real part) makes that a proof, with less than 2e-14
  (docs/explanation/retrieval.md); between 6.3 and 12 it is what tests observe. There, full laws are used as long as
  that takes a second or two, and the result reports when they were not; the loss of the set that is returned always
  comes from full laws.
- from there on: the 8-point Gauss rule with the law's first 16 moments, taken from its cumulants, which are sums over
  the items. Cauchy's estimate for the integrand and Bennett's inequality for the tails give an error below 1e-14.

The optimum over k is certified without any assumption on the curve's shape. Both means are concave in (TPR, TNR), so by
Jensen's inequality L_k >= 1 - mean(E[TPR_k], E[TNR_k]), and those expectations are there for all k from one
quadrature. Only the k whose bound reaches below the best loss found are evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import Polynomial, hermite_e

from app.retrieval import _windows
from app.retrieval.quadrature import UNIT, Curve, Rates

PROVEN = 144.0  # variance from which a thinned window has a proven error
OBSERVED = 40.0  # variance from which it is accurate to the last digits in all tests (e^-40 is the chance of no hit)
THINNING_ERROR = 2e-14
FULL_AT_MOST = 20_000  # so many k with a law between OBSERVED and PROVEN are evaluated in full, at 0.1 ms each


@dataclass(frozen=True)
class Best:
    """The best k, its loss and the guaranteed bound on the error of that loss; `proven` if so is that k is the best."""

    k: int
    loss: float
    error: float
    proven: bool


@dataclass(frozen=True)
class _Sums:
    """What every evaluation on the same items shares."""

    p: np.ndarray
    q: np.ndarray
    before: np.ndarray
    after: np.ndarray
    stored: np.ndarray
    firsts: np.ndarray
    sizes: np.ndarray
    lost: np.ndarray


class MeanOfRates:
    """Expected G-Mean or H-Mean losses of the first k of the items p, for any k."""

    def __init__(self, p: np.ndarray, *, harmonic: bool) -> None:
        """Store windows and cumulants: O(n) with up to 640 operations per item, and 20 bytes per item."""
        self.harmonic = harmonic
        self.n = len(p)
        self._sums = _sums(p)

    def losses(self, ks: np.ndarray, *, in_full: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """L_k for ascending ks, and the guaranteed error of each (in_full=False: thinned windows from OBSERVED on)."""
        out = np.empty((2, len(ks)))
        _windows.mean_losses(
            self._sums.p, self._sums.q, np.asarray(ks, dtype=np.int64), self.harmonic,
            PROVEN if in_full else OBSERVED, _starting_nodes(), _cumulant_polynomials(),
            self._sums.before, self._sums.after, self._sums.stored, self._sums.firsts, self._sums.sizes,
            self._sums.lost, out,
        )  # fmt: skip
        return np.maximum(out[0], 0.0), out[1] + self.rounding()

    def rounding(self) -> float:
        """Each entry of a law is off by at most 3 u per item, relatively, and so are its sum, means and cumulants."""
        return (8 * self.n + 4096) * UNIT + THINNING_ERROR

    def curve(self) -> Curve:
        """L_0 … L_n."""
        ks = np.arange(self.n + 1)
        in_full = self._few_unproven(ks)
        values, errors = self.losses(ks, in_full=in_full)
        return Curve(values, float(errors.max()), in_full)

    def best(self, rates: Rates, low: int, high: int) -> Best:
        """The k within low … high with the least expected loss; rates are those of the same items."""
        bound = 1 - self._mean(rates.recall[low : high + 1], rates.specificity[low : high + 1])
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
        front = np.concatenate([[0.0], np.cumsum(self._sums.p * self._sums.q)])
        back = front[-1] - front
        unproven = ((front >= OBSERVED) & (front < PROVEN)) | ((back >= OBSERVED) & (back < PROVEN))
        return int(np.count_nonzero(unproven[ks])) <= FULL_AT_MOST

    def _mean(self, tpr: np.ndarray, tnr: np.ndarray) -> np.ndarray:
        if not self.harmonic:
            return np.asarray(np.sqrt(tpr * tnr))
        both = tpr + tnr
        return np.where(both > 0, 2 * tpr * tnr / np.where(both > 0, both, 1.0), 0.0)


def _sums(p: np.ndarray) -> _Sums:
    q = 1.0 - p
    spans = len(p) // _windows.SPAN + 1
    own = np.empty((spans, 2 * _windows.POINTS))
    _windows.span_cumulants(p, q, _cumulant_polynomials(), own)
    nothing = np.zeros((1, own.shape[1]))
    before = np.concatenate([nothing, np.cumsum(own, axis=0)])
    after = np.concatenate([np.cumsum(own[::-1], axis=0)[::-1], nothing])
    windows = int((after[:, 2] < _windows.GAUSS_FROM).sum())
    stored = np.zeros((windows, _windows.WIDTH))
    firsts, sizes = np.zeros(windows, np.int64), np.zeros(windows, np.int64)
    lost = np.zeros(windows)
    _windows.suffix_windows(p, q, stored, firsts, sizes, lost)
    return _Sums(p, q, before, after, stored, firsts, sizes, lost)


@lru_cache
def _starting_nodes() -> np.ndarray:
    return np.asarray(hermite_e.hermegauss(_windows.POINTS)[0])


@lru_cache
def _cumulant_polynomials() -> np.ndarray:
    """Cumulant r of one label as a polynomial in v = p q (times q - p for odd r): d/dlogit of the one before."""
    count = 2 * _windows.POINTS
    v = Polynomial([0.0, 1.0])
    table = np.zeros((count, _windows.POINTS))
    even = v
    for r in range(2, count, 2):
        odd = v * even.deriv()
        table[r, : even.degree() + 1] = even.coef
        table[r + 1, : odd.degree() + 1] = odd.coef
        even = v * ((1 - 4 * v) * odd.deriv() - 2 * odd)
    return table
