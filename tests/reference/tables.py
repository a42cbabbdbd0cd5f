"""Random tables with numbers, categories and missing values, and small learners, for tests of the learners."""

from typing import Any

import numpy as np
from scipy.special import expit

SMALL: dict[str, Any] = {
    "auto": {"max_seconds": 1e-9},
    "budget_forest": {"n_estimators": 3, "alpha": 1.0},
    "cost_tree": {"depth": 2, "lambda": 0.01},
    "forest_chain": {"n_estimators": 4, "steps": 3},
    "gradient_boosting": {"max_iter": 8},
    "multilabel_forest": {"n_estimators": 8},
    "random_forest": {"n_estimators": 8},
}
"""Parameters with which a kind learns at once."""


def mixed(
    n: int,
    K: int,
    seed: int,
    *,
    numbers: int = 4,
    words: tuple[int, ...] = (3, 5),
    missing: float = 0.1,
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Rows (n, numbers + len(words)), class codes that depend on them, and the columns of categories.

    The categorical columns come first and last; their codes have `words` values.
    """
    rng = np.random.default_rng(seed)
    N = rng.normal(size=(n, numbers)) * 10.0 ** np.arange(numbers) + 3.0
    C = (
        np.column_stack([rng.integers(0, count, size=n) for count in words])
        if words
        else np.empty((n, 0))
    )
    X = np.concatenate((C[:, :1], N, C[:, 1:]), axis=1).astype(np.float64)
    score = (
        (N[:, 0] - 3.0 if numbers else 0.0)
        + (C[:, 0] == 1 if words else 0.0)
        + rng.normal(size=n)
    )
    y = np.digitize(score, np.quantile(score, np.arange(1, K) / K))
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, (0, *range(numbers + 1, numbers + len(words))) if words else ()


def drawn(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three numbers (some missing), a category, and three labels: the third follows the first two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 3, n)
    first = rng.random(n) < expit(2 * X[:, 0] - 1)
    second = rng.random(n) < expit(X[:, 1] + (X[:, 3] == 1))
    third = rng.random(n) < np.where(first ^ second, 0.9, 0.1)
    X[rng.random((n, 4)) < 0.05] = np.nan
    return X, np.column_stack((first, second, third)).astype(int)
