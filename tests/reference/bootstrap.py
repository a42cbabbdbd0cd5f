"""The Bayesian bootstrap row by row."""

import numpy as np


def resampled_means(values, weights, strata, *, resamples, seed, possible=None):
    """Means, and means for the lower and upper limits; `possible`: (low, high) values of each stratum, (c,) each."""
    rng = np.random.default_rng(seed)
    n = len(values)
    weights = np.ones(n) if weights is None else weights
    strata = np.zeros(n, dtype=int) if strata is None else strata
    drawn = []
    for _ in range(resamples):
        sums = np.zeros((3, values.shape[1]))
        for code in np.unique(strata):
            rows, w = values[strata == code], weights[strata == code]
            gammas = rng.exponential(size=len(rows)) * w
            means = [np.average(rows, axis=0, weights=gammas)] * 3
            if possible is not None:
                halves = rng.gamma(0.5, size=2) * w.mean()
                low, high = possible[code]
                for place, (mine, other) in enumerate(((low, rows.max(axis=0)), (high, rows.min(axis=0))), start=1):
                    more = np.vstack((rows, mine, other))
                    means[place] = np.average(more, axis=0, weights=np.concatenate((gammas, halves)))
            sums += w.sum() * np.array(means)
        drawn.append(sums / weights.sum())
    return np.array(drawn).transpose(1, 0, 2)
