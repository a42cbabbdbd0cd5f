"""The label vectors of the training rows that a forest puts into the same leaves as a new row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from app.acquisition.forest import FlatForest
from app.arrays import F32, F64, I32, U8

_MEMBERS = 4_000_000  # label vectors in leaves, of all trees together: 8 bytes each
_BLOCK = 250_000  # leaves of rows that are found at once
_DUST = 1e-6  # shares are rounded to 32 bits
MAX_VECTORS = 256  # of a leaf, and of a row


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Which label vectors the training rows in each leaf have, in the first trees of a forest.

    `vectors` (D, L): the distinct ones. Leaf at node j holds `codes[starts[j]:starts[j + 1]]`, positions in `vectors`,
    in the proportions `shares`: the `MAX_VECTORS` heaviest, whose shares sum to 1 where the leaf has no more. All
    training rows count, not only those that grew the tree, as in Meinshausen's quantile regression forests (2006).
    Memory: D L bytes, 4 bytes a node, and 8 bytes for each row and tree at most: as many trees as stay below 32 MB, at
    least one.
    """

    trees: int
    vectors: U8
    starts: I32
    codes: I32
    shares: F32

    @classmethod
    def of(cls, forest: FlatForest, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> Self:
        """Of training rows X (n, m), labels (n, L) and positive weights (n,). O(rows trees log)."""
        trees = min(forest.n_trees, max(1, _MEMBERS // len(X)))
        part = forest.first(trees)
        vectors, code = np.unique(Y.astype(np.uint8), axis=0, return_inverse=True)
        place = part.leaves(X).astype(np.int64) * len(vectors) + code.reshape(-1, 1)
        places, which = np.unique(place, return_inverse=True)
        total = np.bincount(which.ravel(), np.repeat(weights, trees))
        leaf, codes = np.divmod(places, len(vectors))
        shares = total / np.bincount(leaf, total)[leaf]
        order = np.lexsort((-shares, leaf))
        nodes = np.arange(len(part.nodes.feature) + 1)
        rank = np.arange(len(leaf)) - np.searchsorted(leaf, nodes)[leaf]
        kept = order[rank < MAX_VECTORS]
        starts = np.searchsorted(leaf[kept], nodes)
        return cls(
            trees, vectors, starts.astype(np.int32), codes[kept].astype(np.int32), shares[kept].astype(np.float32)
        )

    def find(self, forest: FlatForest, X: np.ndarray) -> Iterator[tuple[U8, F64, float]]:
        """For each row of X (n, m): distinct label vectors (S, L), their weights (S,), and the weight of those cut.

        The weight is the mean share over the trees. The heaviest `MAX_VECTORS` are kept, in the order of `vectors`.
        """
        for leaves in self._leaves(forest, X):
            for row in leaves:
                total = np.zeros(len(self.vectors))
                for leaf in row:
                    part = slice(self.starts[leaf], self.starts[leaf + 1])
                    total[self.codes[part]] += self.shares[part]  # the vectors of a leaf are distinct
                codes = np.flatnonzero(total)
                weights = total[codes] / self.trees
                kept = np.sort(np.argsort(-weights, kind="stable")[:MAX_VECTORS])
                held, read = float(weights[kept].sum()), float(weights.sum())
                whole = read if read > 1.0 - _DUST else 1.0  # less where a leaf has more vectors than it keeps
                yield self.vectors[codes[kept]], weights[kept] / held, max(0.0, 1.0 - held / whole)

    def work(self, forest: FlatForest, X: np.ndarray) -> int:
        """How many label vectors `find` reads for rows X (n, m): those of all their leaves. O(n trees depth)."""
        sizes = np.diff(self.starts)
        return sum(int(sizes[leaves].sum()) for leaves in self._leaves(forest, X))

    def _leaves(self, forest: FlatForest, X: np.ndarray) -> Iterator[I32]:
        """The leaves (rows, trees) of some rows of X after the other."""
        part, rows = forest.first(self.trees), max(1, _BLOCK // self.trees)
        for start in range(0, len(X), rows):
            yield part.leaves(X[start : start + rows])
