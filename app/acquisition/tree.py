"""One tree that asks for cheap features first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.acquisition._growth import grow
from app.acquisition.binning import Table

_UNLIMITED = 2**31 - 1


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


def grow_tree(
    table: Table, y: np.ndarray, drawn: np.ndarray, n_classes: int, prices: np.ndarray, alpha: float = 0.0,
    max_depth: int | None = None,
) -> Tree:  # fmt: skip
    """GreedyTree: split by the feature and threshold of the least price per guaranteed drop of impurity.

    `table` of n rows and m columns, y (n,) class codes, drawn (n,) how often each row counts (integers >= 0), prices
    (m,). At each node the split with the smallest `c(t) / (F(S) - max(F(left), F(right)))` is taken, F being
    threshold-pairs with `alpha`; equal risks go to the larger drop, then to the feature used last on the path (it is
    paid for), then to the earlier feature, then to missing values on the right, then to the smaller threshold. A
    feature keeps its price in this rule also where it is already on the path: free repeats make trees that ask for the
    same feature over and over. Zero prices count as the smallest price above zero, for the same reason.
    A node is a leaf when F is 0, at `max_depth`, or where no split lowers F. A plain function of arrays, so that any
    joblib backend can run it. O(rows x varying features) per level of the tree; memory 1 byte per cell.
    Source: Nan, Wang, Saligrama (2015), algorithm 1, subroutine GreedyTree.
    """
    rows = np.flatnonzero(drawn)
    paid = prices[prices > 0]
    floor = paid.min() if len(paid) else 1.0
    return Tree(
        *grow(
            np.ascontiguousarray(table.codes[:, rows]), table.low, table.high,
            np.arange(len(rows), dtype=np.int32), y[rows].astype(np.int32), drawn[rows].astype(np.int32),
            np.maximum(prices, floor).astype(np.float64), n_classes, float(alpha),
            _UNLIMITED if max_depth is None else max_depth,
        )
    )  # fmt: skip
