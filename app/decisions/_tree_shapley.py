"""Compiled: Shapley values of the features in trees."""

from __future__ import annotations

import numpy as np

from app.arrays import F32, F64, I32, Indices
from app.compiled import quick

Path = tuple[I32, I32, F64, F64]  # of steps: feature, its step before, whether the row takes both, their share of rows
Terms = tuple[F64, F64, F64]  # of steps and points: inverse term, product so far, sum of the leaves below


@quick
def shapley(
    roots: I32, feature: I32, left: I32, right: I32, cover: F32, hot: I32,
    value: F64, share: I32, column: Indices, depth: int, points: F64, weights: F64, out: F64, base: F64,
) -> None:  # fmt: skip
    """Add the values of all trees' features for n rows to `out` (n, m), and the trees' means to `base` (n,).

    `hot` (n, N) is the child that a row takes at each inner node. A leaf counts `value[share[leaf], column[row]]`. No
    leaf is deeper than `depth`. `points` and `weights` (Q,) integrate polynomials over [0, 1].

    A leaf's game earns v times the product of `one` over the features inside a coalition and `zero` over those outside.
    The weight of a coalition of size s of k features is the integral of u^s (1-u)^(k-1-s). So the value of feature j is
    v (one_j - zero_j) times the integral of the product of the other features' terms u one + (1-u) zero. On the way
    down `product` has the terms of all features of the path, on the way up `below` the sum over the leaves passed.
    """
    name, before = np.empty(depth + 1, dtype=np.int32), np.empty(depth + 1, dtype=np.int32)
    one, zero, sizes = np.empty(depth + 1), np.empty(depth + 1), (depth + 1, len(points))
    inverse, product, below = np.empty(sizes), np.empty(sizes), np.empty(sizes)
    one[0] = zero[0] = 1.0
    for q in range(len(points)):
        inverse[0, q] = product[0, q] = 1.0
    path, terms = (name, before, one, zero), (inverse, product, below)
    stack = np.empty((3 * depth + 3, 3), dtype=np.int32)  # node (-1 on the way up), its parent, depth
    for i in range(len(column)):
        for root in roots:
            top = 0
            for q in range(len(points)):
                below[0, q] = 0.0
            stack[0, 0], stack[0, 1], stack[0, 2] = root, -1, 0
            while top >= 0:
                node, parent, d = stack[top, 0], stack[top, 1], stack[top, 2]
                top -= 1
                if node >= 0:
                    if d:
                        name[d], one[d] = feature[parent], 1.0 if hot[i, parent] == node else 0.0
                        _down(d, cover[node], cover[parent], points, path, terms)
                    if feature[node] >= 0:
                        stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = -1, parent, d
                        stack[top + 2, 0], stack[top + 2, 1], stack[top + 2, 2] = left[node], node, d + 1
                        stack[top + 3, 0], stack[top + 3, 1], stack[top + 3, 2] = right[node], node, d + 1
                        top += 3
                        continue
                    v = value[share[node], column[i]]
                    base[i] += v * cover[node] / cover[root]
                    for q in range(len(points)):
                        below[d, q] = v * product[d, q]
                if d:
                    out[i, name[d]] += _up(d, weights, path, terms)


@quick
def _down(d: int, own: float, whole: float, points: F64, path: Path, terms: Terms) -> None:
    """Take a step to depth d, by `name[d]`, that `own` of `whole` training rows take, and the row if `one[d]`."""
    name, before, one, zero = path
    inverse, product, below = terms
    at = 0  # the last step by the same feature; the root stands for none
    for earlier in range(1, d):
        if name[earlier] == name[d]:
            at = earlier
    before[d] = at
    one[d] *= one[at]
    zero[d] = zero[at] * own / whole
    for q in range(len(points)):
        term = points[q] * one[d] + (1.0 - points[q]) * zero[d]
        product[d, q] = product[d - 1, q] * term * inverse[at, q]
        inverse[d, q] = 1.0 / term
        below[d, q] = 0.0


@quick
def _up(d: int, weights: F64, path: Path, terms: Terms) -> float:
    """What the step to depth d adds to its feature, of the leaves below; they count for the step above, too."""
    _, before, one, zero = path
    inverse, _, below = terms
    at, total = before[d], 0.0
    step, old = one[d] - zero[d], one[at] - zero[at]
    for q in range(len(weights)):
        total += weights[q] * below[d, q] * (step * inverse[d, q] - old * inverse[at, q])
        below[d - 1, q] += below[d, q]
    return total
