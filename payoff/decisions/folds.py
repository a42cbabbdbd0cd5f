"""Split rows into folds for cross-validation."""

import numpy as np

UNJUDGED = -1  # the fold of a row that is for training only


def stratified_folds(y: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold 0…folds-1 of each row, int (n,), for class codes y (n,): folds are stratified and of
    equal size.

    The rows outside any fold contain every class. So the only row of a class belongs to no fold
    (`UNJUDGED`): it is for training, not for evaluation. `folds` >= 2; folds may be empty if there
    are fewer rows. Deterministic in `seed`. O(n log n).
    """
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % folds
    fold[np.bincount(y)[y] == 1] = UNJUDGED
    return fold


def shuffled_groups(
    groups: np.ndarray, part: float, random: np.random.Generator | np.random.RandomState
) -> list[tuple[np.ndarray, int]]:
    """The m rows of each group in random order, and how many of them to hold out: `round(part m)`,
    at most m - 1.
    """
    orders = [
        random.permutation(np.flatnonzero(groups == group))
        for group in np.unique(groups)
    ]
    return [(rows, min(round(part * len(rows)), len(rows) - 1)) for rows in orders]


def multilabel_folds(Y: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold 0…folds-1 of each row, int (n,), for labels Y (n, L) of 0 and 1.

    Rows are stratified by the rarest value that they have, of any label that varies, so that its
    rows are in different folds. Arguments and folds as in `stratified_folds`. O(n L + n log n).
    """
    ones = Y.sum(axis=0)
    # Whether a row has the rarer value of each label.
    rare = (2 * ones <= len(Y)) == Y
    counts = rare.sum(axis=0)
    order = np.argsort(counts, kind="stable")
    groups = np.where(
        rare[:, order].any(axis=1), rare[:, order].argmax(axis=1), Y.shape[1]
    )
    return stratified_folds(groups, folds, seed)
