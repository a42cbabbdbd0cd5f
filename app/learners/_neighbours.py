"""The label vectors of the training rows that a forest puts into the same leaves as a new row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from app.acquisition.forest import FlatForest
from app.arrays import F32, F64, I32, U8

_MEMBERS = 4_000_000  # training rows in leaves, of all trees together: 8 bytes each
MOST_VECTORS = 256  # of a row


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Which label vectors the training rows in each leaf have, in the first trees of a forest.

    `vectors` (D, L): the distinct ones. Leaf at node j holds `codes[starts[j]:starts[j + 1]]`, positions in `vectors`,
    in the proportions `shares`, which sum to 1. All training rows count, not only those that grew the tree, as in
    Meinshausen's quantile regression forests (2006). Memory: D L bytes, 4 bytes a node, and 8 bytes for each row and
    tree at most: as many trees as stay below 32 MB, at least one.
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
        starts = np.searchsorted(leaf, np.arange(len(part.nodes.feature) + 1))
        shares = total / np.bincount(leaf, total)[leaf]
        return cls(trees, vectors, starts.astype(np.int32), codes.astype(np.int32), shares.astype(np.float32))

    def find(self, forest: FlatForest, X: np.ndarray) -> Iterator[tuple[U8, F64, float]]:
        """For each row of X (n, m): distinct label vectors (S, L), their weights (S,), and the weight of those cut.

        The weight is the mean share over the trees. The heaviest `MOST_VECTORS` are kept, in the order of `vectors`.
        """
        for leaves in forest.first(self.trees).leaves(X):
            parts = [slice(self.starts[leaf], self.starts[leaf + 1]) for leaf in leaves]
            codes, which = np.unique(np.concatenate([self.codes[part] for part in parts]), return_inverse=True)
            weights = np.bincount(which, np.concatenate([self.shares[part] for part in parts])) / self.trees
            kept = np.sort(np.argsort(-weights, kind="stable")[:MOST_VECTORS])
            held = float(weights[kept].sum())
            yield self.vectors[codes[kept]], weights[kept] / held, max(0.0, 1.0 - held / float(weights.sum()))
