"""The set of items with the smallest expected loss.

For a loss that falls with the true positives, and independent labels, some set of the k most likely items is best of
all sets (Natarajan et al. 2016, Theorem 1). The same exchange of two items shows that it has the largest expected
recall and precision of all sets of k items, so a constraint on either is met by the best k items or by no k items at
all: the best set under constraints is the best k among those that meet them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from app.errors import Invalid
from app.retrieval import _dynamic_programming, quadrature
from app.retrieval.losses import Loss, check_monotone, denominator
from app.retrieval.quadrature import BY_QUADRATURE, UNIT, Curve
from app.retrieval.terms import Terms, descending
from app.retrieval.windows import Best, MeanOfRates

# Up to this many items dynamic programming, O(n³/6) on tabled losses, beats the quadrature's O(nodes n), for one set:
# both take some 30 microseconds here, most of it outside the kernels (benchmarks/retrieval_speed.py, "change-over").
DP_LIMIT = 32

MEANS = {"g_mean": False, "h_mean": True}  # whether harmonic


def expected_losses(p: np.ndarray, loss: Loss, empty: int = 0) -> Curve:
    """L_0 … L_n: the expected loss of retrieving the first k of n independent items, in the order given.

    p: (n,) probabilities of being relevant, for a usable loss. The curve has n + 1 entries, `error` bounds the
    error of each. Up to DP_LIMIT items O(n³), then O(n) with 50 to 100 nodes (G-Mean and H-Mean O(n), some
    microseconds per k). The methods: `quadrature`, `windows`.
    """
    if len(p) <= DP_LIMIT:
        curve = tabled_curve(p, loss, empty)
    elif loss.name in MEANS:
        curve = MeanOfRates(p, harmonic=MEANS[loss.name]).curve()
    else:
        curve = BY_QUADRATURE[loss.name](p, loss, empty)
    if loss.name == "fractional_linear":
        return curve
    return replace(curve, values=np.clip(curve.values, 0.0, 1.0))  # all other losses are within [0, 1]


def check_usable(loss: Loss, n: int) -> None:
    """Invalid at `/loss` where the theory does not hold for this loss at n items."""
    if loss.name == "fractional_linear":
        try:
            check_monotone(loss, n)
        except Invalid as error:
            raise error.under("/loss") from None


def tabled_curve(p: np.ndarray, loss: Loss, empty: int) -> Curve:
    """Algorithm 1 of Natarajan et al. (2016) with all laws from one recursion: O(n³/6), for small n."""
    n = len(p)
    laws, curve = np.empty((2, n + 1, n + 1, 1)), np.empty((n + 1, 1))
    _dynamic_programming.tabled_curves(p[:, None], loss_table(loss, n, empty), laws[0], laws[1], curve)
    return Curve(curve[:, 0], table_error(loss, n))


def table_error(loss: Loss, n: int) -> float:
    """3 n u for the laws, (n + 1) u for the sums and a few for the loss itself, more where its denominator cancels."""
    if loss.name != "fractional_linear" or n == 0:
        return (8 * n + 16) * UNIT
    form = denominator(loss, n)
    return (8 * n + 16 + 8 * form.cancels) * UNIT * max(form.largest, 1.0)


@lru_cache(maxsize=128)
def loss_table(loss: Loss, n: int, empty: int) -> np.ndarray:
    """The loss at all feasible counts, as the kernels want it: for each k a block (tp, false negatives)."""
    return _table(n, lambda tp, k, positives: loss.of_counts(tp, k, positives, n, empty=empty))


@lru_cache(maxsize=128)
def recall_table(n: int) -> np.ndarray:
    """TPR at all feasible counts."""
    return _table(n, lambda tp, _k, positives: np.where(positives > 0, tp / np.maximum(positives, 1), 1.0))


def _table(n: int, of_counts: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    blocks = []
    for k in range(n + 1):
        tp, fn = np.arange(k + 1)[:, None], np.arange(n - k + 1)[None, :]
        blocks.append(np.ravel(of_counts(tp, np.array([[k]]), tp + fn)))
    return np.concatenate(blocks)


UNPROVEN_WARNING = (
    "losses of neighbouring k were compared with an approximation whose error (below 1e-13) is measured, not proven"
)
NOTHING_WARNING = "nothing is retrieved; the empty set has precision 1 by convention"


@dataclass(frozen=True)
class Selection:
    """The best set: positions in the caller's order, best first, and its expected loss and rates.

    The precision of an empty set and the recall where nothing is relevant are 1. `error_bound` is guaranteed for
    `expected_loss` and for every entry of `curve` (L_0 … L_n), unless a warning says otherwise.
    """

    indices: np.ndarray
    k: int
    expected_loss: float
    curve: np.ndarray | None
    expected_precision: float
    expected_recall: float
    error_bound: float
    warnings: tuple[str, ...] = ()


def select(p: np.ndarray, terms: Terms) -> Selection:
    """The set of independent items with the smallest expected loss, exact up to `error_bound`.

    p: (n,) probabilities of being relevant. Equal probabilities keep their order; of equally good sizes the smallest is
    taken. `min_recall` and `min_precision` bound the set's expected recall and precision (met up to the rounding
    that `quadrature.rate_error` bounds, 1e-9 at a million items). O(n log n) for the order, then O(n); a million items
    take 0.1 to 2 s. The probabilities are not checked. Invalid at the name of the argument (`/loss/d`, `/k_min`).
    """
    p = np.require(p, np.float64, ["C", "A", "W"])  # a read-only array would compile the kernels anew
    check_usable(terms.loss, len(p))
    return select_ranked(*descending(p), terms)


def select_ranked(order: np.ndarray, ranked: np.ndarray, terms: Terms) -> Selection:
    """`select` for probabilities in descending order; `order` are the caller's positions."""
    n = len(ranked)
    low, high = _feasible(ranked, *terms.sizes(n), terms)
    best, curve, recall = _best(ranked, low, high, terms)
    k = best.k
    warnings = terms.warnings(n) if best.proven else (*terms.warnings(n), UNPROVEN_WARNING)
    if k == 0 and terms.min_precision:
        warnings += (NOTHING_WARNING,)
    precision = float(ranked[:k].sum()) / k if k else 1.0
    return Selection(order[:k], k, best.loss, curve, precision, recall, best.error, warnings)


def _best(ranked: np.ndarray, low: int, high: int, terms: Terms) -> tuple[Best, np.ndarray | None, float]:
    """The best k from low to high, the whole curve if it is wanted, and the expected recall of k items."""
    if terms.loss.name in MEANS and len(ranked) > DP_LIMIT and not terms.curve:
        rates = quadrature.rates(ranked)
        best = MeanOfRates(ranked, harmonic=MEANS[terms.loss.name]).best(rates, low, high)
        return best, None, float(rates.recall[best.k])
    found = expected_losses(ranked, terms.loss, terms.empty)
    k = low + int(np.argmin(found.values[low : high + 1]))
    recall = float(quadrature.recalls(ranked, k)[k]) if len(ranked) else 1.0
    return Best(k, float(found.values[k]), found.error, found.proven), found.values if terms.curve else None, recall


def _feasible(ranked: np.ndarray, low: int, high: int, terms: Terms) -> tuple[int, int]:
    """Narrow the sizes to those that meet the constraints: recall rises with k and precision falls."""
    slack = quadrature.rate_error(len(ranked))
    first, last = low, high
    if terms.min_recall:
        recall = quadrature.recalls(ranked, high)
        if recall[high] < terms.min_recall - slack:
            raise Invalid.at(
                "/min_recall",
                f"no set has an expected recall of {terms.min_recall}; the largest, of {high} items, is"
                f" {recall[high]:.6g}",
            )
        first = max(low, int(np.argmax(recall >= terms.min_recall - slack)))
    if terms.min_precision:
        precision = np.concatenate([[1.0], np.cumsum(ranked) / np.arange(1, len(ranked) + 1)])
        met = np.flatnonzero(precision[low : high + 1] >= terms.min_precision - slack)
        if not len(met):
            raise Invalid.at(
                "/min_precision",
                f"no set has an expected precision of {terms.min_precision}; the largest, of {low} items, is"
                f" {precision[low]:.6g}",
            )
        last = low + int(met[-1])
        if first > last:
            raise Invalid.at(
                "/min_precision",
                f"no set meets both rates; an expected recall of {terms.min_recall} needs {first} items, whose expected"
                f" precision is {precision[first]:.6g}",
            )
    return first, last
