"""Compare contenders by their mean values on the same rows, with tests of significance.

Confidence intervals of means over rows, and of differences of means, are those of the paired
Bayesian bootstrap. A resample gives each row a random weight from the exponential distribution
(Rubin, 1981), so equal rows together have a gamma weight of their number. Observed rows cannot show
a rare large loss that none of them has. So where the possible values are known, each limit of an
interval is computed with two half rows more: one has the most extreme possible value on the side of
the limit, the other the most extreme observed value on the other side. For one class and two values
that is the Jeffreys interval of a proportion; with one row instead of two half rows it would be
Gaffke's bound, for a proportion that of Clopper and Pearson. Where rows have unequal weights
a half row has the largest: with the mean weight intervals covered .69 to .86 where rows had one of
two weights, 1 or 50 (benchmarks/weights.py).

Rows of one group depend on each other. So where rows are of groups, a group has one random weight
for all of its rows, and a half row counts as often as the design effect says: the variance of the
mean by the sums of groups over that of independent rows, at least 1 (Kish, "Survey Sampling", 1965,
section 5.4). As few groups show too little variation, intervals are widened by the quantile of
Student's t with G - 1 degrees of freedom and by sqrt(G / (G - 1)) (Cameron and Miller, "A
practitioner's guide to cluster-robust inference", 2015, section VI), for G the effective number of
groups of unequal sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from payoff.decisions.row_weights import effective_rows, effective_total
from payoff.errors import Invalid

RESAMPLES = 2000
# An event without a case in 30 rows may still have probability 0.1 (rule of three).
MIN_ROWS_TO_COMPARE = 30
# By how much intervals of n cross-validated rows are wider: at most so, and 30 / n. Each row is in
# the training of the models that judge the others, and the published model is none of these (Bates,
# Hastie and Tibshirani 2024, "Cross-validation: what does it estimate and how well does it do it",
# section 4). Their nested folds would estimate this with twice the fits; it hardly depends on the
# learner, and large tables do not need it (benchmarks/honest.md). With groups n counts these.
_WIDER_BY_FOLDS = 0.1
_ROWS_BY_FOLDS = 30.0
_TAIL = 0.025  # outside a 95 % interval on either side
# Share of resamples in which a contender leads the best one, from which it could have been chosen.
_RIVAL = 0.01
_WEIGHTS_PER_DRAW = 2_000_000  # 16 MB
_LEAST_GROUPS = 1.2  # so that the interval of a single group is wide, and not infinite
_EQUAL = 1e-12  # relative; means that differ by less differ by the order of their sums


@dataclass(frozen=True)
class Standing:
    """A contender's mean, its distance from the best mean, and the 95 % interval (low, high) of
    each.

    `behind_interval` allows for the choice of the best on the same rows; `interval` does not.
    """

    mean: float
    interval: tuple[float, float]
    behind: float
    behind_interval: tuple[float, float]


@dataclass(frozen=True)
class Ranking:
    """Contenders compared on the same rows.

    Rows of weight 0 do not count. `best` is the first contender of the largest mean; `same` are the
    contenders whose values equal those of the best on every row; `runner_up` is the best of all
    other contenders, or None. `differing` is the number of rows on which `best` and `runner_up`
    differ. `significant`: the paired interval of their difference excludes 0, and they differ on at
    least `MIN_ROWS_TO_COMPARE` effective rows (by stratum), because resamples cannot contain
    a rare large loss that no row has.
    """

    standings: list[Standing]
    best: int
    same: list[int]
    runner_up: int | None
    differing: int
    significant: bool


@dataclass(frozen=True)
class Possible:
    """The smallest and the largest possible value of each contender in each class, float64 (K, c)
    each.

    `shares` (K,): the class shares if they are known, which make each class a stratum; None if rows
    estimate them.
    """

    low: np.ndarray
    high: np.ndarray
    shares: np.ndarray | None = None

    def with_distances(self, best: int) -> Possible:
        """Ranges of 2c columns: of the values, and of the leads of contender `best` over each
        contender; over itself, 0.
        """
        low = self.low[:, [best]] - self.high
        high = self.high[:, [best]] - self.low
        low[:, best] = high[:, best] = 0
        return Possible(
            np.column_stack((self.low, low)),
            np.column_stack((self.high, high)),
            self.shares,
        )


class Resampled(NamedTuple):
    """Means in resamples, float64 (resamples, c): of the rows, and with half rows for the lower and
    the upper limit.
    """

    means: np.ndarray
    low: np.ndarray
    high: np.ndarray


def rank(
    values: np.ndarray,
    weights: np.ndarray,
    strata: np.ndarray,
    *,
    possible: Possible | None = None,
    groups: np.ndarray | None = None,
    cross_validated: bool = False,
    resamples: int = RESAMPLES,
) -> Ranking:
    """Rank c contenders by their mean values on n >= 1 rows, float64 (n, c); other arguments as in
    `bootstrap_means`.

    Differences are computed within each resample, so variation that all contenders share cancels.
    The intervals are percentiles, and contain the observed value. They do not include the variation
    of training rows. The lower limits of differences hold for each contender that could have been
    chosen as the best, see `_tails`. With `groups`, codes (n,), significance asks for
    `MIN_ROWS_TO_COMPARE` groups, not rows. Intervals of `cross_validated` rows are wider, see
    `_WIDER_BY_FOLDS`.
    """
    used = weights > 0
    if not used.all():
        values, weights, strata = values[used], weights[used], strata[used]
        groups = None if groups is None else groups[used]
    if not len(values):
        raise Invalid.at("", "a bootstrap needs at least one row")
    means = np.average(values, axis=0, weights=weights)
    best = _first_of_largest(means)
    c = len(means)
    units = () if groups is None else (groups,)
    first, sizes = _kinds(np.column_stack((strata, weights, *units, values)))
    possible = None if possible is None else possible.with_distances(best)
    resampled = bootstrap_means(
        np.column_stack((values[first], values[first][:, [best]] - values[first])),
        weights[first],
        strata[first],
        sizes,
        possible=possible,
        groups=None if groups is None else groups[first],
        resamples=resamples,
    )
    tails = np.concatenate((np.full(c, _TAIL), _tails(resampled.means[:, :c], best)))
    factor = 1.0 if groups is None else _widening(weights, groups)
    if cross_validated:
        independent = weights if groups is None else np.bincount(groups, weights)
        factor *= 1 + min(
            _WIDER_BY_FOLDS, _ROWS_BY_FOLDS / effective_total(independent)
        )
    intervals = []
    for j, observed in enumerate((*means, *(means[best] - means))):
        low = np.quantile(resampled.low[:, j], tails[j])
        high = np.quantile(resampled.high[:, j], 1 - _TAIL)
        if factor > 1:
            low = observed - factor * (observed - low)
            high = observed + factor * (high - observed)
            if possible is not None:
                low = max(low, possible.low[:, j].min())
                high = min(high, possible.high[:, j].max())
        intervals.append((float(min(low, observed)), float(max(high, observed))))
    standings = [
        Standing(float(mean), interval, float(means[best] - mean), behind)
        for mean, interval, behind in zip(
            means, intervals[:c], intervals[c:], strict=True
        )
    ]
    return _ranking(values, weights, strata, groups, standings, best)


def _ranking(
    values: np.ndarray,
    weights: np.ndarray,
    strata: np.ndarray,
    groups: np.ndarray | None,
    standings: list[Standing],
    best: int,
) -> Ranking:
    """The contenders that equal the best, the runner-up, and whether its difference is
    significant.
    """
    is_equal = (values == values[:, [best]]).all(axis=0)
    twins = [int(j) for j in np.flatnonzero(is_equal) if j != best]
    different = np.flatnonzero(~is_equal)
    if not different.size:
        return Ranking(standings, best, twins, None, 0, significant=False)
    means = np.array([standings[j].mean for j in different])
    runner_up = int(different[_first_of_largest(means)])
    differs = values[:, best] != values[:, runner_up]
    if groups is None:
        effective = float(effective_rows(weights[differs], strata[differs]).sum())
    else:
        effective = len(np.unique(groups[differs]))
    significant = (
        effective >= MIN_ROWS_TO_COMPARE and standings[runner_up].behind_interval[0] > 0
    )
    differing = int(np.count_nonzero(differs))
    return Ranking(standings, best, twins, runner_up, differing, significant)


def bootstrap_means(
    values: np.ndarray,
    weights: np.ndarray,
    strata: np.ndarray,
    counts: np.ndarray,
    *,
    possible: Possible | None = None,
    groups: np.ndarray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Resampled:
    """Weighted means of values (n, c) in Bayesian resamples of their rows.

    `weights` (n,) are positive. `strata` (n,) are codes: each stratum keeps its weight, for shares
    that are known and not estimated; without such shares all codes are 0. `counts` (n,): row i
    stands for so many equal rows. With `possible`, half rows are added to each stratum, whose code
    is its class where shares are known; such a class without rows varies over all its possible
    values. `groups` (n,) are codes: a group has one random weight for its rows in all strata.
    Deterministic in `seed`. O(resamples n c), memory O(resamples c + n).
    """
    rng = np.random.default_rng(seed)
    mass = np.bincount(strata, weights * counts)
    if possible is not None and possible.shares is not None:
        mass = possible.shares
    total = np.zeros((3, resamples, values.shape[1]))
    for stratum in np.flatnonzero(mass > 0):
        inside = strata == stratum
        extremes = None
        if possible is not None:
            classes = slice(None) if possible.shares is None else [stratum]
            extremes = (
                possible.low[classes].min(axis=0),
                possible.high[classes].max(axis=0),
            )
        rows = values[inside], weights[inside], counts[inside]
        if extremes is not None and not inside.any():
            low, high = extremes
            total += mass[stratum] * np.stack(((low + high) / 2, low, high))[:, None]
            continue
        half = np.average(weights[inside], weights=counts[inside])
        if np.ptp(weights[inside]) > 0:
            half = weights[inside].max()  # the row that is missing may be of this kind
        weighted = rows[1][:, None] * np.column_stack((rows[0], np.ones(len(rows[0]))))
        if groups is None:
            sums = _drawn(weighted, counts[inside], resamples, rng)
        else:
            by_group = np.zeros((int(groups.max()) + 1, weighted.shape[1]))
            np.add.at(by_group, groups[inside], weighted * counts[inside][:, None])
            # Each stratum draws the same weights of groups.
            shared = np.random.default_rng((seed, 1))
            sums = _drawn(by_group, np.ones(len(by_group)), resamples, shared)
            half = half * _design_effect(*rows, by_group)
        total += mass[stratum] * _means(sums, rows[0], half, extremes, rng)
    return Resampled(*(total / mass.sum()))


def _design_effect(
    values: np.ndarray, weights: np.ndarray, counts: np.ndarray, by_group: np.ndarray
) -> np.ndarray:
    """The variance of each mean (c,) by the sums of groups over that by rows, at least 1."""
    totals = by_group.sum(axis=0)
    means = totals[:-1] / totals[-1]
    between = ((by_group[:, :-1] - by_group[:, -1:] * means) ** 2).sum(axis=0)
    squares = (counts * weights**2) @ (values - means) ** 2
    return np.maximum(between / np.where(squares > 0, squares, np.inf), 1.0)


def _widening(weights: np.ndarray, groups: np.ndarray) -> float:
    """The factor of intervals from few groups: see the module."""
    size = max(effective_total(np.bincount(groups, weights)), _LEAST_GROUPS)
    t = float(stdtrit(size - 1, 1 - _TAIL) / ndtri(1 - _TAIL))
    return t * math.sqrt(size / (size - 1))


def _drawn(
    weighted: np.ndarray, counts: np.ndarray, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Sums (resamples, c + 1) of `weighted` rows, each with random weights for its count (n,)."""
    sums = np.empty((resamples, weighted.shape[1]))
    step = max(_WEIGHTS_PER_DRAW // len(weighted), 1)
    for begin in range(0, resamples, step):
        part = sums[begin : begin + step]
        part[:] = rng.standard_gamma(counts, (len(part), len(weighted))) @ weighted
    return sums


def _means(
    sums: np.ndarray,
    values: np.ndarray,
    half: np.ndarray | float,
    extremes: tuple[np.ndarray, np.ndarray] | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """The three arrays of `Resampled` for one stratum of rows with `values` (n, c), stacked.

    `half` is the weight of a row, two of whose halves are added. `extremes` are the smallest and
    the largest possible value of each contender, (c,) each.
    """
    sums, size = sums[:, :-1], sums[:, -1:]
    means = sums / size
    if extremes is None:
        return np.stack((means, means, means))
    halves = rng.standard_gamma(0.5, (2, len(sums), 1)) * half
    size = size + halves.sum(axis=0)
    low = (sums + halves[0] * extremes[0] + halves[1] * values.max(axis=0)) / size
    high = (sums + halves[0] * extremes[1] + halves[1] * values.min(axis=0)) / size
    return np.stack((means, low, high))


def _tails(means: np.ndarray, best: int) -> np.ndarray:
    """For each contender the share (c,) of resamples below the lower limit of the best one's lead.

    `means` (resamples, c) are those of resamples. The best contender was chosen on the same rows,
    so its lead is optimistically biased. Any contender that leads it in at least 1 % of resamples
    could have been chosen. The share is so small that the lower limits of all these contenders'
    leads together hold with probability 0.975 (balanced simultaneous limits by ranks, Besag et al.,
    1995). With one such contender it is 0.025. O(resamples log(resamples) c^2).
    """
    rivals = means[:, (means >= means[:, [best]]).mean(axis=0) >= _RIVAL]
    tails = np.full(means.shape[1], _TAIL)
    for i, contender in enumerate(means.T):
        leads = rivals - contender[:, None]
        leads = leads[:, np.ptp(leads, axis=0) > _EQUAL * np.abs(contender).max()]
        if leads.shape[1] > 1:
            lowest = leads.argsort(axis=0).argsort(axis=0).min(axis=1)
            tails[i] = np.quantile(lowest, _TAIL) / len(means)
    return tails


def _kinds(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each set of equal rows in a table (n, c), and the size of each set."""
    order = np.lexsort(table.T[::-1])
    starts = np.flatnonzero(
        np.append(True, (np.diff(table[order], axis=0) != 0).any(axis=1))
    )
    return order[starts], np.diff(starts, append=len(table))


def _first_of_largest(means: np.ndarray) -> int:
    largest = means.max()
    return int(np.argmax(means >= largest - _EQUAL * abs(largest)))
