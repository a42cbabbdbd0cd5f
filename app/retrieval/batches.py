"""Many sets at once, of any sizes: for instance the labels of each of many instances.

Small sets go through one kernel that neither holds the interpreter's lock nor allocates per set; it is called once per
thread on a share of the sets. Python's threads are used rather than numba's: those may not be entered from two
requests at a time, nor after a fork.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from app.errors import Invalid
from app.retrieval import _dynamic_programming
from app.retrieval.losses import denominator
from app.retrieval.quadrature import exponential_sum, rate_error
from app.retrieval.selection import (
    MEANS,
    NOTHING_WARNING,
    UNPROVEN_WARNING,
    check_usable,
    loss_table,
    recall_table,
    select_ranked,
    table_error,
)
from app.retrieval.terms import Terms, descending

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

    Measured on the machine of benchmarks/retrieval_speed.py. TooLarge or Invalid where the loss suits no such group.
    """
    n = sizes[sizes > BATCH_DP_LIMIT].astype(np.float64)
    largest = int(sizes.max(initial=0))
    check_usable(terms.loss, largest)
    if terms.loss.name == "fractional_linear" and len(n):
        form = denominator(terms.loss, largest)
        large = len(exponential_sum(1.0, form.low, form.high).t) * (8 + 0.013 * n)
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
        groups = len(self.sizes)
        self.present = np.unique(self.sizes)
        allowed = np.zeros((int(self.present.max(initial=0)) + 1, 2), dtype=np.int64)
        for n in self.present:
            check_usable(terms.loss, int(n))
            allowed[n] = terms.sizes(int(n))
        self.low, self.high = np.ascontiguousarray(allowed[self.sizes].T)
        self.order = np.empty(len(p), dtype=np.int64)
        self.k = np.empty(groups, dtype=np.int64)
        self.numbers = np.empty((groups, 3))
        self.curves = np.empty(len(p) + groups if terms.curve else 0)
        self.errors = np.empty(groups)
        self.unproven = False
        self.tables, self.starts = self._tables(self.present[self.present <= BATCH_DP_LIMIT])

    def run(self, threads: int) -> Selections:
        ascending = np.argsort(self.sizes, kind="stable")  # the kernel takes sets of one size together
        small = ascending[: int(np.searchsorted(self.sizes[ascending], BATCH_DP_LIMIT, side="right"))]
        shares = [(self._small, share) for share in np.array_split(small, threads) if len(share)]
        shares += [
            (self._large, share) for share in np.array_split(np.flatnonzero(self.sizes > BATCH_DP_LIMIT), threads)
        ]
        if threads == 1 or len(self.sizes) == 1:
            for task, share in shares:
                task(share)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for done in [pool.submit(task, share) for task, share in shares]:
                    done.result()
        if np.any(self.k < 0):
            self._refuse(int(np.argmax(self.k < 0)))
        return self._selections()

    def _small(self, share: np.ndarray) -> None:
        terms = self.terms
        _dynamic_programming.small_sets(
            share, self.p, self.offsets, self.tables, self.starts, self.low, self.high,
            _least(terms.min_recall), _least(terms.min_precision), self.order, self.k, self.numbers, self.curves,
        )  # fmt: skip
        errors = np.zeros(BATCH_DP_LIMIT + 1)
        for n in self.present[self.present <= BATCH_DP_LIMIT]:
            errors[n] = table_error(terms.loss, int(n))
        self.errors[share] = errors[self.sizes[share]]

    def _large(self, share: np.ndarray) -> None:
        for i in share:
            first, last = self.offsets[i], self.offsets[i + 1]
            order, ranked = descending(self.p[first:last])
            try:
                one = select_ranked(order, ranked, self.terms)
            except Invalid as error:
                raise Invalid(f"set {i}: {error.detail}", error.flaws) from None
            self.order[first:last], self.k[i], self.errors[i] = order, one.k, one.error_bound
            self.numbers[i] = one.expected_loss, one.expected_precision, one.expected_recall
            if UNPROVEN_WARNING in one.warnings:
                self.unproven = True  # only ever set: other threads do so, too
            if one.curve is not None:
                self.curves[first + i : last + i + 1] = one.curve

    def _tables(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The loss and the recall of every size present, one after the other, and where each size begins."""
        if not len(sizes):
            return np.empty((2, 0)), np.zeros(1, dtype=np.int64)
        losses = [loss_table(self.terms.loss, int(n), self.terms.empty) for n in sizes]
        recalls = [recall_table(int(n)) for n in sizes]
        lengths = np.zeros(BATCH_DP_LIMIT + 1, dtype=np.int64)
        lengths[sizes] = [len(table) for table in losses]
        return np.stack([np.concatenate(losses), np.concatenate(recalls)]), np.concatenate([[0], np.cumsum(lengths)])

    def _refuse(self, i: int) -> None:
        """The error of the single-set path names the best attainable rate."""
        self._large(np.array([i]))

    def _selections(self) -> Selections:
        warnings = self.terms.warnings(int(self.sizes.max(initial=0)))
        if self.terms.min_precision and np.any(self.k == 0):
            warnings += (NOTHING_WARNING,)
        if self.unproven:
            warnings += (UNPROVEN_WARNING,)
        loss, precision, recall = np.ascontiguousarray(self.numbers.T)
        curves = self.curves if self.terms.curve else None
        return Selections(self.order, self.offsets, self.k, loss, precision, recall, self.errors, curves, warnings)


def _least(rate: float | None) -> float:
    """A minimum rate, less the rounding of the rates compared with it."""
    return max(rate - rate_error(BATCH_DP_LIMIT), 0.0) if rate else 0.0
