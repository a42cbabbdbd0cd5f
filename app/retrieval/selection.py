"""The set of items with the smallest expected loss.

For a loss that falls with the true positives, and independent labels, some set of the k most likely items is best of
all sets (Natarajan et al. 2016, Theorem 1). The same exchange of two items shows that it has the largest expected
recall and precision of all sets of k items, so a constraint on either is met by the best k items or by no k items at
all: the best set under constraints is the best k among those that meet them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from app.errors import Invalid
from app.retrieval import quadrature
from app.retrieval.expected_loss import DP_LIMIT, MEANS, check_usable, curve_of
from app.retrieval.losses import Loss, check_empty
from app.retrieval.probabilities import check_probabilities
from app.retrieval.windows import Best, MeanOfRates

AUC_WARNING = (
    "The AUC loss of a set is 0 when it is empty or holds everything, so k was kept within 1 … n - 1; "
    "set k_min or k_max to choose otherwise."
)
UNPROVEN_WARNING = (
    "Between neighbouring k, losses were compared with thinned laws, whose error below 1e-13 is observed, not proven."
)
NOTHING_WARNING = "Nothing is retrieved: the empty set has precision 1 by convention."


@dataclass(frozen=True)
class Selection:
    """The best set: positions in the caller's order, best first, and what to expect of it.

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


@dataclass(frozen=True)
class Terms:
    """What is asked of a set, apart from its items; `checked` raises Invalid at `/empty`, `/k_min`, `/min_recall`, …"""

    loss: Loss
    empty: int = 0
    k_min: int = 0
    k_max: int | None = None
    curve: bool = False
    min_recall: float | None = None
    min_precision: float | None = None

    def checked(self) -> Terms:
        """The same terms, if they make sense for some number of items."""
        _check_count(self.k_min, "/k_min")
        if self.k_max is not None:
            _check_count(self.k_max, "/k_max")
            if self.k_min > self.k_max:
                raise Invalid.at("/k_min", f"k_min is {self.k_min} but k_max only {self.k_max}.")
        for value, place in ((self.min_recall, "/min_recall"), (self.min_precision, "/min_precision")):
            if value is not None and not (math.isfinite(value) and 0.0 <= value <= 1.0):
                raise Invalid.at(place, "A least expected rate must be a number from 0 to 1.")
        return replace(self, empty=check_empty(self.empty))

    def sizes(self, n: int) -> tuple[int, int]:
        """The smallest and largest k allowed for n items; a k_max beyond n is no bound, a k_min beyond n is Invalid."""
        if self.k_min > n:
            raise Invalid.at("/k_min", f"k_min is {self.k_min}, but there are only {n} items.")
        high = n if self.k_max is None else min(self.k_max, n)
        low = self.k_min
        if self.loss.name != "auc":
            return low, high
        if low == 0:
            low = min(1, high)
        if not self._bounds(n):
            high = max(low, n - 1)
        return low, high

    def _bounds(self, n: int) -> bool:
        """Whether k_max is a bound for n items."""
        return self.k_max is not None and self.k_max <= n

    def warnings(self, n: int) -> tuple[str, ...]:
        """What every set of at most n items that is chosen on these terms should know."""
        narrowed = self.loss.name == "auc" and (self.k_min == 0 or not self._bounds(n))
        return (AUC_WARNING,) if narrowed else ()


def select(
    p: ArrayLike,
    loss: Loss,
    *,
    empty: int = 0,
    k_min: int = 0,
    k_max: int | None = None,
    curve: bool = False,
    min_recall: float | None = None,
    min_precision: float | None = None,
) -> Selection:
    """The set of independent items with the smallest expected loss, exact up to `error_bound`.

    p: (n,) probabilities of being relevant. Equal probabilities keep their order; of equally good sizes the smallest is
    taken. `min_recall` and `min_precision` bound the set's expected recall and precision (met up to the rounding
    that `quadrature.rate_error` bounds, 1e-9 at a million items). O(n log n) for the order, then O(n); a million items
    take 0.1 to 2 s. Invalid at `/3` for a bad probability, else at the name of the argument (`/loss/d`, `/k_min`).
    """
    terms = Terms(loss, empty, k_min, k_max, curve, min_recall, min_precision).checked()
    p = check_probabilities(p)
    check_usable(loss, len(p))
    order = np.argsort(-p, kind="stable")
    return select_ranked(order, p[order], terms)


def select_ranked(order: np.ndarray, ranked: np.ndarray, terms: Terms) -> Selection:
    """`select` for checked terms and probabilities in descending order; `order` are the caller's positions."""
    n = len(ranked)
    low, high = _feasible(ranked, *terms.sizes(n), terms)
    best, curve = _best(ranked, low, high, terms)
    k = best.k
    warnings = terms.warnings(n) if best.proven else (*terms.warnings(n), UNPROVEN_WARNING)
    if k == 0 and terms.min_precision:
        warnings += (NOTHING_WARNING,)
    precision = float(ranked[:k].sum()) / k if k else 1.0
    recall = float(quadrature.recalls(ranked, k)[k]) if n else 1.0
    return Selection(order[:k], k, best.loss, curve, precision, recall, best.error, warnings)


def _best(ranked: np.ndarray, low: int, high: int, terms: Terms) -> tuple[Best, np.ndarray | None]:
    """The best k from low to high, and the whole curve if it is wanted."""
    if terms.loss.name in MEANS and len(ranked) > DP_LIMIT and not terms.curve:
        means = MeanOfRates(ranked, harmonic=MEANS[terms.loss.name])
        return means.best(quadrature.rates(ranked), low, high), None
    found = curve_of(ranked, terms.loss, terms.empty)
    k = low + int(np.argmin(found.values[low : high + 1]))
    return Best(k, float(found.values[k]), found.error, found.proven), found.values if terms.curve else None


def _feasible(ranked: np.ndarray, low: int, high: int, terms: Terms) -> tuple[int, int]:
    """Narrow the sizes to those that meet the constraints: recall rises with k and precision falls."""
    slack = quadrature.rate_error(len(ranked))
    first, last = low, high
    if terms.min_recall:
        recall = quadrature.recalls(ranked, high)
        if recall[high] < terms.min_recall - slack:
            raise Invalid.at(
                "/min_recall",
                f"No set meets it: the largest expected recall, with {high} items retrieved, is {recall[high]:.6g}.",
            )
        first = max(low, int(np.argmax(recall >= terms.min_recall - slack)))
    if terms.min_precision:
        precision = np.concatenate([[1.0], np.cumsum(ranked) / np.arange(1, len(ranked) + 1)])
        met = np.flatnonzero(precision[low : high + 1] >= terms.min_precision - slack)
        if not len(met):
            raise Invalid.at(
                "/min_precision",
                f"No set meets it: the largest expected precision, with {low} retrieved, is {precision[low]:.6g}.",
            )
        last = low + int(met[-1])
        if first > last:
            raise Invalid.at(
                "/min_precision",
                f"No set meets both: an expected recall of {terms.min_recall} needs {first} items, and their expected "
                f"precision is {precision[first]:.6g}.",
            )
    return first, last


def _check_count(value: int, place: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise Invalid.at(place, "The number of items must be a whole number, 0 or more.")
