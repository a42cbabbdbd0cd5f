"""Extremely randomised trees (Geurts, Ernst, Wehenkel 2006), grown depth first."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from payoff.acquisition.nodes import MISSING_LEFT, Nodes, beside
from payoff.arrays import F32, F64, I32, U64
from payoff.compiled import copy, kernel


class Rule(NamedTuple):
    """How trees are grown: at least `least` rows in a leaf, `tries` random thresholds for each feature at a split."""

    least: int
    tries: int = 1


def grow(
    X: F32, codes: np.ndarray, weights: np.ndarray, K: int, rule: Rule, seeds: Sequence[int]
) -> tuple[Nodes, F64]:
    """One forest, a tree for each seed, of the columns X (m, n) float32, NaN where missing; and the importance (m,).

    `codes` (n,) class codes, `weights` (n,) > 0, leaves of at least `least` rows. O(trees n m depth).
    """
    trees, importance, none = [], np.zeros(len(X)), np.empty(0, dtype=np.int32)
    prior = np.bincount(codes, weights, minlength=K) / weights.sum()
    y, w = codes.astype(np.int32), weights.astype(np.float64)
    for seed in seeds:
        feature, threshold, right, value, gained = grow_extra(
            X, y, w, K, rule.least, rule.tries, seed
        )
        parts = (
            feature,
            threshold,
            right,
            value,
            np.zeros(1, np.int32),
            prior,
            none,
            none.astype(np.float32),
        )
        trees.append(Nodes.of(*parts))
        importance += gained
    return beside(trees, prior), importance


_STACK = 4096


@kernel
def _uniform(state: U64) -> float:
    """The next number from 0 to 1 (splitmix64; Steele, Lea, Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def _range(column: F32, rows: I32, values: F32) -> tuple[float, float, int]:
    """Copy a column's values at `rows`; the smallest, the largest, and how many are missing."""
    low, high, missing = np.inf, -np.inf, 0
    for i in range(rows.shape[0]):
        v = column[rows[i]]
        values[i] = v
        low = min(low, v)
        high = max(high, v)
        if np.isnan(v):
            missing += 1
    return low, high, missing


@kernel
def _purity(L: F64, total: F64) -> float:
    """Sum of squared class weights over the weight, of both sides: the larger, the purer; -1 with an empty side."""
    left = right = left_squares = right_squares = 0.0
    for k in range(L.shape[0]):
        r = total[k] - L[k]
        left += L[k]
        right += r
        left_squares += L[k] * L[k]
        right_squares += r * r
    if left <= 0.0 or right <= 0.0:
        return -1.0
    return left_squares / left + right_squares / right


@kernel
def _try(values: F32, n: int, ys: I32, ws: F64, threshold: float, L: F64) -> int:
    """Add the class weights of the first n values up to the threshold to L (K,); how many rows these are."""
    L[:] = 0.0
    count = 0
    for i in range(n):
        left = (
            values[i] <= threshold
        )  # added as a number: a branch on chance is mispredicted every other time
        L[ys[i]] += ws[i] * left
        count += left
    return count


@kernel
def _judge(
    values: F32, missing: int, ys: I32, ws: F64, threshold: float, least: int, total: F64, L: F64
) -> tuple[float, bool]:
    """The purity of a threshold, -1 if it is not allowed, and whether missing values go left, which is where they make
    it larger.
    """
    n = ys.shape[0]
    count = _try(values, n, ys, ws, threshold, L)
    purity = _purity(L, total) if count >= least and n - count >= least else -1.0
    if missing == 0 or n - missing == count:
        return purity, False
    for i in range(n):
        if np.isnan(values[i]):
            L[ys[i]] += ws[i]
    count += missing
    other = _purity(L, total) if count >= least and n - count >= least else -1.0
    return max(purity, other), other > purity


@kernel
def _split(
    X: F32, rows: I32, ys: I32, ws: F64, active: I32, n_active: int, total: F64, least: int, state: U64,
    values: F32, L: F64, tries: int,
) -> tuple[int, float, bool, int, float]:  # fmt: skip
    """The purest of `tries` random thresholds for each feature (-1: none), where missing values go, how many features
    vary, and the purity.

    Features come in random order, so that ties do. `active` keeps those that vary in front.
    """
    n = rows.shape[0]
    best, feature, threshold, left = -1.0, -1, 0.0, False
    place = 0
    while place < n_active:
        other = place + int(_uniform(state) * (n_active - place))
        f = active[other]
        active[other] = active[place]
        active[place] = f
        low, high, missing = _range(X[f], rows, values)
        u = _uniform(state)
        if missing == n or (low == high and missing == 0):
            n_active -= 1
            active[place] = active[n_active]
            active[n_active] = f
            continue
        place += 1
        for attempt in range(tries):
            if attempt > 0:
                u = _uniform(state)
            t = float(np.float32(low + u * (high - low)))
            if low < high <= t:
                t = low
            purity, side = _judge(values, missing, ys, ws, t, least, total, L)
            if purity > best:
                best, feature, threshold, left = purity, f, t, side
    return feature, threshold, left, n_active, best


@kernel
def _partition(column: F32, threshold: float, left: bool, rows: I32, ys: I32, ws: F64) -> int:
    """Bring the rows that go left to the front, and return their number."""
    i, j = 0, rows.shape[0] - 1
    while i <= j:
        v = column[rows[i]]
        if v <= threshold or (left and np.isnan(v)):
            i += 1
        else:
            rows[i], rows[j] = rows[j], rows[i]
            ys[i], ys[j] = ys[j], ys[i]
            ws[i], ws[j] = ws[j], ws[i]
            j -= 1
    return i


@kernel
def grow_extra(
    X: F32, y: I32, weight: F64, K: int, least: int, tries: int, seed: int
) -> tuple[I32, F32, I32, F32, F64]:
    """One tree of all rows; no bootstrap, all features at each split, leaves of at least `least` rows.

    Returns feature, threshold, right, the leaves' class shares, and by how much each feature (m,) raised the purity.
    O(n m depth).
    """
    m, n = X.shape
    most = 2 * n
    feature, threshold = np.zeros(most, np.int32), np.zeros(most, np.float32)
    right, value = np.zeros(most, np.int32), np.zeros((n, K), np.float32)
    rows, ys, ws = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n)
    copy(y, ys)
    copy(weight, ws)
    for i in range(n):
        rows[i] = i
    values, L, total = np.empty(n, np.float32), np.zeros(K), np.zeros(K)
    state = np.zeros(1, np.uint64)
    state[0] = np.uint64(seed)
    importance = np.zeros(m)
    active = np.empty(m, np.int32)  # a permutation: a subtree shuffles the front part only
    for f in range(m):
        active[f] = f
    waiting = np.zeros((_STACK, 4), np.int64)
    # the parent whose right child it is, rows from … to …, features that vary
    waiting[0, 0], waiting[0, 2], waiting[0, 3] = -1, n, m
    depth, nodes, leaves = 1, 0, 0
    while depth > 0:
        depth -= 1
        parent, start, end, n_active = waiting[depth]
        if parent >= 0:
            right[parent] = nodes
        total[:] = 0.0
        for i in range(start, end):
            total[ys[i]] += ws[i]
        occur, mass, squares = 0, 0.0, 0.0
        for k in range(K):
            occur += total[k] > 0.0
            mass += total[k]
            squares += total[k] * total[k]
        f = -1
        if occur > 1 and end - start >= 2 * least and depth + 2 < _STACK:
            f, t, left, n_active, purity = _split(
                X, rows[start:end], ys[start:end], ws[start:end], active, n_active, total, least, state, values, L,
                tries,
            )  # fmt: skip
        if f < 0:
            right[nodes] = -1 - leaves
            for k in range(K):
                value[leaves, k] = total[k] / mass
            leaves += 1
        else:
            importance[f] += purity - squares / mass
            middle = start + _partition(
                X[f], t, left, rows[start:end], ys[start:end], ws[start:end]
            )
            feature[nodes] = f + (MISSING_LEFT if left else 0)
            threshold[nodes] = t
            for parent, begin, stop in ((nodes, middle, end), (-1, start, middle)):
                waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] = parent, begin, stop
                waiting[depth, 3] = n_active
                depth += 1
        nodes += 1
    return (
        feature[:nodes].copy(),
        threshold[:nodes].copy(),
        right[:nodes].copy(),
        value[:leaves].copy(),
        importance,
    )
