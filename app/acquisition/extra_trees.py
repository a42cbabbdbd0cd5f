"""Forests of extremely randomised trees (Geurts, Ernst, Wehenkel 2006), several in one set of small arrays.

Nodes are in depth-first order: the left child of node i is i + 1. `right[i]` is the right child, or of a leaf
-1 - (its row in `value`). Columns are the rows of `X` (m, n) float32, NaN where missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from app.acquisition.nodes import distinct_rows
from app.arrays import F32, F64, I16, I32, U64, Ints
from app.compiled import copy, kernel
from app.progress import checkpoint


class Rule(NamedTuple):
    """How trees are grown: at least `least` rows in a leaf, `tries` random thresholds for each feature at a split."""

    least: int
    tries: int = 1


@dataclass(frozen=True, eq=False)
class ExtraTrees:
    """S forests of T trees each over columns 0, 1, ….

    `value` (V, K): the distinct class shares of leaves; `roots` (S, T). A pickle holds about 5 bytes for each node.
    """

    feature: I16
    threshold: F32
    right: I32
    value: F32
    roots: I32

    @classmethod
    def beside(cls, parts: Sequence[Self], forests: int, n_classes: int) -> Self:
        """All trees of the parts, in this order, dealt to so many forests of the same size. O(nodes)."""
        sizes = np.cumsum([0, *(len(part.right) for part in parts)])
        values, which = distinct_rows(np.concatenate([np.empty((0, n_classes), np.float32), *(p.value for p in parts)]))
        known = np.cumsum([0, *(len(part.value) for part in parts)])
        right = [
            np.where(part.right >= 0, part.right + size, -1 - which[start - 1 - np.minimum(part.right, -1)])
            for part, size, start in zip(parts, sizes, known, strict=False)
        ]
        return cls(
            np.concatenate([np.empty(0, np.int16), *(part.feature for part in parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.threshold for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *right], dtype=np.int32, casting="same_kind"),
            values,
            np.concatenate([np.empty(0, np.int32), *(part.roots.ravel() + size for part, size in
                            zip(parts, sizes, strict=False))]).astype(np.int32).reshape(forests, -1),
        )  # fmt: skip

    def shares(self, X: F32, state: Ints) -> F64:
        """Mean class shares (n, K) of rows X (n, m) float32, NaN where missing, each from forest `state` - 1."""
        turn = np.argsort(state, kind="stable")  # rows of one forest together: its nodes stay in the processor's cache
        rows, chosen = np.ascontiguousarray(X[turn], dtype=np.float32), state[turn].astype(np.int32)
        P, found = np.zeros((len(X), self.value.shape[1])), np.empty((len(X), self.value.shape[1]))
        answer(self.feature, self.threshold, self.right, self.value, self.roots, rows, chosen, P)
        found[turn] = P
        return found

    def __getstate__(self) -> dict[str, Any]:
        inner = self.right >= 0
        jump = self.right[inner] - np.flatnonzero(inner)
        left = self.feature[inner] >= MISSING_LEFT
        return {
            "size": len(inner),
            "inner": np.packbits(inner),
            "jump": _narrow(jump),
            "column": _narrow(self.feature[inner] & ~MISSING_LEFT),
            "missing_left": np.packbits(left),
            "threshold": self.threshold[inner],
            "leaf": _narrow(-1 - self.right[~inner]),
            "value": self.value,
            "roots": self.roots,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        inner = np.unpackbits(state["inner"], count=state["size"]).astype(bool)
        count = len(state["jump"])
        feature, threshold = np.zeros(len(inner), np.int16), np.zeros(len(inner), np.float32)
        right = np.empty(len(inner), np.int32)
        left = np.unpackbits(state["missing_left"], count=count).astype(np.int16)
        feature[inner] = state["column"].astype(np.int16) + left * np.int16(MISSING_LEFT)
        threshold[inner] = state["threshold"]
        right[inner] = np.flatnonzero(inner) + state["jump"]
        right[~inner] = -1 - state["leaf"].astype(np.int32)
        arrays = {"feature": feature, "threshold": threshold, "right": right}
        vars(self).update(arrays, value=state["value"], roots=state["roots"])


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """Numbers >= 0 in the smallest type that holds them."""
    narrow: np.ndarray = numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
    return narrow


def grow(
    X: F32, codes: np.ndarray, weights: np.ndarray, K: int, rule: Rule, seeds: Sequence[int]
) -> tuple[ExtraTrees, F64]:
    """One forest, a tree for each seed, of the columns X (m, n) float32, NaN where missing; and the importance (m,).

    `codes` (n,) class codes, `weights` (n,) > 0, leaves of at least `least` rows. O(trees n m depth).
    """
    trees, importance = [], np.zeros(len(X))
    y, w = codes.astype(np.int32), weights.astype(np.float64)
    for seed in seeds:
        feature, threshold, right, value, gained = grow_extra(X, y, w, K, rule.least, rule.tries, seed)
        trees.append(ExtraTrees(feature, threshold, right, value, np.zeros(1, np.int32)))
        importance += gained
        checkpoint()
    return ExtraTrees.beside(trees, 1, K), importance


MISSING_LEFT = 1 << 14
"""Added to a node's feature where missing values go left."""
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
        left = values[i] <= threshold  # added as a number: a branch on chance is mispredicted every other time
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
) -> tuple[I16, F32, I32, F32, F64]:
    """One tree of all rows; no bootstrap, all features at each split, leaves of at least `least` rows.

    Returns feature, threshold, right, the leaves' class shares, and by how much each feature (m,) raised the purity.
    O(n m depth).
    """
    m, n = X.shape
    most = 2 * n
    feature, threshold = np.zeros(most, np.int16), np.zeros(most, np.float32)
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
    waiting[0, 0], waiting[0, 2], waiting[0, 3] = (
        -1,
        n,
        m,
    )  # the parent whose right child it is, rows from … to …, features that vary
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
                X,
                rows[start:end],
                ys[start:end],
                ws[start:end],
                active,
                n_active,
                total,
                least,
                state,
                values,
                L,
                tries,
            )
        if f < 0:
            right[nodes] = -1 - leaves
            for k in range(K):
                value[leaves, k] = total[k] / mass
            leaves += 1
        else:
            importance[f] += purity - squares / mass
            middle = start + _partition(X[f], t, left, rows[start:end], ys[start:end], ws[start:end])
            feature[nodes] = f + (MISSING_LEFT if left else 0)
            threshold[nodes] = t
            for parent, begin, stop in ((nodes, middle, end), (-1, start, middle)):
                waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] = parent, begin, stop
                waiting[depth, 3] = n_active
                depth += 1
        nodes += 1
    return feature[:nodes].copy(), threshold[:nodes].copy(), right[:nodes].copy(), value[:leaves].copy(), importance


@kernel
def answer(feature: I16, threshold: F32, right: I32, value: F32, roots: I32, X: F32, state: I32, P: F64) -> None:
    """Add to P (n, K) the mean class shares of rows X (n, S) from the forest of each row's state >= 1.

    `roots` (S, T): the trees of state s are those of row s - 1.
    """
    T, K = roots.shape[1], P.shape[1]
    for t in range(T):
        for i in range(X.shape[0]):
            node = roots[state[i] - 1, t]
            while right[node] >= 0:
                f = feature[node]
                x = X[i, f & ~MISSING_LEFT]
                if x <= threshold[node] or (f >= MISSING_LEFT and np.isnan(x)):
                    node += 1
                else:
                    node = right[node]
            leaf = -1 - right[node]
            for k in range(K):
                P[i, k] += value[leaf, k]
    for i in range(P.shape[0]):
        for k in range(K):
            P[i, k] /= max(T, 1)
