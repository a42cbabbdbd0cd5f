"""For the tests of learners of several labels: a table."""

import numpy as np
from scipy.special import expit


def drawn(n=400, seed=0):
    """Three numbers (some missing), a category, and three labels: the third follows the first two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 3, n)
    first = rng.random(n) < expit(2 * X[:, 0] - 1)
    second = rng.random(n) < expit(X[:, 1] + (X[:, 3] == 1))
    third = rng.random(n) < np.where(first ^ second, 0.9, 0.1)
    X[rng.random((n, 4)) < 0.05] = np.nan
    return X, np.column_stack((first, second, third)).astype(int)
