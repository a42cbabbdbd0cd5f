"""Compiled: laws of sums by dynamic programming, and the best of many small sets. p_i marginals, k retrieved.

Kernels get checked float64 arrays, allocate only small scratch space and hold no lock. `reassoc` and `contract` let
the compiler add in vector lanes and fuse multiply-adds; nothing here depends on the order of an addition.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Stated in each file of kernels: numba's cache notices a change of the kernel's own file alone.
compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

LANES = 32  # small sets computed at once: 8 lanes take twice as long per set, 64 a third less but outgrow the cache


@compiled
def tabled_curves(p, tables, prefixes, suffix, curves):
    """For several sets of n items, curves[:, k] = Σ_t Σ_m Pr(t of the first k) Pr(m of the others) tables[:][k; t, m].

    p: (n, lanes), a set per lane. Each of the two tables holds its (k + 1) x (n - k + 1) blocks one after the other.
    O(n³/6) per set. The lane is the last axis of every array, so that inner loops are vector operations, and four
    entries of a table are used at a time, which halves the loads. prefixes, suffix are scratch.
    """
    n, lanes = p.shape
    prefixes[0, 0, :lanes] = 1.0
    suffix[0, :lanes] = 1.0
    curves[:, : n + 1, :lanes] = 0.0
    for k in range(n):
        extend_lanes(prefixes[k], k + 1, p[k], prefixes[k + 1])
    end = tables.shape[1]
    for k in range(n, -1, -1):
        width = n - k + 1
        end -= (k + 1) * width
        for t in range(k + 1):
            at, quads = end + t * width, width // 4 * 4
            before, first, second = prefixes[k, t], curves[0, k], curves[1, k]
            for m in range(0, quads, 4):
                a0, a1, a2, a3 = tables[0, at + m], tables[0, at + m + 1], tables[0, at + m + 2], tables[0, at + m + 3]
                b0, b1, b2, b3 = tables[1, at + m], tables[1, at + m + 1], tables[1, at + m + 2], tables[1, at + m + 3]
                s0, s1, s2, s3 = suffix[m], suffix[m + 1], suffix[m + 2], suffix[m + 3]
                for lane in range(lanes):
                    first[lane] += before[lane] * (s0[lane] * a0 + s1[lane] * a1 + s2[lane] * a2 + s3[lane] * a3)
                    second[lane] += before[lane] * (s0[lane] * b0 + s1[lane] * b1 + s2[lane] * b2 + s3[lane] * b3)
            for m in range(quads, width):
                a, b, s = tables[0, at + m], tables[1, at + m], suffix[m]
                for lane in range(lanes):
                    both = before[lane] * s[lane]
                    first[lane] += both * a
                    second[lane] += both * b
        if k > 0:
            extend_lanes(suffix, width, p[k - 1], suffix)


@compiled
def extend_lanes(old, size, p, new):
    """One more Bernoulli variable in the law of each lane: old[0:size] becomes new[0:size + 1]; new may be old."""
    lanes = p.size
    for lane in range(lanes):
        new[size, lane] = p[lane] * old[size - 1, lane]
    for t in range(size - 1, 0, -1):
        now, before, out = old[t], old[t - 1], new[t]
        for lane in range(lanes):
            out[lane] = (1.0 - p[lane]) * now[lane] + p[lane] * before[lane]
    for lane in range(lanes):
        new[0, lane] = (1.0 - p[lane]) * old[0, lane]


@compiled
def descending(p, order):
    """Write to order the positions of p, largest first, equal ones in their order: insertion, for small sets."""
    for i in range(p.size):
        j = i
        while j > 0 and p[order[j - 1]] < p[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@compiled
def best_size(ranked, losses, recalls, low, high, least_recall, least_precision):
    """The size with the least loss among those allowed (-1: none), the loss, precision and recall there."""
    best, loss, precision, recall, expected, share = -1, 0.0, 1.0, 1.0, 0.0, 1.0
    for k in range(ranked.size + 1):
        if k > 0:
            expected += ranked[k - 1]
            share = expected / k
        allowed = low <= k <= high and share >= least_precision and recalls[k] >= least_recall
        if allowed and (best < 0 or losses[k] < loss):
            best, loss, precision, recall = k, losses[k], share, recalls[k]
    return best, loss, precision, recall


@compiled
def small_sets(sets, p, offsets, tables, starts, low, high, least_recall, least_precision, order, k, numbers, curves):
    """The best set of each of `sets` (ascending in size): k[i], -1 where none is allowed.

    numbers[i] = loss, precision, recall. tables[0] and tables[1] hold the loss and the recall of every size of set,
    from starts[size]. Curves are written where curves is not empty: set i's begin at offsets[i] + i.
    """
    last = sets[sets.size - 1]
    widest = offsets[last + 1] - offsets[last]
    prefixes, suffix = np.empty((widest + 1, widest + 1, LANES)), np.empty((widest + 1, LANES))
    ranked, found = np.empty((widest, LANES)), np.empty((2, widest + 1, LANES))
    at = 0
    while at < sets.size:
        n = offsets[sets[at] + 1] - offsets[sets[at]]
        group = 0
        while group < LANES and at + group < sets.size:
            i = sets[at + group]
            if offsets[i + 1] - offsets[i] != n:
                break
            own, ranking = p[offsets[i] : offsets[i + 1]], order[offsets[i] : offsets[i + 1]]
            descending(own, ranking)
            for j in range(n):
                ranked[j, group] = own[ranking[j]]
            group += 1
        ranked[:n, group:] = 0.0
        tabled_curves(ranked[:n], tables[:, starts[n] : starts[n + 1]], prefixes, suffix, found)
        for lane in range(group):
            i = sets[at + lane]
            losses, recalls = found[0, : n + 1, lane], found[1, : n + 1, lane]
            k[i], numbers[i, 0], numbers[i, 1], numbers[i, 2] = best_size(
                ranked[:n, lane], losses, recalls, low[i], high[i], least_recall, least_precision
            )
            if curves.size > 0:
                curves[offsets[i] + i : offsets[i + 1] + i + 1] = losses
        at += group
