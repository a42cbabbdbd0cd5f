"""The set of items with the smallest expected loss.

For a loss that falls with the true positives, and independent labels, some set of the k most likely items is best of
all sets (Natarajan et al. 2016, Theorem 1). The same exchange of two items shows that it has the largest expected
recall and precision of all sets of k items, so a constraint on either is met by the best k items or by no k items at
all: the best set under constraints is the best k among those that meet them.

Many sets at once, for instance the labels of each of many instances, go through one kernel that neither holds the
interpreter's lock nor allocates per set; it is called once per thread on a share of the sets. Python's threads are used
rather than numba's: those may not be entered from two requests at a time, nor after a fork.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from app.arrays import F64, Bools
from app.errors import Invalid, pointer
from app.retrieval import quadrature
from app.retrieval.dynamic_programming import loss_table, recall_table, small_sets, table_error, tabled_curve
from app.retrieval.losses import Loss, Terms, check_monotone, denominator
from app.retrieval.quadrature import BY_QUADRATURE, UNIT, Curve
from app.retrieval.windows import Best, MeanOfRates

# Up to this many items dynamic programming, O(n³/6) on tabled losses, beats the quadrature's O(nodes n), for one set:
# both take some 30 microseconds here, most of it outside the kernels.
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
    if not terms.min_recall and not terms.min_precision:
        return low, high
    recall = quadrature.recalls(ranked) if terms.min_recall else np.ones(len(ranked) + 1)
    precision = np.concatenate([[1.0], np.cumsum(ranked) / np.arange(1, len(ranked) + 1)])
    slack = quadrature.rate_error(len(ranked))
    met = np.flatnonzero(_allowed(recall[None], precision[None], (low, high), terms, slack)[0])
    return int(met[0]), int(met[-1])


def _allowed(recall: F64, precision: F64, sizes: tuple[int, int], terms: Terms, slack: float) -> Bools:
    """Which sizes meet the constraints in each row of rates (rows, n + 1); Invalid, naming the row, where none does."""
    allowed = np.zeros(recall.shape, dtype=np.bool_)
    allowed[:, sizes[0] : sizes[1] + 1] = True
    for name, least, rates in (("recall", terms.min_recall, recall), ("precision", terms.min_precision, precision)):
        if least:
            met = allowed & (rates >= least - slack)
            none = ~met.any(axis=1)
            if none.any():
                row = int(np.argmax(none))
                best, which = rates[row][allowed[row]].max(), f" of row {row}" if len(rates) > 1 else ""
                which += f" with a recall of {terms.min_recall}" if name == "precision" and terms.min_recall else ""
                why = f"no set{which} has an expected {name} of {least}; the largest is {best:.6g}"
                raise Invalid.at(pointer(f"min_{name}"), why)
            allowed = met
    return allowed


def descending(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of probabilities (n,), largest first, equal ones in their order; and p in this order."""
    order = np.argsort(-p)  # not stable, and several times faster for it
    ranked = p[order]
    tied = ranked[1:] == ranked[:-1]
    if tied.any():
        rank = np.concatenate(([0], np.cumsum(~tied)))
        order = np.sort(rank * len(p) + order) % len(p)
    return order, p[order]


# Sets up to this size are computed many at a time by dynamic programming: 10 microseconds per set of 64, where one call
# for one set costs 100, whatever its method.
BATCH_DP_LIMIT = 64

ITEMS_WORTH_A_THREAD = 20_000  # some milliseconds of work; a pool takes 0.2 to start
_MOST_THREADS = 4  # of one call, of several at once: a container is told of all the machine's cores


@dataclass(frozen=True)
class Selections:
    """One best set for each group of items.

    order: every group's own positions, best first, one group after the other; `offsets` (groups + 1,) says where each
    begins; the first k[i] are retrieved. curves: L_0 … L_n of group i begin at offsets[i] + i.
    """

    order: np.ndarray
    offsets: np.ndarray
    k: np.ndarray
    expected_loss: np.ndarray
    expected_precision: np.ndarray
    expected_recall: np.ndarray
    error_bound: np.ndarray
    curves: np.ndarray | None
    warnings: tuple[str, ...] = ()


def select_many(p: np.ndarray, offsets: np.ndarray, terms: Terms, *, threads: int | None = None) -> Selections:
    """`select` for every group p[offsets[i] : offsets[i + 1]] of independent items.

    p: (total,) probabilities; offsets: (groups + 1,) rising from 0 to total. A hundred thousand groups of 20 take some
    30 ms on two threads (by default as many as there are cores, at most four). The groups are not checked. Invalid
    at `/k_min` where one is too small, at `/min_recall` or `/min_precision` (naming the group) where no set meets them.
    """
    p, offsets = (np.require(given, kind, ["C", "A", "W"]) for given, kind in ((p, np.float64), (offsets, np.int64)))
    if threads is None:
        threads = min(os.cpu_count() or 1, _MOST_THREADS) if len(p) >= ITEMS_WORTH_A_THREAD else 1
    return _Batch(p, offsets, terms).run(threads)


def seconds(sizes: np.ndarray, terms: Terms) -> float:
    """About how many seconds of a core `select_many` takes for groups of these sizes, within a factor of two.

    Measured on two cores. TooLarge or Invalid where the loss suits no such group.
    """
    n = sizes[sizes > BATCH_DP_LIMIT].astype(np.float64)
    largest = int(sizes.max(initial=0))
    check_usable(terms.loss, largest)
    if terms.loss.name == "fractional_linear" and len(n):
        form = denominator(terms.loss, largest)
        large = len(quadrature.exponential_sum(1.0, form.low, form.high).t) * (8 + 0.013 * n)
    elif terms.loss.name not in MEANS:
        large = 90 + 0.2 * n
    else:  # each k of a curve costs what its laws are long, up to where Gauss's rule takes their place
        of_best, of_curve = np.minimum(1.7 * n, 3000 + 0.25 * n), np.minimum(0.05 * n**2, 45_000 + 3 * n)
        large = 200 + (of_curve if terms.curve else of_best)
    return float(0.4 * sizes[sizes <= BATCH_DP_LIMIT].sum() + large.sum()) / 1e6


class _Batch:
    """The arrays of one batch, filled by threads that each own some of the groups."""

    def __init__(self, p: np.ndarray, offsets: np.ndarray, terms: Terms) -> None:
        self.p, self.offsets, self.terms = p, offsets, terms
        self.sizes = np.diff(offsets)
        groups, present = len(self.sizes), np.unique(self.sizes)
        allowed = np.zeros((int(present.max(initial=0)) + 1, 2), dtype=np.int64)
        errors = np.zeros(len(allowed))
        for n in present.tolist():
            check_usable(terms.loss, n)
            allowed[n] = terms.sizes(n)
            errors[n] = table_error(terms.loss, n) if n <= BATCH_DP_LIMIT else 0.0
        self.low, self.high = np.ascontiguousarray(allowed[self.sizes].T)
        self.order = np.empty(len(p), dtype=np.int64)
        self.k = np.empty(groups, dtype=np.int64)
        self.numbers = np.empty((groups, 3))
        self.curves = np.empty(len(p) + groups if terms.curve else 0)
        self.errors = errors[self.sizes]
        self.tables, self.starts = self._tables(present[present <= BATCH_DP_LIMIT])

    def run(self, threads: int) -> Selections:
        ascending = np.argsort(self.sizes, kind="stable")  # the kernel takes sets of one size together
        small = ascending[: int(np.searchsorted(self.sizes[ascending], BATCH_DP_LIMIT, side="right"))]
        shares = [(self._small, share) for share in np.array_split(small, threads) if len(share)]
        shares += [
            (self._large, share) for share in np.array_split(np.flatnonzero(self.sizes > BATCH_DP_LIMIT), threads)
        ]
        if threads == 1 or len(self.sizes) == 1:
            proven = [task(share) for task, share in shares]
        else:
            with ThreadPoolExecutor(threads) as pool:
                proven = [done.result() for done in [pool.submit(task, share) for task, share in shares]]
        if np.any(self.k < 0):  # the error of one set alone names the best attainable rate
            self._large(np.flatnonzero(self.k < 0)[:1])
        warnings = self.terms.warnings(int(self.sizes.max(initial=0)))
        if self.terms.min_precision and np.any(self.k == 0):
            warnings += (NOTHING_WARNING,)
        if not all(proven):
            warnings += (UNPROVEN_WARNING,)
        loss, precision, recall = np.ascontiguousarray(self.numbers.T)
        curves = self.curves if self.terms.curve else None
        return Selections(self.order, self.offsets, self.k, loss, precision, recall, self.errors, curves, warnings)

    def _small(self, share: np.ndarray) -> bool:
        """Fill these groups; whether all are proven to be the best sets."""
        small_sets(
            share, self.p, self.offsets, self.tables, self.starts, self.low, self.high,
            _least(self.terms.min_recall), _least(self.terms.min_precision),
            self.order, self.k, self.numbers, self.curves,
        )  # fmt: skip
        return True

    def _large(self, share: np.ndarray) -> bool:
        """Fill these groups one by one; whether all are proven to be the best sets."""
        proven = True
        for i in share:
            first, last = self.offsets[i], self.offsets[i + 1]
            order, ranked = descending(self.p[first:last])
            try:
                one = select_ranked(order, ranked, self.terms)
            except Invalid as error:
                raise Invalid(f"set {i}: {error.detail}", error.flaws) from None
            self.order[first:last], self.k[i], self.errors[i] = order, one.k, one.error_bound
            self.numbers[i] = one.expected_loss, one.expected_precision, one.expected_recall
            proven &= UNPROVEN_WARNING not in one.warnings
            if one.curve is not None:
                self.curves[first + i : last + i + 1] = one.curve
        return proven

    def _tables(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The loss and the recall of every size present, one after the other, and where each size begins."""
        if not len(sizes):
            return np.empty((2, 0)), np.zeros(1, dtype=np.int64)
        losses = [loss_table(self.terms.loss, int(n), self.terms.empty) for n in sizes]
        recalls = [recall_table(int(n)) for n in sizes]
        lengths = np.zeros(BATCH_DP_LIMIT + 1, dtype=np.int64)
        lengths[sizes] = [len(table) for table in losses]
        return np.stack([np.concatenate(losses), np.concatenate(recalls)]), np.concatenate([[0], np.cumsum(lengths)])


def _least(rate: float | None) -> float:
    """A minimum rate, less the rounding of the rates compared with it."""
    return max(rate - quadrature.rate_error(BATCH_DP_LIMIT), 0.0) if rate else 0.0


def select_class_set(P: np.ndarray, terms: Terms) -> Selections:
    """For each row of class probabilities the set of classes with the smallest expected loss.

    P: (rows, K) probabilities, not checked; a row is divided by its sum, which may miss 1 by rounding. One class is
    true, so a set has one true positive with the probability of its classes, else none; its expected recall is that
    probability. O(K log K) per row. The precision of an empty set is 1. Invalid at the name of the argument, naming the
    row where a constraint cannot be met.
    """
    loss, table = terms.loss, np.asarray(P, dtype=np.float64)
    table = table / table.sum(axis=1, keepdims=True)
    rows, n = table.shape
    check_usable(loss, n)
    low, high = terms.sizes(n)
    order = np.argsort(-table, axis=1, kind="stable")
    inside = np.zeros((rows, n + 1))
    np.cumsum(np.take_along_axis(table, order, axis=1), axis=1, out=inside[:, 1:])
    inside[:, n] = 1.0
    outside = 1.0 - inside
    sizes = np.arange(n + 1)
    positives = np.ones(n + 1)
    hit = loss.of_counts(np.minimum(1, sizes), sizes, positives, n, empty=terms.empty)
    miss = loss.of_counts(np.maximum(0, sizes + 1 - n), sizes, positives, n, empty=terms.empty)
    curves = inside * hit + outside * miss
    precision = np.ones_like(inside)
    precision[:, 1:] = inside[:, 1:] / sizes[1:]
    allowed = _allowed(inside, precision, (low, high), terms, 4 * (n + 1) * UNIT)
    k = np.where(allowed, curves, np.inf).argmin(axis=1)
    pick = np.arange(rows), k
    error = np.full(rows, table_error(loss, n))
    warnings = terms.warnings(n) + ((NOTHING_WARNING,) if terms.min_precision and np.any(k == 0) else ())
    return Selections(
        order=order.ravel(), offsets=np.arange(rows + 1) * n, k=k, expected_loss=curves[pick],
        expected_precision=precision[pick], expected_recall=inside[pick], error_bound=error,
        curves=curves.ravel() if terms.curve else None, warnings=warnings,
    )  # fmt: skip
