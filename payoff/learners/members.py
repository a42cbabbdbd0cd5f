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
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class Members(Stored):
    """Of N training rows with `weights` (N,), the leaf at node j has `rows[starts[j]:starts[j +
    1]]`.
    """

    weights: F64
    starts: I32
    rows: I32

    @classmethod
    def of(cls, leaves: I32, nodes: int, weights: F64) -> Self:
        """From the leaf of each training row in each tree (N, T), one of so many nodes. O(T N log
        N).
        """
        rows = np.concatenate([np.argsort(tree, kind="stable") for tree in leaves.T]).astype(
            np.int32
        )
        starts = np.cumsum(np.bincount(leaves.ravel() + 1, minlength=nodes + 1)).astype(np.int32)
        return cls(weights, starts, rows)

    def blocks(self, n: int) -> Iterator[slice]:
        """Of n rows those to look at together."""
        size = max(1, CELLS // self._most)
        return (slice(start, start + size) for start in range(0, n, size))

    @cached_property
    def _most(self) -> int:
        """Training rows that one row can have in its leaves."""
        N = len(self.weights)
        return min(N, int(np.diff(self.starts).max()) * (len(self.rows) // N))

    def near(self, leaves: I32, own: I64 | None = None) -> tuple[I32, F64]:
        """The training rows (n, S) in the leaves (n, T) of n rows, ascending, and the weight
        reached with each (n, S): the mean over the trees of the shares of a leaf's weight.

        Training rows are not near themselves: `own` (n,), -1 of others. The last is repeated up to
        S.
        """
        own = np.full(len(leaves), -1) if own is None else own
        near, reached = (
            np.empty((len(leaves), self._most), dtype=np.int32),
            np.empty((len(leaves), self._most)),
        )
        total, blocks = (
            np.zeros(len(self.weights)),
            np.zeros(len(self.weights) // _BLOCK + 1, dtype=np.uint8),
        )
        most = collect(
            leaves, own, self.starts, self.rows, self.weights, total, blocks, near, reached
        )
        return near[:, :most], reached[:, :most]


@kernel
def collect(
    leaves: I32,
    own: I64,
    starts: I32,
    held: I32,
    weights: F64,
    total: F64,
    blocks: U8,
    near: I32,
    reached: F64,
) -> int:
    """Write what `Members.near` returns; the most training rows of a row. `total`, `blocks` are
    zero.
    """
    most = 1
    for i in range(leaves.shape[0]):
        for node in leaves[i]:
            if node >= 0:
                add_leaf(held[starts[node] : starts[node + 1]], own[i], weights, total, blocks)
        size = list_rows(total, blocks, near[i], reached[i])
        whole = reached[i, size - 1]
        for k in range(size):
            reached[i, k] /= whole
        for k in range(size, near.shape[1]):
            near[i, k], reached[i, k] = near[i, size - 1], 1.0
        most = max(most, size)
    return most


@kernel
def add_leaf(rows: I32, own: int, weights: F64, total: F64, blocks: U8) -> None:
    """Add their part of the weight 1 to the `total` of all rows but one, and mark their `blocks`."""
    whole = 0.0
    for row in rows:
        whole += 0.0 if row == own else weights[row]
    for row in rows:
        if row != own:
            total[row] += weights[row] / whole
            blocks[row // _BLOCK] = 1


@kernel
def list_rows(total: F64, blocks: U8, near: I32, reached: F64) -> int:
    """The number of rows with weight; write these and the sums of weight, and make `total` and
    `blocks` zero.
    """
    size, weight = 0, 0.0
    for block in range(blocks.shape[0]):
        if blocks[block] == 0:
            continue
        blocks[block] = 0
        for row in range(block * _BLOCK, min((block + 1) * _BLOCK, total.shape[0])):
            if total[row] > 0.0:
                weight += total[row]
                near[size], reached[size], total[row] = row, weight, 0.0
                size += 1
    return size
