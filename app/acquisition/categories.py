"""Categories put in an order in which a threshold is a good split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Orders:
    """Where each category of each categorical column stands: `ranks[i][code]` for `columns[i]`, NaN where unknown."""

    columns: tuple[int, ...] = ()
    ranks: tuple[np.ndarray, ...] = ()

    def apply(self, X: np.ndarray) -> np.ndarray:
        """`X` (n, m) float64 with codes replaced by ranks; codes never seen in training become missing. O(n)."""
        if not self.columns:
            return X
        X = X.copy()
        for j, ranks in zip(self.columns, self.ranks, strict=True):
            code = X[:, j]
            known = (code >= 0) & (code < len(ranks)) & (code == np.floor(code))
            X[:, j] = np.where(known, ranks[np.where(known, code, 0).astype(np.intp)], np.nan)
        return X


def order_categories(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, n_classes: int, columns: Sequence[int]
) -> Orders:
    """The order of the categories in each of `columns`, by their class distributions.

    X (n, m) float64 with codes 0, 1, … in `columns`, y (n,) class codes, weight (n,). For several labels y (n, K) is 0
    or 1, and the share of each label takes the place of a class's. Categories are ranked once,
    before any tree is grown, by the first principal component of their class distributions: exact for two classes and
    one split, and in forests as good as searching subsets at every node. A category without rows has no rank.
    Sources: Coppersmith, Hong, Hosking (1999); Wright, König, "Splitting on categorical predictors" (2019).
    """
    return Orders(tuple(columns), tuple(_ranks(X[:, j], y, weight, n_classes) for j in columns))


def _ranks(code: np.ndarray, y: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    known = ~np.isnan(code)
    if not known.any():
        return np.full(1, np.nan)
    code = code[known].astype(np.intp)
    counts = np.zeros((code.max() + 1, n_classes))
    if y.ndim == 1:
        np.add.at(counts, (code, y[known]), weight[known])
    else:
        np.add.at(counts, code, weight[known, None] * y[known])
    total = np.bincount(code, weight[known])
    seen = np.flatnonzero(total)
    share = counts[seen] / total[seen, None]
    centred = share - total[seen] @ share / total.sum()
    _, vectors = np.linalg.eigh((centred * total[seen, None]).T @ centred)
    axis = vectors[:, -1] * (1 if vectors[np.argmax(abs(vectors[:, -1])), -1] > 0 else -1)
    # Rounding keeps categories of one distribution together in the order of their codes on every machine.
    order = np.argsort(np.round(centred @ axis, 12), kind="stable")
    ranks = np.full(len(counts), np.nan)
    ranks[seen[order]] = np.arange(len(seen))
    return ranks
