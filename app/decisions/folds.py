"""Split rows into folds for cross-validation."""

from __future__ import annotations

import numpy as np

UNJUDGED = -1


def stratified_folds(y: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold 0…folds-1 of each row, int (n,), for class codes y (n,): folds are stratified and of equal size.

    The rows outside any fold contain every class. So the only row of a class belongs to no fold (`UNJUDGED`): it is for
    training, not for evaluation. `folds` >= 2; folds may be empty if there are fewer rows. Deterministic in `seed`.
    O(n log n).
    """
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % folds
    fold[np.bincount(y)[y] == 1] = UNJUDGED
    return fold
