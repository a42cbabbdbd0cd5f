"""Confidence intervals of means over rows, and of differences of means: the paired bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.errors import Invalid

RESAMPLES = 2000
FEWEST = 30  # rows; an event with no case in 30 rows may still have probability 0.1 (rule of three)
_TAILS = (2.5, 97.5)  # per cent outside a 95 % interval on either side
_AT_ONCE = 2_000_000  # counts per draw: 16 MB
_EQUAL = 1e-12  # relative; below it, means differ by the order of their sums only


@dataclass(frozen=True)
class Standing:
    """A contender's mean, its distance from the best mean, and the 95 % interval (low, high) of each."""

    mean: float
    interval: tuple[float, float]
    behind: float
    behind_interval: tuple[float, float]


@dataclass(frozen=True)
class Ranking:
    """Contenders compared on the same rows.

    Rows of weight 0 do not count. `best` is the first contender of the largest mean; `same` are the others with equal
    values on every row; `runner_up` is the next best with other values, or None. `differing`: the number of rows on
    which these two differ. `significant`: the paired interval of their difference excludes 0, and they differ on at
    least `FEWEST` rows, because resamples cannot contain a rare large loss that no row has.
    """

    standings: list[Standing]
    best: int
    same: list[int]
    runner_up: int | None
    differing: int
    significant: bool


def rank(
    values: np.ndarray,
    weights: np.ndarray | None = None,
    strata: np.ndarray | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Ranking:
    """Rank c contenders by their mean values on n >= 1 rows, float64 (n, c); the rest as in `bootstrap_means`.

    Differences are computed within each resample, so variation that all contenders share cancels. The intervals are
    percentiles. They do not include the variation of training rows, nor the choice of the best among several.
    """
    if weights is not None and not weights.all():
        counted = weights > 0
        values, weights = values[counted], weights[counted]
        strata = None if strata is None else strata[counted]
    drawn = bootstrap_means(values, weights, strata, resamples=resamples, seed=seed)
    means = np.average(values, axis=0, weights=weights)
    best = _first_of_largest(means)
    same = (values == values[:, [best]]).all(axis=0)
    standings = [
        Standing(float(mean), _interval(sample), float(means[best] - mean), _interval(drawn[:, best] - sample))
        for mean, sample in zip(means, drawn.T, strict=True)
    ]
    others = np.flatnonzero(~same)
    runner_up = int(others[_first_of_largest(means[others])]) if others.size else None
    twins = [int(j) for j in np.flatnonzero(same) if j != best]
    if runner_up is None:
        return Ranking(standings, best, twins, None, 0, significant=False)
    differing = int(np.count_nonzero(values[:, best] != values[:, runner_up]))
    significant = differing >= FEWEST and standings[runner_up].behind_interval[0] > 0
    return Ranking(standings, best, twins, runner_up, differing, significant)


def bootstrap_means(
    values: np.ndarray,
    weights: np.ndarray | None = None,
    strata: np.ndarray | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> np.ndarray:
    """Weighted means of values (n, c) in resamples of their rows with replacement, float64 (resamples, c).

    `weights` (n,) are nonnegative. `strata` (n,) codes: each stratum keeps its number of rows, for shares that are
    known and not estimated. Equal rows are drawn together: the counts of the g distinct rows in a resample are
    multinomial, and g is small because decisions have few outcomes. Raises Invalid without rows. Deterministic in
    `seed`.
    O(n log n c + resamples g c), memory O(resamples c + n).
    """
    if not len(values):
        raise Invalid.at("", "a bootstrap needs at least one row")
    if weights is None:
        weights = np.ones(len(values))
    if strata is None:
        strata = np.zeros(len(values), dtype=np.intp)
    first, counts = _kinds(np.column_stack((strata, weights, values)))
    rng = np.random.default_rng(seed)
    sums = np.zeros((resamples, values.shape[1] + 1))
    for stratum in np.unique(strata):
        inside = strata[first] == stratum
        chosen, found = first[inside], counts[inside]
        weighed = weights[chosen, None] * np.column_stack((values[chosen], np.ones(len(chosen))))
        step = max(_AT_ONCE // len(chosen), 1)
        for begin in range(0, resamples, step):
            size = min(step, resamples - begin)
            sums[begin : begin + size] += rng.multinomial(found.sum(), found / found.sum(), size) @ weighed
    total = sums[:, -1:]
    means: np.ndarray = np.divide(sums[:, :-1], total, out=np.zeros((resamples, values.shape[1])), where=total > 0)
    return means


def _kinds(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each set of equal rows in a table (n, c), and the size of each set."""
    codes = np.zeros(len(table), dtype=np.intp)
    for column in table.T:
        found, code = np.unique(column, return_inverse=True)
        if len(found) > 1:
            _, codes = np.unique(codes * len(found) + code, return_inverse=True)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return first, counts


def _first_of_largest(means: np.ndarray) -> int:
    largest = means.max()
    return int(np.argmax(means >= largest - _EQUAL * abs(largest)))


def _interval(sample: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(sample, _TAILS)
    return float(low), float(high)
