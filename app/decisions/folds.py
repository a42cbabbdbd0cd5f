"""Rows dealt into parts that are judged in turn."""

from __future__ import annotations

import numpy as np

UNJUDGED = -1


def stratified_folds(y: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold 0…folds-1 of each row, int (n,), for class codes y (n,): classes and rows are dealt out evenly.

    The rows outside any one fold hold every class: rows of a class follow each other round the folds. So the only row
    of a class belongs to no fold (`UNJUDGED`): it can be learned from, not judged. `folds` >= 2; folds may be empty
    where rows are fewer. Deterministic in `seed`. O(n log n).
    """
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % folds
    fold[np.bincount(y)[y] == 1] = UNJUDGED
    return fold
