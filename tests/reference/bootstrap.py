"""The bootstrap row by row."""

import numpy as np


def resampled_means(values, weights, strata, *, resamples, seed):
    rng = np.random.default_rng(seed)
    n = len(values)
    weights = np.ones(n) if weights is None else weights
    groups = [np.arange(n)] if strata is None else [np.flatnonzero(strata == code) for code in np.unique(strata)]
    means = []
    for _ in range(resamples):
        rows = np.concatenate([rng.choice(group, len(group)) for group in groups])
        means.append(np.average(values[rows], axis=0, weights=weights[rows]))
    return np.array(means)
