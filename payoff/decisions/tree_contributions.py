"""Exact contributions of features to the scores of trees: Shapley values by quadrature,
compiled.
"""

from typing import Any, NamedTuple

import numpy as np

from payoff.arrays import F32, F64, I32, Indices
from payoff.compiled import quick
from payoff.errors import TooLarge

# For each step: its feature, the last step by that feature before it, and for both steps together
# whether the row takes them, and the share of training rows that do.
Path = tuple[I32, I32, F64, F64]
# For each step and point: the inverse term, the product so far, the sum of the leaves below.
Terms = tuple[F64, F64, F64]


@quick
def shapley(
    roots: I32, feature: I32, left: I32, right: I32, cover: F32, hot: I32, value: F64, share: I32,
    column: Indices, depth: int, points: F64, weights: F64, out: F64, base: F64,
) -> None:  # fmt: skip
    """Add the values of all trees' features for n rows to `out` (n, m), and the trees' means to
    `base` (n,).

    `hot` (n, N) is the child that a row takes at each inner node. A leaf counts `value[share[leaf],
    column[row]]`. No leaf is deeper than `depth`. `points` and `weights` (Q,) integrate polynomials
    over [0, 1].

    A leaf's game earns v times the product of `one` over the features inside a coalition and `zero`
    over those outside. The weight of a coalition of size s of k features is the integral of u^s
    (1-u)^(k-1-s). So the value of feature j is v (one_j - zero_j) times the integral of the product
    of the other features' terms u one + (1-u) zero. On the way down `product` has the terms of all
    features of the path, on the way up `below` the sum over the leaves passed.
    """
    name, before = (
        np.empty(depth + 1, dtype=np.int32),
        np.empty(depth + 1, dtype=np.int32),
    )
    one, zero, sizes = (
        np.empty(depth + 1),
        np.empty(depth + 1),
        (depth + 1, len(points)),
    )
    inverse, product, below = np.empty(sizes), np.empty(sizes), np.empty(sizes)
    one[0] = zero[0] = 1.0
    for q in range(len(points)):
        inverse[0, q] = product[0, q] = 1.0
    path, terms = (name, before, one, zero), (inverse, product, below)
    # An entry is the node (-1 on the way up), its parent, and the depth.
    stack = np.empty((3 * depth + 3, 3), dtype=np.int32)
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
                        name[d], one[d] = (
                            feature[parent],
                            1.0 if hot[i, parent] == node else 0.0,
                        )
                        _down(d, cover[node], cover[parent], points, path, terms)
                    if feature[node] >= 0:
                        stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = (
                            -1,
                            parent,
                            d,
                        )
                        stack[top + 2, 0], stack[top + 3, 0] = left[node], right[node]
                        stack[top + 2, 1] = stack[top + 3, 1] = node
                        stack[top + 2, 2] = stack[top + 3, 2] = d + 1
                        top += 3
                        continue
                    v = value[share[node], column[i]]
                    base[i] += v * cover[node] / cover[root]
                    for q in range(len(points)):
                        below[d, q] = v * product[d, q]
                if d:
                    out[i, name[d]] += _up(d, weights, path, terms)


@quick
def _down(
    d: int, cover: float, parent: float, points: F64, path: Path, terms: Terms
) -> None:
    """Take a step to depth d, by `name[d]`, that `cover` of `parent` training rows take, and the
    row if `one[d]`.
    """
    name, before, one, zero = path
    inverse, product, below = terms
    at = 0  # the last step by the same feature; the root stands for none
    for earlier in range(1, d):
        if name[earlier] == name[d]:
            at = earlier
    before[d] = at
    one[d] *= one[at]
    zero[d] = zero[at] * cover / parent
    for q in range(len(points)):
        term = points[q] * one[d] + (1.0 - points[q]) * zero[d]
        product[d, q] = product[d - 1, q] * term * inverse[at, q]
        inverse[d, q] = 1.0 / term
        below[d, q] = 0.0


@quick
def _up(d: int, weights: F64, path: Path, terms: Terms) -> float:
    """What the step to depth d adds to its feature, of the leaves below; they count for the step
    above, too.
    """
    _, before, one, zero = path
    inverse, _, below = terms
    at, total = before[d], 0.0
    step, old = one[d] - zero[d], one[at] - zero[at]
    for q in range(len(weights)):
        total += (
            weights[q] * below[d, q] * (step * inverse[d, q] - old * inverse[at, q])
        )
        below[d - 1, q] += below[d, q]
    return total


_MAX_WORK = 1.5e8  # rows times nodes times points: up to three seconds on one core
_CELLS = 500_000  # rows times nodes in a batch: some 15 MB


class Trees(NamedTuple):
    """The N nodes of T trees, whose roots are `roots` (T,).

    `feature` (N,) is the column that a node tests, -1 for a leaf; `left` and `right` (N,) are its
    children; `cover` (N,) is its number of training rows.
    """

    roots: np.ndarray
    feature: np.ndarray
    left: np.ndarray
    right: np.ndarray
    cover: np.ndarray


def tree_contributions(
    trees: Trees,
    goes: Any,
    value: np.ndarray,
    share: np.ndarray,
    column: np.ndarray,
    m: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values (n, m) of the sum of all trees' leaves, and the sum's mean (n,); both add up
    to the row's sum.

    `goes(rows)` returns the child (rows, N) that each of a slice of rows takes at each node; leaves
    count `value[share, column]`, `column` (n,). Steps by features outside a coalition go to both
    children, with their shares of training rows. These are the path-dependent values of Lundberg
    and others (2018), Consistent individualized feature attribution for tree ensembles. Raises
    TooLarge for more work than about three seconds. O(n N depth), exact but for rounding: the
    weights of coalitions are Gauss-Legendre sums, of half as many points as a path has features,
    and all leaves below a step share its work.
    """
    n = len(column)
    sizes = _levels(trees)
    depth = len(sizes) - 1
    # Sums of k points are exact up to degree 2 k - 1, at least the features of a path less 1.
    points, weights = np.polynomial.legendre.leggauss((min(depth, m) + 1) // 2 or 1)
    work = float(n) * len(points) * sum(sizes)
    if work > _MAX_WORK:
        max_rows = int(_MAX_WORK * n / work)
        limit = (
            f"at most {max_rows} are supported"
            if max_rows
            else "the model is too large"
        )
        raise TooLarge(
            f"there are no contributions, as {n} instances take too long: {limit}"
        )
    points, weights = (points + 1) / 2, weights / 2
    out, base = np.zeros((n, m)), np.zeros(n)
    step = max(_CELLS // max(len(trees.feature), 1), 1)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        hot = goes(rows)
        chosen = column[rows]
        shapley(
            *trees,
            hot,
            value,
            share,
            chosen,
            depth,
            points,
            weights,
            out[rows],
            base[rows],
        )
    return out, base


def _levels(trees: Trees) -> list[int]:
    """The number of nodes at each depth."""
    level, sizes = trees.roots, []
    while len(level):
        sizes.append(len(level))
        inner = level[trees.feature[level] >= 0]
        level = np.concatenate((trees.left[inner], trees.right[inner]))
    return sizes
