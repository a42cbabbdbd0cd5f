"""Exact contributions of features to the scores of trees."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from app.decisions._tree_shapley import shapley
from app.errors import TooLarge

_LARGEST_WORK = 5e7  # nodes times points: about a second on one core
_CELLS = 500_000  # rows times nodes in a piece: some 15 MB


class Trees(NamedTuple):
    """N nodes as in `acquisition.nodes.Nodes`, those of T trees from `roots` on; `cover` (N,): training rows."""

    roots: np.ndarray
    feature: np.ndarray
    left: np.ndarray
    right: np.ndarray
    cover: np.ndarray


def tree_contributions(
    trees: Trees, goes: Any, value: np.ndarray, share: np.ndarray, column: np.ndarray, m: int
) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values (n, m) of the sum of all trees' leaves, and the sum's mean (n,); both add up to the row's sum.

    `goes(rows)` returns the child (rows, N) that each of a slice of rows takes at each node; leaves count
    `value[share, column]`, `column` (n,). Of a coalition of features, the others' steps go to all children with the
    shares of training rows: the path-dependent values of Lundberg and others (2018), Consistent individualized
    feature attribution for tree ensembles. Raises TooLarge for more work than about a second.
    O(n N depth), exact but for rounding: the weights of coalitions are Gauss-Legendre sums, of half as many points as a
    path has features, and all leaves below a step share its work.
    """
    n, sizes = len(column), _levels(trees)
    depth = len(sizes) - 1
    points, weights = np.polynomial.legendre.leggauss((min(depth, m) + 1) // 2 or 1)  # exact up to degree min(...) - 1
    work = float(n) * len(points) * sum(sizes)
    if work > _LARGEST_WORK:
        most = int(_LARGEST_WORK * n / work)
        advice = f"send at most {most} instances" if most else "the model is too large"
        raise TooLarge(f"there are no contributions, as {n} instances take too long: {advice}")
    points, weights = (points + 1) / 2, weights / 2
    out, base = np.zeros((n, m)), np.zeros(n)
    step = max(_CELLS // max(len(trees.feature), 1), 1)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        shapley(*trees, goes(rows), value, share, column[rows], depth, points, weights, out[rows], base[rows])
    return out, base


def _levels(trees: Trees) -> list[int]:
    """How many nodes there are at each depth."""
    level, sizes = trees.roots, []
    while len(level):
        sizes.append(len(level))
        inner = level[trees.feature[level] >= 0]
        level = np.concatenate((trees.left[inner], trees.right[inner]))
    return sizes
