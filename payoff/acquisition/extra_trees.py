"""Extremely randomised trees (Geurts, Ernst, Wehenkel 2006), grown depth first."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from payoff.acquisition.nodes import MISSING_LEFT, Nodes, beside
from payoff.arrays import F32, F64, I32, U64
from payoff.compiled import copy, kernel


class Rule(NamedTuple):
    """How trees are grown: with at least `least` rows in a leaf.

    A split tries `tries` random thresholds of each feature.
    """

    least: int
    tries: int = 1


def grow(
    X: F32,
    codes: np.ndarray,
    weights: np.ndarray,
    K: int,
    rule: Rule,
    seeds: Sequence[int],
) -> tuple[Nodes, F64]:
    """One forest, a tree for each seed, and the importance (m,) of the features.

    X (m, n) float32 holds columns, NaN where missing; `codes` (n,) are class codes, `weights` (n,)
    > 0.
    O(trees n m depth).
    """
    trees = []
    importance = np.zeros(len(X))
    root = np.zeros(1, dtype=np.int32)
    # Rows do not stop at inner nodes, so these have no shares and no cover.
    share, cover = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
    prior = np.bincount(codes, weights, minlength=K) / weights.sum()
    y = codes.astype(np.int32)
    weights = weights.astype(np.float64)
    for seed in seeds:
        grown = grow_extra(X, y, weights, K, rule.least, rule.tries, seed)
        feature, threshold, right, value, gain = grown
        trees.append(
            Nodes.of(feature, threshold, right, value, root, prior, share, cover)
        )
        importance += gain
    return beside(trees, prior), importance


_STACK = 4096  # subtrees that wait to be grown, at most


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
    """Copy the values at `rows`; return the smallest, the largest, and how many are missing."""
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
    """The sum of squared class weights over the weight, of both sides; -1 with an empty side.

    The larger it is, the purer are the sides.
    """
    left_mass = right_mass = left_squares = right_squares = 0.0
    for k in range(L.shape[0]):
        r = total[k] - L[k]
        left_mass += L[k]
        right_mass += r
        left_squares += L[k] * L[k]
        right_squares += r * r
    if left_mass <= 0.0 or right_mass <= 0.0:
        return -1.0
    return left_squares / left_mass + right_squares / right_mass


@kernel
def _add_left(values: F32, n: int, ys: I32, ws: F64, threshold: float, L: F64) -> int:
    """Write the class weights of values up to the threshold, of the first n, to L (K,); count."""
    L[:] = 0.0
    count = 0
    for i in range(n):
        # Added as a number: a branch on a random condition is mispredicted every other time.
        goes_left = values[i] <= threshold
        L[ys[i]] += ws[i] * goes_left
        count += goes_left
    return count


@kernel
def _purity_of(
    values: F32,
    missing: int,
    ys: I32,
    ws: F64,
    threshold: float,
    least: int,
    total: F64,
    L: F64,
) -> tuple[float, bool]:
    """The purity of a threshold, -1 if it is not allowed, and whether missing values go left.

    They go to the side where the purity is larger.
    """
    n = ys.shape[0]
    count = _add_left(values, n, ys, ws, threshold, L)
    purity = _purity(L, total) if count >= least and n - count >= least else -1.0
    if missing == 0 or n - missing == count:
        return purity, False
    for i in range(n):
        if np.isnan(values[i]):
            L[ys[i]] += ws[i]
    count += missing
    missing_left = _purity(L, total) if count >= least and n - count >= least else -1.0
    return max(purity, missing_left), missing_left > purity


@kernel
def _split(
    X: F32, rows: I32, ys: I32, ws: F64, active: I32, n_active: int, total: F64, least: int,
    state: U64, values: F32, L: F64, tries: int,
) -> tuple[int, float, bool, int, float]:  # fmt: skip
    """The purest split by `tries` random thresholds for each feature.

    Returns the feature (-1: none), its threshold, whether missing values go left, how many features
    vary, and the purity. Features come in random order, so that the first of equal ones is random,
    too. `active` keeps those that vary in front.
    """
    n = rows.shape[0]
    best, feature, threshold, missing_left = -1.0, -1, 0.0, False
    place = 0
    while place < n_active:
        drawn = place + int(_uniform(state) * (n_active - place))
        f = active[drawn]
        active[drawn] = active[place]
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
            purity, side = _purity_of(values, missing, ys, ws, t, least, total, L)
            if purity > best:
                best, feature, threshold, missing_left = purity, f, t, side
    return feature, threshold, missing_left, n_active, best


@kernel
def _partition(
    column: F32, threshold: float, missing_left: bool, rows: I32, ys: I32, ws: F64
) -> int:
    """Bring the rows that go left to the front, and return their number."""
    i, j = 0, rows.shape[0] - 1
    while i <= j:
        v = column[rows[i]]
        if v <= threshold or (missing_left and np.isnan(v)):
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
    """One tree of all rows: no bootstrap, all features at each split.

    Returns feature, threshold, right, the leaves' class shares, and by how much each feature (m,)
    raised the purity.
    O(n m depth).
    """
    m, n = X.shape
    capacity = 2 * n
    feature, threshold = np.zeros(capacity, np.int32), np.zeros(capacity, np.float32)
    right, value = np.zeros(capacity, np.int32), np.zeros((n, K), np.float32)
    rows, ys, ws = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n)
    copy(y, ys)
    copy(weight, ws)
    for i in range(n):
        rows[i] = i
    values, L, total = np.empty(n, np.float32), np.zeros(K), np.zeros(K)
    state = np.zeros(1, np.uint64)
    state[0] = np.uint64(seed)
    importance = np.zeros(m)
    active = np.empty(
        m, np.int32
    )  # a permutation: a subtree shuffles the front part only
    for f in range(m):
        active[f] = f
    # Of a subtree that waits: the parent whose right child it is, or -1; the first of its rows
    # and the first after them; how many features vary.
    waiting = np.zeros((_STACK, 4), np.int64)
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
            f, t, missing_left, n_active, purity = _split(
                X, rows[start:end], ys[start:end], ws[start:end], active, n_active, total, least,
                state, values, L, tries,
            )  # fmt: skip
        if f < 0:
            right[nodes] = -1 - leaves
            for k in range(K):
                value[leaves, k] = total[k] / mass
            leaves += 1
        else:
            importance[f] += purity - squares / mass
            middle = start + _partition(
                X[f], t, missing_left, rows[start:end], ys[start:end], ws[start:end]
            )
            feature[nodes] = f + (MISSING_LEFT if missing_left else 0)
            threshold[nodes] = t
            for parent, begin, stop in ((nodes, middle, end), (-1, start, middle)):
                waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] = (
                    parent,
                    begin,
                    stop,
                )
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
