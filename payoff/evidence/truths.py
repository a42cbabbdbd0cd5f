"""Which truths are known: whether many are missing, and whether that depends on the action; and
what another rule would have earned on all cases, where actions were drawn at random.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.decisions.row_weights import effective_total
from payoff.evidence.intervals import (
    SIGNIFICANT,
    UNIT,
    Mean,
    PromiseSums,
    Z,
    promise_interval,
)

ALPHA = 0.01  # of the tests of this module
# The lowest share of known truths over the highest, above which a difference does no harm.
_HARMLESS = 0.9
# One in a hundred series of equal shares has a newest part that is so far below the older one.
_Z = 3.0
_BINS = 128  # of lags, by their logarithms
_OCTAVES = 32  # lags are from a second to 2**32 seconds
# Share of the age of a day: where some truths take longer, others may take longer than the age.
_LATE = 2 / 3
_OPEN = 0.05  # share of late truths, up to which almost no truth is missing
# of a class, or half of them all, that show how long truths of the class take
_MIN_TRUTHS = 30
_MATURE_DAYS = (
    2 / 3
)  # share of days that have to be mature where the lags of truths are unknown
_DAY = 86_400.0  # seconds
# Cases; with half a case the test would reject too often for the skewed counts of rare actions.
_CORRECTION = 1.0
# Known and unknown cases of an action, from which chi-squared holds for a single group.
_MIN_EXPECTED = 5
_MAX_ACTIONS = 50  # that are tested: those with the largest variance
_ROUNDING = 1e-9  # relative variance
_MAX_WEIGHT = 0.1  # the largest share of one case in all weights of a usable estimate

# The codes of actions, their known cases and all their cases, (m,) each.
_Table = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Maturity:
    """Which days are mature: almost all their truths are known.

    `since` is the first day whose truths must not be used, None where all days are mature;
    `left_out` is the number of truths from that day on. `p_value` is that of the test whether the
    classes become known equally fast, None without data for it. `reason` is why no day can be
    called mature, None where some days are.
    """

    since: int | None = None
    left_out: int = 0
    p_value: float | None = None
    reason: str | None = None


@dataclass
class Arrivals:
    """Counts of decisions by day, and of the lags of their truths by day and class.

    `now` is the time in seconds.
    """

    now: float
    _cases: dict[int, int] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)
    _lags: dict[int, np.ndarray] = field(default_factory=dict)  # (K, bins)

    def add(
        self,
        day: int,
        at: np.ndarray,
        truth: np.ndarray,
        known_at: np.ndarray,
        classes: int,
    ) -> None:
        """Add decisions (n,) of a day.

        `at` and `known_at` are the times of the decision and of its outcome, NaN where that is
        unknown. `truth` is the code of the true class, -1 where it is unknown; codes are below
        `classes`, which must not fall from call to call.
        """
        known = np.flatnonzero(truth >= 0)
        self._cases[day] = self._cases.get(day, 0) + len(at)
        self._known[day] = self._known.get(day, 0) + len(known)
        known = known[~np.isnan(known_at[known])]
        code = truth[known] * _BINS + _bin(known_at[known] - at[known])
        counts = np.bincount(code, minlength=classes * _BINS).reshape(-1, _BINS)
        before = self._lags.get(day)
        if before is not None:
            counts[: len(before)] += before
        self._lags[day] = counts

    def maturity(self) -> Maturity:
        """Which days are mature.

        The newest days are not mature where their share of known truths is clearly below that of
        the older days, and truths may come that late. Where classes become known at different
        speeds, a day is not mature either if of some class, on this and all older days, more than
        one truth in twenty took longer than two thirds of the day's age. O(days**2).
        """
        days = sorted(self._cases)
        if not days:
            return Maturity()
        cases = np.array([self._cases[day] for day in days], np.float64)
        known = np.array([self._known[day] for day in days], np.float64)
        lags = self._lags_by_day(days)
        p = _lag_test(lags)
        age = self.now - (np.array(days) + 0.5) * _DAY
        total, slow = _longer(lags.sum(axis=1, keepdims=True), age)
        mature = _level(cases, known, ((total == 0) | (slow > _OPEN * total))[:, 0])
        reason = None
        if p is None and mature < _MATURE_DAYS * len(days):
            reason = (
                "the share of known truths falls over more than a third of the period, "
                "so no day can be called mature"
            )
        if p is not None and p < ALPHA:
            total, slow = _longer(lags, _LATE * age)
            enough = total >= np.minimum(_MIN_TRUTHS, total[-1] / 2)
            settled = (enough & (slow <= _OPEN * total + 1)).all(axis=1)[:mature]
            if settled.any():
                mature = int(np.flatnonzero(settled)[-1]) + 1
            else:
                reason = (
                    "some classes become known later than others, and no day is old enough to have"
                    " all of them"
                )
        since = days[mature] if mature < len(days) else None
        return Maturity(since, int(known[mature:].sum()), p, reason)

    def _lags_by_day(self, days: Sequence[int]) -> np.ndarray:
        """The counts of lags (D, K, bins); classes that a day does not have yet have counts of
        0.
        """
        classes = max(len(counts) for counts in self._lags.values())
        lags = np.zeros((len(days), classes, _BINS), np.intp)
        for d, day in enumerate(days):
            counts = self._lags[day]
            lags[d, : len(counts)] = counts
        return lags


def _longer(lags: np.ndarray, age: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of truths of each day and all older days, and of those that took longer than the
    age (D,) of the day, (D, K) each.
    """
    longer = np.cumsum(lags, axis=0)[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    place = _bin(age) + 1
    slow = longer[np.arange(len(age)), :, np.minimum(place, _BINS - 1)]
    return longer[:, :, 0], np.where(place[:, None] < _BINS, slow, 0)


def _bin(seconds: np.ndarray) -> np.ndarray:
    """The bin of each lag."""
    octave = np.log2(np.maximum(seconds, 1.0))
    return np.asarray(np.minimum(octave * (_BINS / _OCTAVES), _BINS - 1), np.intp)


def _level(cases: np.ndarray, known: np.ndarray, is_open: np.ndarray) -> int:
    """The largest number of oldest days among which no newest part has a share of known truths that
    is clearly below that of the older part.

    The search starts with all days (D,), and stops at a day that is not `is_open`.
    """
    days = len(cases)
    n, k = np.cumsum(cases), np.cumsum(known)
    while days > 1 and is_open[days - 1]:
        last = days - 1
        old_n, old_k = n[:last], k[:last]
        new_n, new_k = n[last] - old_n, k[last] - old_k
        older, newer = old_k / old_n, new_k / new_n
        share = k[last] / n[last]
        error = np.sqrt(share * (1 - share) * (1 / old_n + 1 / new_n))
        if not ((newer < _HARMLESS * older) & (older - newer > _Z * error)).any():
            break
        days -= 1
    return days


def _lag_test(lags: np.ndarray) -> float | None:
    """The p-value of van Elteren's rank test, by day, that all classes become known equally fast.

    `lags` are counts (D, K, bins). None where no day has two classes and two lags.
    """
    classes = lags.shape[1]
    score, covariance = np.zeros(classes), np.zeros((classes, classes))
    for counts in lags:
        by_lag, total = counts.sum(axis=0), counts.sum()
        if total < 2:
            continue
        rank = np.cumsum(by_lag) - (by_lag - 1) / 2 - (total + 1) / 2
        size = counts.sum(axis=1)
        score += counts @ rank / (total + 1)
        spread = by_lag @ rank**2 / (total - 1) / (total + 1) ** 2
        covariance += spread * (np.diag(size) - np.outer(size, size) / total)
    freedom = int(np.linalg.matrix_rank(covariance))
    if not freedom:
        return None
    return float(
        chdtrc(freedom, score @ np.linalg.pinv(covariance, hermitian=True) @ score)
    )


class AlikeDecisions(NamedTuple):
    """Decisions that are alike: their actions (m,), and for each action the number of cases with
    known truth, and of all cases.
    """

    actions: Sequence[Hashable]
    known: np.ndarray
    cases: np.ndarray


@dataclass(frozen=True)
class Selection:
    """The test that truth is known as often after all actions, None without data for it, and
    whether it is `selective`: known more often after some actions.
    """

    p_value: float | None
    selective: bool


class _Test(NamedTuple):
    p_value: float
    matters: bool  # whether a difference is large enough to do harm


def known_shares(groups: Sequence[AlikeDecisions]) -> Selection:
    """Whether truth is known as often after all actions within the groups; a difference counts if p
    is below .01.

    The test of Cochran, Mantel and Haenszel detects actions after which truth is known more, or
    less, often in most groups, however small these are. The sum of chi-squared over groups that are
    large enough detects differences that cancel out between groups. The smaller p-value of both
    tests is doubled.
    """
    codes: dict[Hashable, int] = {}
    tables = []
    for actions, known, cases in groups:
        rows = np.flatnonzero(cases)
        if len(rows) > 1 and 0 < known.sum() < cases.sum():
            code = np.array(
                [codes.setdefault(actions[i], len(codes)) for i in rows.tolist()]
            )
            tables.append((code, known[rows], cases[rows]))
    if not tables:
        return Selection(None, selective=False)
    tests = [_common_test(tables, len(codes))]
    separate = _separate_test(tables) if len(tables) > 1 else None
    if separate is not None:
        tests.append(separate)
    p = min(min(test.p_value for test in tests) * len(tests), 1.0)
    selective = any(
        test.matters and test.p_value * len(tests) < ALPHA for test in tests
    )
    return Selection(p, selective=selective)


def _common_test(tables: Sequence[_Table], size: int) -> _Test:
    """The test of Cochran, Mantel and Haenszel, by the moments of known cases given the sums of
    each table.

    One case is subtracted from each difference, as counts are integers (continuity correction). An
    action matters if it is significant alone, and its share is less than nine tenths of that of all
    other actions in the same tables, or the reverse.
    """
    excess, variance, known, even, known_in_tables = np.zeros((5, size))
    for code, k, n in tables:
        N, K = n.sum(), k.sum()
        excess[code] += k - n * (K / N)
        variance[code] += _spread(N, K) * n * (1 - n / N)
        known[code] += k
        even[code] += n * (K / N)
        known_in_tables[code] += K
    used = np.argsort(-variance, kind="stable")[:_MAX_ACTIONS]
    place = np.full(size, -1)
    place[used] = np.arange(len(used))
    covariance = np.zeros((len(used), len(used)))
    for code, k, n in tables:
        inside = place[code] >= 0
        rows, m = place[code[inside]], n[inside]
        of_table = np.diag(m) - np.outer(m, m) / n.sum()
        covariance[np.ix_(rows, rows)] += _spread(n.sum(), k.sum()) * of_table
    corrected = np.sign(excess[used]) * np.maximum(
        np.abs(excess[used]) - _CORRECTION, 0
    )
    # The number of known cases of a table is fixed: at least one direction has no variance.
    sizes, axes = np.linalg.eigh(covariance)
    varies = sizes > _ROUNDING * sizes[-1]
    sizes, axes = sizes[varies], axes[:, varies]
    p = float(chdtrc(len(sizes), ((corrected @ axes) ** 2 / sizes).sum()))
    of_action = known[used] / even[used]
    of_all_others = (known_in_tables - known)[used] / (known_in_tables - even)[used]
    lower = np.minimum(of_action, of_all_others)
    higher = np.maximum(of_action, of_all_others)
    significant = chdtrc(1, excess[used] ** 2 / variance[used]) < SIGNIFICANT
    return _Test(p, bool((significant & (lower < _HARMLESS * higher)).any()))


def _separate_test(tables: Sequence[_Table]) -> _Test | None:
    """Pearson's chi-squared of the actions with enough cases, summed over tables.

    A table matters if it is significant alone, and the lowest share is less than nine tenths of the
    highest.
    """
    total, freedom, matters = 0.0, 0, False
    for _, known, cases in tables:
        share = known.sum() / cases.sum()
        enough = cases * min(share, 1 - share) >= _MIN_EXPECTED
        k, n = known[enough], cases[enough]
        if len(n) < 2 or not 0 < k.sum() < n.sum():
            continue
        squares = ((k - n * (k.sum() / n.sum())) ** 2 / n).sum()
        chi_squared = float(squares / _spread(n.sum(), k.sum()))
        total += chi_squared
        freedom += len(n) - 1
        is_lower = (k / n).min() < _HARMLESS * (k / n).max()
        matters = matters or (
            is_lower and chdtrc(len(n) - 1, chi_squared) < SIGNIFICANT
        )
    return _Test(float(chdtrc(freedom, total)), bool(matters)) if freedom else None


def _spread(cases: float, known: float) -> float:
    """The variance of whether one of these cases is known, without replacement."""
    return known * (cases - known) / (cases * (cases - 1))


def payoff_range(payoffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest payoff (n,) of each case among all classes (n, K): a model that
    states 0 may be wrong.
    """
    values = np.ascontiguousarray(payoffs.T)  # the minimum over the first axis is fast
    return values.min(axis=0), values.max(axis=0)


@dataclass(frozen=True)
class PropensityEstimate:
    """Two estimates of a mean benefit with their intervals, by inverse propensities (`ips`) and
    doubly robust (`dr`).

    `effective` is the effective number of cases, `largest` the largest weight as a share of all
    weights. `usable` is false where the estimates depend on few cases. There are no intervals where
    the promised outcomes are too rare for them.
    """

    ips: Mean
    dr: Mean
    effective: float
    largest: float
    usable: bool


def propensity_estimate(
    known: np.ndarray,
    chance: np.ndarray,
    earned: np.ndarray,
    model: np.ndarray,
    risks: np.ndarray,
) -> PropensityEstimate:
    """The mean benefit of a decision rule over all n cases, with known truth or not.

    `known` (n,) is whether the truth is known, `chance` (n,) the probability that it became known,
    `earned` (n,) what the rule would have earned (any value where unknown), `model` (n,) what the
    model expects that it earns, `risks` (2, n) how that varies, see `risk`. Inverse propensities
    (Horvitz and Thompson) are not clipped: the estimate is unbiased if the chances are right and
    above 0. The doubly robust estimate is the model's value and its weighted error; it is unbiased
    if either the chances or the model are right. Its interval is the `promise_interval` of the
    weighted errors, as a sample does not contain rare losses; that of inverse propensities adds the
    error of the weights. O(n).
    """
    weight = np.where(known, 1 / np.where(known, chance, 1.0), 0.0)
    errors = weight * np.where(known, earned - model, 0.0)
    sums = PromiseSums()
    sums.compare(errors, np.stack((risks[0], risks[1] * weight)), 0)
    error = promise_interval(sums)
    n = len(known)
    design = (weight - 1) * (model / UNIT)
    ips = float((weight * np.where(known, earned, 0.0)).mean())
    dr = float((model + errors).mean())
    spread = Z * float(design.std()) / np.sqrt(n) * UNIT
    means = Mean(ips), Mean(dr)
    if error.mean is not None and error.low is not None and error.high is not None:
        down = error.mean - error.low
        up = error.high - error.mean
        ips_down = float(np.hypot(down, spread))
        ips_up = float(np.hypot(up, spread))
        means = Mean(ips, ips - ips_down, ips + ips_up), Mean(dr, dr - down, dr + up)
    total = float(weight.sum())
    effective = effective_total(weight)
    largest = float(weight.max(initial=0.0)) / total if total else 1.0
    has_interval = error.low is not None
    usable = (
        has_interval and effective >= MIN_ROWS_TO_COMPARE and largest <= _MAX_WEIGHT
    )
    return PropensityEstimate(*means, effective, largest, usable)
