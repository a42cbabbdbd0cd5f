"""The set of items with the smallest expected loss.

For a loss that falls with the true positives, and independent labels, some set of the k most likely
items is best of all sets (Natarajan et al. 2016, Theorem 1).

Many sets at once, for instance the labels of each of many instances, go through one kernel that
neither holds the interpreter's lock nor allocates per set; it is called once per thread on a share
of the sets. Python's threads are used rather than numba's: those may not be entered from two
requests at a time, nor after a fork.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from payoff.arrays import F64, I64
from payoff.errors import Invalid, TooLarge
from payoff.retrieval import quadrature
from payoff.retrieval.dynamic_programming import (
    MOST_ITEMS_OF_MCC,
    loss_table,
    mcc_curve,
    recall_table,
    small_sets,
    table_error,
)
from payoff.retrieval.losses import Loss, SetTerms, check_monotone, denominator
from payoff.retrieval.quadrature import BY_QUADRATURE, Curve
from payoff.retrieval.windows import MEANS, Best, MeanOfRates, mean_curve

CURVES = {**BY_QUADRATURE, **dict.fromkeys(MEANS, mean_curve), "mcc": mcc_curve}
"""The whole curve of each loss, for sets of any size but 0."""


def expected_losses(p: np.ndarray, loss: Loss, empty: int = 0) -> Curve:
    """L_0 … L_n: the expected loss of retrieving the first k of n >= 1 independent items of p.

    p: (n,) probabilities of being relevant, for a usable loss. The curve has n + 1 entries, `error`
    bounds the error of each. O(n) times the number of nodes (G-Mean and H-Mean O(n),
    some microseconds per k; MCC O(n²)). The methods are in `quadrature`, in `windows` for G-Mean
    and H-Mean, and in `dynamic_programming` for MCC.
    """
    curve = CURVES[loss.name](p, loss, empty)
    return replace(curve, values=loss.within_range(curve.values))


def check_usable(loss: Loss, n: int) -> None:
    """Raise Invalid at `/loss` if the theory fails at n items, TooLarge if MCC is too slow."""
    if loss.name == "mcc" and n > MOST_ITEMS_OF_MCC:
        limit = f"with the loss 'mcc' it may have {MOST_ITEMS_OF_MCC:,}"
        raise TooLarge(f"a set has {n:,} items; {limit}")
    if loss.name == "fractional_linear":
        try:
            check_monotone(loss, n)
        except Invalid as error:
            raise error.under("/loss") from None


UNPROVEN_WARNING = (
    "losses of neighbouring k were compared with an approximation "
    "whose error (below 1e-13) is measured, not proven"
)


@dataclass(frozen=True)
class Selections:
    """One best set for each group of items.

    selected: the positions of items within their group, best first, k[i] of group i after those of
    the groups before it.
    figures (4, groups): expected loss, precision and recall, and the bound on the error of the loss
    and of the curve, guaranteed unless a warning says otherwise. The precision of an empty set and
    the recall where nothing is relevant are 1. curves: L_0 … L_n of group after group, lengths[i]
    entries for group i.
    """

    selected: I64
    k: I64
    figures: F64
    lengths: I64
    curves: F64 | None
    warnings: tuple[str, ...] = ()


def select(p: np.ndarray, terms: SetTerms) -> Selections:
    """The set of independent items with the smallest expected loss, exact up to the bound.

    p: (n,) probabilities of being relevant. Equal probabilities keep their order; of equally good
    sizes the smallest is taken. O(n log n) for the order, then O(n); a million items take 0.1 to 2
    s. The probabilities are not checked. Invalid at the name of the argument (`/loss/d`, `/k_min`).
    """
    return select_many(p, np.array([0, len(p)]), terms)


def descending(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of probabilities (n,), largest first, equal ones in their order; and p so."""
    order = np.argsort(
        -p
    )  # several times faster than a stable sort; ties are put right below
    ranked = p[order]
    tied = ranked[1:] == ranked[:-1]
    if tied.any():
        rank = np.concatenate(([0], np.cumsum(~tied)))
        order = np.sort(rank * len(p) + order) % len(p)
    return order, p[order]


# Sets up to this size are computed by dynamic programming, O(n³/6) on tabled losses, many at a
# time: 10 microseconds per set of 64, where one call of any other method costs 100.
DP_LIMIT = 64

# With a smaller variance of the number of relevant items no law is thinned much.
_VARIANCE_OF_SHORT_LAWS = 290.0
# a smaller one counts as 0: kernels take fifty times as long with it
LEAST_PROBABILITY = 1e-290

ITEMS_WORTH_A_THREAD = 20_000  # some milliseconds of work; a pool takes 0.2 ms to start
# Of one call; several calls run at once, and in a container `os.cpu_count` counts all cores of the
# machine.
_MOST_THREADS = 4


def select_many(
    p: np.ndarray, offsets: np.ndarray, terms: SetTerms, *, threads: int | None = None
) -> Selections:
    """`select` for every group p[offsets[i] : offsets[i + 1]] of independent items.

    p: (total,) probabilities; offsets: (groups + 1,) rising from 0 to total. A hundred thousand
    groups of 20 take some 30 ms on two threads (by default as many as there are cores, at most
    four). The groups are not checked. Invalid at `/k_min` where one is too small.
    """
    if threads is None:
        threads = (
            min(os.cpu_count() or 1, _MOST_THREADS)
            if len(p) >= ITEMS_WORTH_A_THREAD
            else 1
        )
    # The kernels would be compiled anew for read-only arrays.
    p = np.require(p, np.float64, ["C", "A", "W"])
    offsets = np.require(offsets, np.int64, ["C", "A", "W"])
    denormal = (p > 0.0) & (p < LEAST_PROBABILITY)
    if denormal.any():
        p = np.where(denormal, 0.0, p)
    return _Batch(p, offsets, terms).run(threads)


def seconds(sizes: np.ndarray, spread: np.ndarray, terms: SetTerms) -> float:
    """The seconds of a core that `select_many` takes for these groups, within a factor of 2.

    sizes (groups,): the numbers of items; spread (groups,): the variances of the numbers of
    relevant items, on which the lengths of the laws of G-Mean and H-Mean depend. Measured on two
    cores. TooLarge or Invalid where the loss suits no such group.
    """
    is_large = sizes > DP_LIMIT
    n = sizes[is_large].astype(np.float64)
    largest = int(sizes.max(initial=0))
    check_usable(terms.loss, largest)
    if terms.loss.name == "fractional_linear" and len(n):
        form = denominator(terms.loss, largest)
        nodes = len(quadrature.exponential_sum(1.0, form.low, form.high).t)
        large = nodes * (15 + 0.03 * n)
    elif terms.loss.name == "mcc":
        large = 130 + 0.0016 * n**2
    elif terms.loss.name not in MEANS:
        large = 150 + 0.3 * n
    else:
        large = 700 + n * _mean_microseconds(spread[is_large], curve=terms.curve)
    return float(0.4 * sizes[~is_large].sum() + large.sum()) / 1e6


def _mean_microseconds(spread: np.ndarray, *, curve: bool) -> np.ndarray:
    """The time (groups,) of G-Mean and H-Mean for each item; with a curve that for each k, too.

    It grows with the lengths of both laws until thinned ones or Gauss's rule take their place.
    """
    short = spread < _VARIANCE_OF_SHORT_LAWS
    # The share of items with a law falls as the variance grows.
    time_of_laws = 1500 / np.maximum(spread, _VARIANCE_OF_SHORT_LAWS)
    if curve:
        return np.where(short, np.minimum(3 + 0.5 * spread, 70), 3 + 5 * time_of_laws)
    return np.where(short, 1.3 + 0.018 * spread, 0.4 + np.minimum(time_of_laws, 1.4))


class _Batch:
    """The arrays of one batch; each thread fills those of some groups."""

    def __init__(self, p: np.ndarray, offsets: np.ndarray, terms: SetTerms) -> None:
        self.p, self.offsets = p, offsets
        self.terms = terms
        self.proven = True
        self.sizes = np.diff(offsets)
        groups = len(self.sizes)
        distinct, places = np.unique(self.sizes, return_inverse=True)
        bounds = np.empty((2, len(distinct)), dtype=np.int64)
        errors = np.zeros(len(distinct))
        for i, n in enumerate(distinct.tolist()):
            check_usable(terms.loss, n)
            bounds[:, i] = terms.sizes(n)
            errors[i] = table_error(terms.loss, n) if n <= DP_LIMIT else 0.0
        self.low, self.high = bounds[:, places]
        self.order = np.empty(len(self.p), dtype=np.int64)
        self.k = np.empty(groups, dtype=np.int64)
        self.numbers = np.empty((groups, 4))
        self.numbers[:, 3] = errors[places]
        self.curves = np.empty(len(self.p) + groups if terms.curve else 0)
        self.tables, self.starts = self._tables(distinct[distinct <= DP_LIMIT])

    def run(self, threads: int) -> Selections:
        """Fill all groups on so many threads, and return their sets."""
        # The kernel of small sets takes those of one size together.
        ascending = np.argsort(self.sizes, kind="stable")
        n_small = int(np.searchsorted(self.sizes[ascending], DP_LIMIT, side="right"))
        small = ascending[:n_small]
        large = np.sort(ascending[n_small:])
        tasks = [
            (self._small, share)
            for share in np.array_split(small, threads)
            if len(share)
        ]
        tasks += [(self._large, share) for share in np.array_split(large, threads)]
        if threads == 1 or len(self.sizes) == 1:
            for fill, share in tasks:
                fill(share)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for future in [pool.submit(fill, share) for fill, share in tasks]:
                    future.result()
        warnings = self.terms.warnings(int(self.sizes.max(initial=0)))
        ends = np.repeat(self.offsets[:-1] + self.k, self.sizes)
        selected = self.order[np.arange(len(self.p)) < ends]
        loss = self.terms.loss
        self.numbers[:, 0] = loss.within_range(self.numbers[:, 0])
        return Selections(
            selected, self.k, np.ascontiguousarray(self.numbers.T), self.sizes + 1,
            loss.within_range(self.curves) if self.terms.curve else None,
            warnings if self.proven else (*warnings, UNPROVEN_WARNING),
        )  # fmt: skip

    def _small(self, share: np.ndarray) -> None:
        """Fill these groups by the kernel of small sets."""
        small_sets(
            share, self.p, self.offsets, self.tables, self.starts, self.low, self.high,
            self.order, self.k, self.numbers, self.curves,
        )  # fmt: skip

    def _large(self, share: np.ndarray) -> None:
        """Fill these groups one by one."""
        for i in share:
            first, last = self.offsets[i], self.offsets[i + 1]
            self.order[first:last], ranked = descending(self.p[first:last])
            best, curve, *rates = _best(ranked, self.low[i], self.high[i], self.terms)
            self.k[i] = best.k
            self.proven = self.proven and best.proven
            self.numbers[i] = best.loss, *rates, best.error
            if self.terms.curve:
                self.curves[first + i : last + i + 1] = curve

    def _tables(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The losses and recalls of all `sizes`, one after another, and where each size begins."""
        if not len(sizes):
            return np.empty((2, 0)), np.zeros(1, dtype=np.int64)
        losses = [loss_table(self.terms.loss, int(n), self.terms.empty) for n in sizes]
        recalls = [recall_table(int(n)) for n in sizes]
        lengths = np.zeros(DP_LIMIT + 1, dtype=np.int64)
        lengths[sizes] = [len(table) for table in losses]
        tables = np.stack([np.concatenate(losses), np.concatenate(recalls)])
        return tables, np.concatenate([[0], np.cumsum(lengths)])


def _best(
    ranked: np.ndarray, low: int, high: int, terms: SetTerms
) -> tuple[Best, np.ndarray, float, float]:
    """The best k from low to high, the curve, and the expected precision and recall of k items.

    The curve is empty where a loss does not need it and the terms do not ask for it.
    """
    if terms.loss.name in MEANS and not terms.curve:
        rates = quadrature.rates(ranked)
        curve = np.empty(0)
        best = MeanOfRates(ranked, harmonic=MEANS[terms.loss.name]).best(
            rates, low, high
        )
        recall = rates.recall
    else:
        losses = expected_losses(ranked, terms.loss, terms.empty)
        curve = losses.values
        k = int(low + np.argmin(curve[low : high + 1]))
        best = Best(k, float(curve[k]), losses.error, losses.proven)
        recall = quadrature.recalls(ranked, k)
    precision = float(ranked[: best.k].sum()) / best.k if best.k else 1.0
    return best, curve, precision, float(recall[best.k])


def select_class_set(P: np.ndarray, terms: SetTerms) -> Selections:
    """For each row of class probabilities the set of classes with the smallest expected loss.

    P: (rows, K) probabilities, not checked; a row is divided by its sum, which may miss 1 by
    rounding. One class is true, so a set has one true positive with the probability of its classes,
    else none; its expected recall is that probability. O(K log K) per row. Invalid at the name of
    the argument.
    """
    loss = terms.loss
    P = np.asarray(P, dtype=np.float64)
    P = P / P.sum(axis=1, keepdims=True)
    rows, n = P.shape
    check_usable(loss, n)
    low, high = terms.sizes(n)
    order = np.argsort(-P, axis=1, kind="stable")
    inside = np.zeros((rows, n + 1))
    np.cumsum(np.take_along_axis(P, order, axis=1), axis=1, out=inside[:, 1:])
    inside[:, n] = 1.0
    sizes = np.arange(n + 1)
    positives = np.ones(n + 1)
    hit = loss.of_counts(np.minimum(1, sizes), sizes, positives, n, empty=terms.empty)
    miss = loss.of_counts(
        np.maximum(0, sizes + 1 - n), sizes, positives, n, empty=terms.empty
    )
    curves = inside * hit + (1.0 - inside) * miss
    k = low + curves[:, low : high + 1].argmin(axis=1)
    pick = np.arange(rows), k
    precision = np.where(k > 0, inside[pick] / np.maximum(k, 1), 1.0)
    figures = np.stack(
        (curves[pick], precision, inside[pick], np.full(rows, table_error(loss, n)))
    )
    chosen = order[sizes[:n] < k[:, None]]
    curve = curves.ravel() if terms.curve else None
    return Selections(
        chosen, k, figures, np.full(rows, n + 1), curve, terms.warnings(n)
    )
