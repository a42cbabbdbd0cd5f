"""Random tables with numbers, categories and missing values, for tests of the learners."""

from __future__ import annotations

import numpy as np


def mixed(
    n: int, K: int, seed: int, *, numbers: int = 4, words: tuple[int, ...] = (3, 5), missing: float = 0.1
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Rows (n, numbers + len(words)), class codes that depend on them, and the columns of categories.

    The categorical columns come first and last; their codes have `words` values.
    """
    rng = np.random.default_rng(seed)
    N = rng.normal(size=(n, numbers)) * 10.0 ** np.arange(numbers) + 3.0
    C = np.column_stack([rng.integers(0, count, size=n) for count in words]) if words else np.empty((n, 0))
    X = np.concatenate((C[:, :1], N, C[:, 1:]), axis=1).astype(np.float64)
    score = (N[:, 0] - 3.0 if numbers else 0.0) + (C[:, 0] == 1 if words else 0.0) + rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, K) / K))
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, (0, *range(numbers + 1, numbers + len(words))) if words else ()
