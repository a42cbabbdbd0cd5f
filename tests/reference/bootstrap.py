"""The Bayesian bootstrap row by row, and the percentile bootstrap that preceded it."""

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


def percentile_intervals(values, weights, strata, *, resamples=2000, seed=0):
    """95 % intervals of means and of distances from the best mean, (c, 2) each: percentiles of multinomial resamples,
    which ignore values that did not occur and the choice of the best.
    """
    rng = np.random.default_rng(seed)
    codes = np.zeros(len(values), dtype=int) if strata is None else strata
    kinds, counts = np.unique(np.column_stack((codes, weights, values)), axis=0, return_counts=True)
    sums = np.zeros((resamples, values.shape[1] + 1))
    for code in np.unique(codes):
        inside = kinds[:, 0] == code
        found, own = counts[inside], kinds[inside, 1:]
        weighed = own[:, [0]] * np.column_stack((own[:, 1:], np.ones(len(own))))
        sums += rng.multinomial(found.sum(), found / found.sum(), resamples) @ weighed
    drawn = sums[:, :-1] / sums[:, -1:]
    best = np.average(values, axis=0, weights=weights).argmax()
    tails = 2.5, 97.5
    return np.percentile(drawn, tails, axis=0).T, np.percentile(drawn[:, [best]] - drawn, tails, axis=0).T
