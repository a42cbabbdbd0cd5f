"""The set of items with the smallest expected loss.

For a loss that falls with the true positives, and independent labels, some set of the k most likely items is best of
all sets (Natarajan et al. 2016, Theorem 1). The same exchange of two items shows that it has the largest expected
recall and precision of all sets of k items, so a constraint on either is met by the best k items or by no k items at
all: the best set under constraints is the best k among those that meet them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from app.errors import Invalid
from app.retrieval import quadrature
from app.retrieval.expected_loss import DP_LIMIT, MEANS, check_usable, curve_of
from app.retrieval.probabilities import check_probabilities, descending
from app.retrieval.terms import Terms
from app.retrieval.windows import Best, MeanOfRates

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


def select(p: ArrayLike, terms: Terms) -> Selection:
    """The set of independent items with the smallest expected loss, exact up to `error_bound`.

    p: (n,) probabilities of being relevant. Equal probabilities keep their order; of equally good sizes the smallest is
    taken. `min_recall` and `min_precision` bound the set's expected recall and precision (met up to the rounding
    that `quadrature.rate_error` bounds, 1e-9 at a million items). O(n log n) for the order, then O(n); a million items
    take 0.1 to 2 s. Invalid at `/3` for a bad probability, else at the name of the argument (`/loss/d`, `/k_min`).
    """
    p = check_probabilities(p)
    check_usable(terms.loss, len(p))
    return select_ranked(*descending(p), terms)


def select_ranked(order: np.ndarray, ranked: np.ndarray, terms: Terms) -> Selection:
    """`select` for checked probabilities in descending order; `order` are the caller's positions."""
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
    found = curve_of(ranked, terms.loss, terms.empty)
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
