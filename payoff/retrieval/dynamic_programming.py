"""Laws of sums by dynamic programming, and the best of many small sets. p_i marginals, k retrieved.

Kernels get checked float64 arrays, allocate only small scratch space and hold no lock. `reassoc`
and `contract` let the compiler add in vector lanes and fuse multiply-adds; nothing here depends on
the order of an addition.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from payoff.arrays import F64, I64
from payoff.compiled import copy, vector
from payoff.retrieval.losses import LARGEST_LOSS, Loss, denominator
from payoff.retrieval.quadrature import UNIT, Curve

# Entries of a law below this count as 0: products of two of them are denormal numbers, with which
# processors take fifty times as long.
NO_MASS = 1e-150
MOST_ITEMS_OF_MCC = 2000  # of a set with the loss `mcc`: 2 ms and 16 MB


def mcc_curve(p: np.ndarray, _loss: Loss, empty: int) -> Curve:
    """L_k = 1 - (n Σ_{i<=k} E[y_i w(P)] - k E[P w(P)]) / √(k (n - k)).

    w(P) = 1 / √(P (n - P)), or 0 where that is undefined. All terms are sums of products of
    nonnegative numbers, right to (6 n + 32) u each; the error counts what their difference cancels.
    p: (n,) probabilities of at least one item, most likely first. O(n²) in time and memory.
    """
    n = len(p)
    k = np.arange(1, n)
    w = np.concatenate([[0.0], 1.0 / np.sqrt(k * (n - k)), [0.0]])
    shares, law = np.empty(n), np.empty(n * (n + 1) // 2)
    shares_of_relevant(p, w, law, shares)
    hits = n * np.cumsum(shares)[:-1] * w[1:-1]
    base = k * float(shares.sum()) * w[1:-1]
    error = (6 * n + 32) * UNIT * float((hits + base).max(initial=1.0))
    nothing = 1.0 - (1 - empty) * float(np.prod(1.0 - p))
    return Curve(np.concatenate([[nothing], 1.0 - (hits - base), [1.0]]), error)


@vector
def shares_of_relevant(p: F64, w: F64, law: F64, out: F64) -> None:
    """out[i] = E[y_i w(P)] of n independent items.

    `law` (n (n + 1) / 2) becomes the laws of the first 0 … n - 1 items. The contribution of the
    items after i is carried from the last item backwards: after[j] = E[w(j + P_{>i} + 1)].
    """
    n = p.size
    law[0] = 1.0
    at = 0
    for i in range(n - 1):
        old, new, q = law[at : at + i + 1], law[at + i + 1 : at + 2 * i + 3], 1.0 - p[i]
        new[0], new[i + 1] = q * old[0], p[i] * old[i]
        if new[i + 1] < NO_MASS:
            new[i + 1] = 0.0
        for j in range(1, i + 1):
            mass = q * old[j] + p[i] * old[j - 1]
            new[j] = mass if mass > NO_MASS else 0.0
        at += i + 1
    after = np.empty(n)
    for j in range(n):
        after[j] = w[j + 1]
    for i in range(n - 1, -1, -1):
        before, total, q = law[at : at + i + 1], 0.0, 1.0 - p[i]
        for j in range(i + 1):
            total += before[j] * after[j]
        out[i] = p[i] * total
        for j in range(i):
            after[j] = q * after[j] + p[i] * after[j + 1]
        at -= i


def table_error(loss: Loss, n: int) -> float:
    """The rounding error of a loss by its table.

    It is 3 n u for the laws, (n + 1) u for the sums and a few u for the loss itself, more where its
    denominator cancels.
    """
    if loss.name != "fractional_linear" or n == 0:
        return (8 * n + 16) * UNIT * LARGEST_LOSS.get(loss.name, 1.0)
    form = denominator(loss, n)
    return (8 * n + 16 + 8 * form.cancels) * UNIT * max(form.largest, 1.0)


@lru_cache(maxsize=128)
def loss_table(loss: Loss, n: int, empty: int) -> np.ndarray:
    """The loss at all feasible counts, as the kernels read it: a block (tp, fn) for each k."""
    return _table(
        n, lambda tp, k, positives: loss.of_counts(tp, k, positives, n, empty=empty)
    )


@lru_cache(maxsize=128)
def recall_table(n: int) -> np.ndarray:
    """TPR at all feasible counts, in the blocks of `loss_table`."""

    def recall(tp: np.ndarray, _k: np.ndarray, positives: np.ndarray) -> np.ndarray:
        return np.where(positives > 0, tp / np.maximum(positives, 1), 1.0)

    return _table(n, recall)


def _table(
    n: int, of_counts: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    blocks = []
    for k in range(n + 1):
        tp, fn = np.arange(k + 1)[:, None], np.arange(n - k + 1)[None, :]
        blocks.append(np.ravel(of_counts(tp, np.array([[k]]), tp + fn)))
    return np.concatenate(blocks)


# Small sets that are computed at once: 32 take a sixth longer per set, 8 more than twice as long.
LANES = 64
# Items of a set up to which the laws of `LANES` sets fit into the cache; of larger sets half as
# many are computed at once.
MOST_ITEMS_OF_ALL_LANES = 24


@vector
def tabled_curves(
    p: F64, table: F64, prefixes: F64, suffixes: F64, curves: F64
) -> None:
    """For several sets, curves[k] = Σ_t Σ_m Pr(t of the first k) Pr(m after) table[k; t, m].

    Algorithm 1 of Natarajan et al. (2016), with all laws from one recursion: O(n³/6) per set. p:
    (n, lanes), a set per lane. The table holds its (k + 1) x (n - k + 1) blocks one after the
    other. The lane is the last axis of every array, so that inner loops are vector operations, and
    eight entries of the table are used at a time, which saves loads. prefixes[k] and suffixes[k]
    become the laws of the first and last k.
    """
    n, lanes = p.shape
    prefixes[0, 0, :lanes] = 1.0
    suffixes[0, 0, :lanes] = 1.0
    curves[: n + 1, :lanes] = 0.0
    for k in range(n):
        extend_lanes(prefixes[k], k + 1, p[k], prefixes[k + 1])
        extend_lanes(suffixes[k], k + 1, p[n - 1 - k], suffixes[k + 1])
    at = 0
    for k in range(n + 1):
        width, curve, suffix = n - k + 1, curves[k], suffixes[n - k]
        eights = width // 8 * 8
        for t in range(k + 1):
            before = prefixes[k, t]
            for m in range(0, eights, 8):
                a0, a1 = table[at + m], table[at + m + 1]
                a2, a3 = table[at + m + 2], table[at + m + 3]
                b0, b1 = table[at + m + 4], table[at + m + 5]
                b2, b3 = table[at + m + 6], table[at + m + 7]
                s0, s1, s2, s3 = suffix[m], suffix[m + 1], suffix[m + 2], suffix[m + 3]
                t0, t1, t2, t3 = (
                    suffix[m + 4],
                    suffix[m + 5],
                    suffix[m + 6],
                    suffix[m + 7],
                )
                for lane in range(lanes):
                    first = (
                        s0[lane] * a0 + s1[lane] * a1 + s2[lane] * a2 + s3[lane] * a3
                    )
                    second = (
                        t0[lane] * b0 + t1[lane] * b1 + t2[lane] * b2 + t3[lane] * b3
                    )
                    curve[lane] += before[lane] * (first + second)
            for m in range(eights, width):
                a, s = table[at + m], suffix[m]
                for lane in range(lanes):
                    curve[lane] += before[lane] * s[lane] * a
            at += width


@vector
def mean_of(
    k: int, n: int, lane: int, table: F64, prefixes: F64, suffixes: F64
) -> float:
    """The mean of the table's block k over one lane's laws."""
    at = 0
    for j in range(k):
        at += (j + 1) * (n - j + 1)
    total = 0.0
    for t in range(k + 1):
        inner = 0.0
        for m in range(n - k + 1):
            inner += suffixes[n - k, m, lane] * table[at]
            at += 1
        total += prefixes[k, t, lane] * inner
    return total


@vector
def extend_lanes(old: F64, size: int, p: F64, new: F64) -> None:
    """One more Bernoulli variable in the law of each lane: old[0:size] becomes new[0:size + 1]."""
    lanes = p.size
    for lane in range(lanes):
        new[0, lane] = (1.0 - p[lane]) * old[0, lane]
        last = p[lane] * old[size - 1, lane]
        new[size, lane] = last if last > NO_MASS else 0.0
    for t in range(1, size):
        at_t, before, out = old[t], old[t - 1], new[t]
        for lane in range(lanes):
            mass = (1.0 - p[lane]) * at_t[lane] + p[lane] * before[lane]
            out[lane] = mass if mass > NO_MASS else 0.0


@vector
def fill_lanes(sets: I64, p: F64, offsets: I64, ranked: F64, position: I64) -> int:
    """Write the first sets of n items to the lanes of `ranked` (n, lanes); count them.

    In `position` (n, lanes) each lane becomes 0 … n - 1.
    """
    n, lanes = ranked.shape
    group = 0
    while group < min(lanes, sets.size):
        i = sets[group]
        if offsets[i + 1] - offsets[i] != n:
            break
        for j in range(n):
            ranked[j, group], position[j, group] = p[offsets[i] + j], j
        group += 1
    ranked[:, group:] = 0.0
    return group


@vector
def sort_lanes(p: F64, position: I64) -> None:
    """Sort every lane of p (n, lanes), largest first, equal ones in their order; `position` alike.

    Odd-even transposition: its O(n²) comparisons are vector operations, where a sort of each lane
    branches.
    """
    n, lanes = p.shape
    for turn in range(n):
        for j in range(turn % 2, n - 1, 2):
            upper, lower, above, below = p[j], p[j + 1], position[j], position[j + 1]
            for lane in range(lanes):
                a, b, at, next_at = upper[lane], lower[lane], above[lane], below[lane]
                swap = a < b
                upper[lane] = b if swap else a
                lower[lane] = a if swap else b
                above[lane] = next_at if swap else at
                below[lane] = at if swap else next_at


@vector
def small_sets(
    sets: I64, p: F64, offsets: I64, tables: F64, starts: I64, low: I64, high: I64,
    order: I64, k: I64, numbers: F64, curves: F64,
) -> None:  # fmt: skip
    """The best size k[i] from low[i] to high[i] for each of `sets` (ascending in size).

    numbers[i] = loss, precision, recall, … tables[0] and tables[1] hold the loss and the recall of
    every size of set, from starts[size]. Curves are written unless `curves` is empty: that of set i
    begins at offsets[i] + i.
    """
    at, lanes, largest = 0, 0, -1
    while at < sets.size:
        n = offsets[sets[at] + 1] - offsets[sets[at]]
        if n > largest:
            largest = n
            lanes = LANES if n <= MOST_ITEMS_OF_ALL_LANES else LANES // 2
            lanes = min(lanes, sets.size - at)
            prefixes, suffixes = (
                np.empty((n + 1, n + 1, lanes)),
                np.empty((n + 1, n + 1, lanes)),
            )
            ranked, position = np.empty((n, lanes)), np.zeros((n, lanes), np.int64)
            losses = np.empty((n + 1, lanes))
        group = fill_lanes(sets[at:], p, offsets, ranked, position)
        sort_lanes(ranked, position)
        loss, recall = (
            tables[0, starts[n] : starts[n + 1]],
            tables[1, starts[n] : starts[n + 1]],
        )
        tabled_curves(ranked, loss, prefixes, suffixes, losses)
        for lane in range(group):
            i = sets[at + lane]
            for j in range(n):
                order[offsets[i] + j] = position[j, lane]
            best, precision, expected = -1, 1.0, 0.0
            for j in range(high[i] + 1):
                if j > 0:
                    expected += ranked[j - 1, lane]
                if j >= low[i] and (best < 0 or losses[j, lane] < losses[best, lane]):
                    best, precision = j, expected / j if j > 0 else 1.0
            k[i], numbers[i, 0], numbers[i, 1] = best, losses[best, lane], precision
            numbers[i, 2] = mean_of(best, n, lane, recall, prefixes, suffixes)
            if curves.size > 0:
                copy(losses[:, lane], curves[offsets[i] + i : offsets[i + 1] + i + 1])
        at += group
