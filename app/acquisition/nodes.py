"""The trees of a forest as flat arrays, and the leaves that complete rows reach in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from app.arrays import F32, F64, I32, I64, U64
from app.compiled import kernel

PriceArrays = tuple[F64, F64, I32]  # cost, discounted, group of each feature


class Tree(NamedTuple):
    """Nodes as arrays of length N; node 0 is the root, `feature` -1 marks a leaf.

    `x <= threshold` goes left; a missing value goes to node `missing`: where missing values were split best in
    training, or the heavier child where none were there. `counts` (N, K): training rows per class at every node, or a
    distribution of them where `cover` (N,) has the numbers of rows.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    missing: np.ndarray
    counts: np.ndarray
    cover: np.ndarray | None = None


class Nodes(NamedTuple):
    """The nodes of all trees, N of them, and where the T trees begin.

    `feature`: -1 for a leaf. `x <= threshold` goes to `left`, else to `right`, NaN to `missing` (positions in these
    arrays). `share`: the node's row in `value` (V, K), the distinct class distributions of each tree's nodes, inner
    nodes included, and in `label` (V,), their most frequent class, ties to the first. `reach`: bit k is set if a leaf
    below votes for class k (all bits with more than 64 classes). `roots` (T,). `prior` (K,): the answer without trees.
    `cover` (N,): the training rows at each node.
    """

    feature: I32
    threshold: F64
    left: I32
    right: I32
    missing: I32
    share: I32
    reach: U64
    value: F32
    label: I32
    roots: I32
    prior: F64
    cover: F32


def flatten(trees: Iterable[Tree], prior: np.ndarray) -> Nodes:
    """The nodes of trees whose `counts` are anything proportional to the class distributions. O(nodes K)."""
    return beside([_of_one(tree, prior) for tree in trees], prior)


def beside(parts: Sequence[Nodes], prior: np.ndarray) -> Nodes:
    """The trees of all parts, in this order. O(nodes)."""
    none, values = np.empty(0, dtype=np.int32), np.empty((0, len(prior)), dtype=np.float32)
    nothing = Nodes(
        none, np.empty(0), none, none, none, none, np.empty(0, dtype=np.uint64), values, none, none,
        np.asarray(prior, dtype=np.float64), np.empty(0, dtype=np.float32),
    )  # fmt: skip
    sizes = np.cumsum([0, *(len(part.feature) for part in parts)])
    known = np.cumsum([0, *(len(part.value) for part in parts)])

    def joined(name: str, offsets: np.ndarray) -> np.ndarray:
        columns = (getattr(part, name) for part in parts)
        moved = (np.where(column < 0, -1, column + by) for column, by in zip(columns, offsets, strict=False))
        return np.concatenate([none, *moved], dtype=np.int32)

    return nothing._replace(
        **{name: np.concatenate([getattr(part, name) for part in (nothing, *parts)])
           for name in ("feature", "threshold", "reach", "label", "value", "cover")},
        **{name: joined(name, sizes) for name in ("left", "right", "missing", "roots")},
        share=joined("share", known),
    )  # fmt: skip


def _of_one(tree: Tree, prior: np.ndarray) -> Nodes:
    inner = tree.feature >= 0
    shares = np.ascontiguousarray(tree.counts / tree.counts.sum(axis=1, keepdims=True), dtype=np.float32)
    value, share = distinct_rows(shares)
    left, right, missing = (np.where(inner, child, -1).astype(np.int32) for child in tree[2:5])
    cover = tree.counts.sum(axis=1) if tree.cover is None else tree.cover
    return Nodes(
        tree.feature.astype(np.int32), tree.threshold.astype(np.float64), left, right, missing,
        share.astype(np.int32), _reach(tree, shares.argmax(axis=1)), value, value.argmax(axis=1).astype(np.int32),
        np.zeros(1, dtype=np.int32), prior, cover.astype(np.float32),
    )  # fmt: skip


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that differ, and which of them each row is: most nodes of a tree share their distribution."""
    width = f"V{rows.shape[1] * rows.itemsize}"
    different, which = np.unique(rows.view(width).ravel(), return_inverse=True)
    return different.view(rows.dtype).reshape(-1, rows.shape[1]), which


def _reach(tree: Tree, label: np.ndarray) -> np.ndarray:
    """Bit k of a node: some leaf below it votes for class k. Level by level from the deepest: O(nodes)."""
    if tree.counts.shape[1] > 64:
        return np.full(len(tree.feature), np.iinfo(np.uint64).max, dtype=np.uint64)
    reach = np.where(tree.feature < 0, np.uint64(1) << label.astype(np.uint64), np.uint64(0))
    shared = 2 * np.count_nonzero(tree.feature >= 0) >= len(tree.feature)  # some node has two parents
    levels = [np.zeros(1, dtype=np.int64)]
    while len(inner := levels[-1][tree.feature[levels[-1]] >= 0]):
        below = np.concatenate((tree.left[inner], tree.right[inner]))
        levels.append(np.unique(below) if shared else below)
    for level in reversed(levels):
        inner = level[tree.feature[level] >= 0]
        reach[inner] = reach[tree.left[inner]] | reach[tree.right[inner]]
    return reach


def converted(tree: Any) -> Tree:
    """One fitted tree of scikit-learn's forest (its `tree_`), which decides each row exactly as it does."""
    left, right = tree.children_left, tree.children_right
    leaf = left < 0
    feature = np.where(leaf, -1, tree.feature).astype(np.int32)
    missing = np.where(tree.missing_go_to_left.astype(bool), left, right)
    threshold = _last_left(np.where(leaf, 0.0, tree.threshold))
    return Tree(feature, threshold, left, right, missing, tree.value[:, 0, :], tree.weighted_n_node_samples)


def _last_left(threshold: np.ndarray) -> np.ndarray:
    """The largest float64 that, rounded to float32, is not above `threshold`."""
    below = threshold.astype(np.float32)
    below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
    above = np.nextafter(below, np.float32(np.inf))
    middle = (below.astype(np.float64) + above.astype(np.float64)) / 2
    return np.where(middle.astype(np.float32) <= below, middle, np.nextafter(middle, -np.inf))


@kernel
def _leaf(nodes: Nodes, t: int, x: F64) -> int:
    """The leaf that a complete row x (m,) reaches in tree t."""
    node = nodes.roots[t]
    while nodes.feature[node] >= 0:
        value = x[nodes.feature[node]]
        if np.isnan(value):
            node = nodes.missing[node]
        else:
            node = nodes.left[node] if value <= nodes.threshold[node] else nodes.right[node]
    return int(node)


@kernel
def evaluate(nodes: Nodes, X: F64, P: F64, votes: I64) -> None:
    """Add the leaf distributions of complete rows X (n, m) to P (n, K), and the trees' votes to `votes` (n, K)."""
    for t in range(nodes.roots.shape[0]):
        for i in range(X.shape[0]):
            node = _leaf(nodes, t, X[i])
            for k in range(P.shape[1]):
                P[i, k] += nodes.value[nodes.share[node], k]
            votes[i, nodes.label[nodes.share[node]]] += 1


@kernel
def leaves(nodes: Nodes, X: F64, found: I32) -> None:
    """Write the leaf that each complete row of X (n, m) reaches in each tree to `found` (n, T)."""
    for t in range(nodes.roots.shape[0]):
        for i in range(X.shape[0]):
            found[i, t] = _leaf(nodes, t, X[i])
