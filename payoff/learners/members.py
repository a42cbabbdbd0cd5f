"""The training rows in the leaves of a forest, whether they grew the tree or not.

Source: Meinshausen, "Quantile regression forests" (2006).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from payoff.arrays import F64, I32, I64, U8
from payoff.compiled import kernel
from payoff.stored import Stored

CELLS = 1_000_000  # near rows that are in memory together
_BLOCK = 64  # training rows that one mark covers


@dataclass(frozen=True, eq=False)
class Members(Stored):
    """Of N training rows with `weights` (N,), those in each leaf.

    The leaf at node j has the rows `rows[starts[j]:starts[j + 1]]`.
    """

    weights: F64
    starts: I32
    rows: I32

    @classmethod
    def of(cls, leaves: I32, nodes: int, weights: F64) -> Self:
        """From the leaf of each training row in each tree (N, T), numbered among `nodes`.

        O(T N log N).
        """
        orders = [np.argsort(tree, kind="stable") for tree in leaves.T]
        starts = np.cumsum(np.bincount(leaves.ravel() + 1, minlength=nodes + 1)).astype(
            np.int32
        )
        return cls(weights, starts, np.concatenate(orders).astype(np.int32))

    def blocks(self, n: int) -> Iterator[slice]:
        """Slices of n rows whose near rows fit into memory together."""
        size = max(1, CELLS // self._max_near)
        return (slice(start, start + size) for start in range(0, n, size))

    @cached_property
    def _max_near(self) -> int:
        """The maximum number of training rows that one row can have in its leaves."""
        N = len(self.weights)
        return min(N, int(np.diff(self.starts).max()) * (len(self.rows) // N))

    def near(self, leaves: I32, excluded: I64 | None = None) -> tuple[I32, F64]:
        """The training rows (n, S) in the leaves (n, T) of n rows, ascending, and their weight.

        The weight (n, S) is the sum up to and with each of them; a training row weighs the mean
        over the trees of its share of the leaf's weight. `excluded` (n,) is a training row that is
        not near the row (itself, for training rows), or -1. Where a row has fewer than S near rows,
        the last is repeated.
        """
        n, N = len(leaves), len(self.weights)
        excluded = np.full(n, -1) if excluded is None else excluded
        near = np.empty((n, self._max_near), dtype=np.int32)
        reached = np.empty((n, self._max_near))
        total = np.zeros(N)
        blocks = np.zeros(N // _BLOCK + 1, dtype=np.uint8)
        S = collect(
            leaves,
            excluded,
            self.starts,
            self.rows,
            self.weights,
            total,
            blocks,
            near,
            reached,
        )
        return near[:, :S], reached[:, :S]


@kernel
def collect(
    leaves: I32,
    excluded: I64,
    starts: I32,
    held: I32,
    weights: F64,
    total: F64,
    blocks: U8,
    near: I32,
    reached: F64,
) -> int:
    """Write what `Members.near` returns into `near` and `reached`; `total` and `blocks` are zero.

    Returns S, the maximum number of near rows.
    """
    S = 1
    for i in range(leaves.shape[0]):
        for node in leaves[i]:
            if node >= 0:
                rows = held[starts[node] : starts[node + 1]]
                add_leaf(rows, excluded[i], weights, total, blocks)
        size = list_rows(total, blocks, near[i], reached[i])
        weight = reached[i, size - 1]
        for k in range(size):
            reached[i, k] /= weight
        for k in range(size, near.shape[1]):
            near[i, k] = near[i, size - 1]
            reached[i, k] = 1.0
        S = max(S, size)
    return S


@kernel
def add_leaf(rows: I32, excluded: int, weights: F64, total: F64, blocks: U8) -> None:
    """Divide the weight 1 among the rows of a leaf but the excluded one; mark their `blocks`."""
    leaf_weight = 0.0
    for row in rows:
        leaf_weight += 0.0 if row == excluded else weights[row]
    for row in rows:
        if row != excluded:
            total[row] += weights[row] / leaf_weight
            blocks[row // _BLOCK] = 1


@kernel
def list_rows(total: F64, blocks: U8, near: I32, reached: F64) -> int:
    """The number of rows with weight; writes these and the running sums of their weight.

    Sets `total` and `blocks` to zero for the next row.
    """
    size = 0
    weight = 0.0
    for block in range(blocks.shape[0]):
        if blocks[block] == 0:
            continue
        blocks[block] = 0
        for row in range(block * _BLOCK, min((block + 1) * _BLOCK, total.shape[0])):
            if total[row] > 0.0:
                weight += total[row]
                near[size] = row
                reached[size] = weight
                total[row] = 0.0
                size += 1
    return size
