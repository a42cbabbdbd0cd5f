"""The trees of a forest as flat arrays: what the compiled kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from app.acquisition.tree import Tree
from app.arrays import F32, F64, I32, U64

PriceArrays = tuple[F64, F64, I32]  # cost, discounted, group of each feature


class Nodes(NamedTuple):
    """The nodes of all trees, N of them, and where the T trees begin.

    `feature`: -1 for a leaf. `x <= threshold` goes to `left`, else to `right`, NaN to `missing` (positions in these
    arrays). `share`: the node's row in `value` (V, K), the distinct class distributions of each tree's nodes, inner
    nodes included, and in `label` (V,), their most frequent class, ties to the first. `reach`: bit k is set if a leaf
    below votes for class k (all bits with more than 64 classes). `roots` (T,). `prior` (K,): the answer without trees.
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
    cover: F32 = np.empty(0, dtype=np.float32)
    """The training rows at each node (N,); empty in models that older releases trained."""


_DTYPES: dict[str, type] = {"threshold": np.float64, "reach": np.uint64}


def beside(parts: Sequence[Nodes], prior: np.ndarray) -> Nodes:
    """The trees of all parts, in this order. O(nodes)."""
    sizes = np.cumsum([0, *(len(part.feature) for part in parts)])
    known = np.cumsum([0, *(len(part.value) for part in parts)])

    def joined(name: str, offsets: np.ndarray) -> np.ndarray:
        columns = (getattr(part, name) for part in parts)
        moved = (np.where(column < 0, -1, column + by) for column, by in zip(columns, offsets, strict=False))
        return np.concatenate([np.empty(0, dtype=np.int32), *moved], dtype=np.int32)

    empty = flatten((), prior)
    return Nodes(
        **{name: np.concatenate([getattr(part, name) for part in (empty, *parts)])
           for name in ("feature", "threshold", "reach", "label", "value", "cover")},
        **{name: joined(name, sizes) for name in ("left", "right", "missing", "roots")},
        share=joined("share", known), prior=empty.prior,
    )  # fmt: skip


def flatten(trees: Iterable[Tree], prior: np.ndarray) -> Nodes:
    """The nodes of trees whose `counts` are anything proportional to the class distributions. O(nodes K)."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in Nodes._fields[:7]}
    values: list[np.ndarray] = [np.empty((0, len(prior)), dtype=np.float32)]
    covers: list[np.ndarray] = [np.empty(0, dtype=np.float32)]
    roots, size, known = [], 0, 0
    for tree in trees:
        roots.append(size)
        inner = tree.feature >= 0
        parts["feature"].append(tree.feature.astype(np.int32, copy=False))
        parts["threshold"].append(tree.threshold.astype(np.float64, copy=False))
        for name in ("left", "right", "missing"):
            parts[name].append(np.where(inner, getattr(tree, name) + size, -1).astype(np.int32))
        distributions = np.ascontiguousarray(tree.counts / tree.counts.sum(axis=1, keepdims=True), dtype=np.float32)
        distinct, which = distinct_rows(distributions)
        values.append(distinct)
        covers.append((tree.counts.sum(axis=1) if tree.cover is None else tree.cover).astype(np.float32))
        parts["share"].append((which + known).astype(np.int32))
        parts["reach"].append(_reach(tree, distributions.argmax(axis=1)))
        size, known = size + len(inner), known + len(distinct)
    value = np.concatenate(values)
    # A field at a time, whose parts are gone before the next: never two copies of the forest.
    joined = {
        name: np.concatenate([np.empty(0, dtype=_DTYPES.get(name, np.int32)), *parts.pop(name)])
        for name in Nodes._fields[:7]
    }
    return Nodes(
        **joined, value=value, label=value.argmax(axis=1).astype(np.int32) if size else np.empty(0, dtype=np.int32),
        roots=np.array(roots, dtype=np.int32), prior=np.asarray(prior, dtype=np.float64),
        cover=np.concatenate(covers),
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
