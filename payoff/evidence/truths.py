"""Which truths are known: whether many are still to come, whether that depends on the action, and
what other ways to decide would have earned on all cases where some actions were drawn.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from payoff.evidence.intervals import SIGNIFICANT, UNIT, Mean, PromiseSums, Z, judge

ALPHA = 0.01  # of the tests of this module
_HARMLESS = (
    0.9  # the lowest share of known truths over the highest, above which a difference does no harm
)
_Z = 3.0  # one in a hundred series of equal shares has a newest part that is as far below the rest
_BINS, _OCTAVES = 128, 32  # of lags, from a second to 2**32 seconds
_LATE = (
    2 / 3
)  # of the age of a day: where truths take longer than that, some may take longer than it is old
_OPEN = 0.05  # share of truths that take so long up to which next to nothing is missing
_ENOUGH = 30  # truths of a class that show how long it takes, or half of all
_LONG = 2 / 3  # of the days, which have to be mature where nobody knows how long truths take
_DAY = 86_400.0
_CORRECTION = 1.0  # cases; with half a case the skewed counts of rare actions would be called selective too often
_EXPECTED = (
    5  # known and unknown cases of an action, from which chi-squared holds for a group alone
)
_ACTIONS = 50  # tested, those that show most
_NONE = 1e-9  # relative variance that is rounding
_FEWEST, _HEAVIEST = 30.0, 0.1  # effective cases, and the greatest share of one case in all weights

_Table = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # codes of the actions, their known cases and all, (m,) each


@dataclass(frozen=True)
class Maturity:
    """`since` is the first day whose truths are not to be used, None where all are mature,
    `left_out` how many it has with those after it. `p_value` tests whether the classes become known
    equally fast, None where nothing shows it. `reason` says why no day can be called mature, None
    where some can.
    """

    since: int | None = None
    left_out: int = 0
    p_value: float | None = None
    reason: str | None = None


@dataclass
class Arrivals:
    """Counts by day of decisions, and by class of how long their truths took. `now` is the time in
    seconds.
    """

    now: float
    _cases: dict[int, int] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)
    _lags: dict[int, np.ndarray] = field(default_factory=dict)  # (K, bins)

    def add(
        self, day: int, at: np.ndarray, truth: np.ndarray, known_at: np.ndarray, classes: int
    ) -> None:
        """Decisions (n,) of a day: when, the code of the true class below `classes`, which never
        get fewer, or -1, when that became known (NaN where nobody knows).
        """
        known = np.flatnonzero(truth >= 0)
        self._cases[day] = self._cases.get(day, 0) + len(at)
        self._known[day] = self._known.get(day, 0) + len(known)
        known = known[~np.isnan(known_at[known])]
        code = truth[known] * _BINS + _bin(known_at[known] - at[known])
        counts = np.bincount(code, minlength=classes * _BINS).reshape(-1, _BINS)
        if (before := self._lags.get(day)) is not None:
            counts[: len(before)] += before
        self._lags[day] = counts

    def judge(self) -> Maturity:
        """What is mature.

        The newest days are not where their share of known truths is clearly below that of the days
        before, and truths may come that late. Where classes become known at different speeds, no
        day is either of whose class, or of that of the days before, more than one truth in twenty
        took longer than two thirds of the day's age. O(days**2).
        """
        days = sorted(self._cases)
        if not days:
            return Maturity()
        cases, known = (
            np.array([own[day] for day in days], np.float64) for own in (self._cases, self._known)
        )
        classes = max(len(own) for own in self._lags.values())
        lags = np.stack(
            [np.pad(self._lags[day], ((0, classes - len(self._lags[day])), (0, 0))) for day in days]
        )
        p = _lag_test(lags)
        age = self.now - (np.array(days) + 0.5) * _DAY
        every = lags.sum(axis=1, keepdims=True)
        total, slow = _longer(every, age)
        kept = _level(cases, known, ((total == 0) | (slow > _OPEN * total))[:, 0])
        reason = None
        if p is None and kept < _LONG * len(days):
            reason = (
                "the share of known truths falls over more than a third of the period, "
                "so no day can be called mature"
            )
        if p is not None and p < ALPHA:
            total, slow = _longer(lags, _LATE * age)
            enough = total >= np.minimum(_ENOUGH, total[-1] / 2)
            settled = (enough & (slow <= _OPEN * total + 1)).all(axis=1)[:kept]
            if settled.any():
                kept = int(np.flatnonzero(settled)[-1]) + 1
            else:
                reason = "some classes become known later than others, and no day is old enough to have all of them"
        since = days[kept] if kept < len(days) else None
        return Maturity(since, int(known[kept:].sum()), p, reason)


def _longer(lags: np.ndarray, age: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(D, K) each: the truths of each day and those before it, and how many of them took longer
    than an age (D,).
    """
    longer = np.cumsum(lags, axis=0)[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    place = _bin(age) + 1
    slow = np.where(
        place[:, None] < _BINS, longer[np.arange(len(age)), :, np.minimum(place, _BINS - 1)], 0
    )
    return longer[:, :, 0], slow


def _bin(seconds: np.ndarray) -> np.ndarray:
    octave = np.log2(np.maximum(seconds, 1.0))
    return np.asarray(np.minimum(octave * (_BINS / _OCTAVES), _BINS - 1), np.intp)


def _level(cases: np.ndarray, known: np.ndarray, is_open: np.ndarray) -> int:
    """How many of the oldest days have a share of known truths that no newest part of them is
    clearly below.
    """
    kept = len(cases)
    n, k = np.cumsum(cases), np.cumsum(known)
    while kept > 1 and is_open[kept - 1]:
        old_n, old_k = n[: kept - 1], k[: kept - 1]
        new_n, new_k = n[kept - 1] - old_n, k[kept - 1] - old_k
        older, newer, both = old_k / old_n, new_k / new_n, k[kept - 1] / n[kept - 1]
        error = np.sqrt(both * (1 - both) * (1 / old_n + 1 / new_n))
        if not ((newer < _HARMLESS * older) & (older - newer > _Z * error)).any():
            break
        kept -= 1
    return kept


def _lag_test(lags: np.ndarray) -> float | None:
    """The rank test of van Elteren that all classes become known equally fast, by day; counts (D,
    K, bins).

    None where no day has two classes and two lags.
    """
    classes = lags.shape[1]
    score, cover = np.zeros(classes), np.zeros((classes, classes))
    for counts in lags:
        own, total = counts.sum(axis=0), counts.sum()
        if total < 2:
            continue
        rank = np.cumsum(own) - (own - 1) / 2 - (total + 1) / 2
        size = counts.sum(axis=1)
        score += counts @ rank / (total + 1)
        spread = own @ rank**2 / (total - 1) / (total + 1) ** 2
        cover += spread * (np.diag(size) - np.outer(size, size) / total)
    rank_of = int(np.linalg.matrix_rank(cover))
    if not rank_of:
        return None
    return float(chdtrc(rank_of, score @ np.linalg.pinv(cover, hermitian=True) @ score))


class AlikeDecisions(NamedTuple):
    """Decisions that are alike: their actions (m,), and of each the known cases and all cases,
    counts (m,).
    """

    actions: Sequence[Hashable]
    known: np.ndarray
    cases: np.ndarray


@dataclass(frozen=True)
class Selection:
    """The test that truth is known as often after all actions, None where nothing shows it; whether
    it is not.
    """

    p_value: float | None
    selective: bool


class _Found(NamedTuple):
    p_value: float
    matters: bool  # whether some difference is as large as does harm


def known_shares(groups: Sequence[AlikeDecisions]) -> Selection:
    """Whether truth is known as often after all actions within the groups; a difference counts if p
    is below .01.

    Cochran, Mantel and Haenszel's test finds actions after which truth is known more, or less,
    often in most groups, however small these are. Differences that cancel out between groups are
    found by the sum of chi-squared over groups that are large enough for it. Of both the smaller
    p-value is doubled.
    """
    codes: dict[Hashable, int] = {}
    tables = []
    for actions, known, cases in groups:
        rows = np.flatnonzero(cases)
        if len(rows) > 1 and 0 < known.sum() < cases.sum():
            code = np.array([codes.setdefault(actions[i], len(codes)) for i in rows.tolist()])
            tables.append((code, known[rows], cases[rows]))
    if not tables:
        return Selection(None, selective=False)
    tests = [_in_common(tables, len(codes)), _in_each(tables) if len(tables) > 1 else None]
    found = [test for test in tests if test is not None]
    p = min(min(test.p_value for test in found) * len(found), 1.0)
    return Selection(
        p, selective=any(test.matters and test.p_value * len(found) < ALPHA for test in found)
    )


def _in_common(tables: Sequence[_Table], size: int) -> _Found:
    """The test of Cochran, Mantel and Haenszel, by the moments of known cases given the sums of
    each table.

    A case is taken from each difference, as counts are whole. An action matters if it is
    significant alone, and its share is less than nine tenths of that of the others in the same
    tables, or the reverse.
    """
    excess, variance, known, even, every = np.zeros((5, size))
    for code, k, n in tables:
        N, K = n.sum(), k.sum()
        excess[code] += k - n * (K / N)
        variance[code] += _spread(N, K) * n * (1 - n / N)
        known[code] += k
        even[code] += n * (K / N)
        every[code] += K
    used = np.argsort(-variance, kind="stable")[:_ACTIONS]
    place = np.full(size, -1)
    place[used] = np.arange(len(used))
    cover = np.zeros((len(used), len(used)))
    for code, k, n in tables:
        inside = place[code] >= 0
        own, m = place[code[inside]], n[inside]
        cover[np.ix_(own, own)] += _spread(n.sum(), k.sum()) * (
            np.diag(m) - np.outer(m, m) / n.sum()
        )
    moved = np.sign(excess[used]) * np.maximum(np.abs(excess[used]) - _CORRECTION, 0)
    # Known cases are as many in all as given: at least one direction has no variance.
    sizes, axes = np.linalg.eigh(cover)
    axes, sizes = axes[:, sizes > _NONE * sizes[-1]], sizes[sizes > _NONE * sizes[-1]]
    p = float(chdtrc(len(sizes), ((moved @ axes) ** 2 / sizes).sum()))
    shares = np.sort(
        (known[used] / even[used], (every - known)[used] / (every - even)[used]), axis=0
    )
    alone = chdtrc(1, excess[used] ** 2 / variance[used]) < SIGNIFICANT
    return _Found(p, bool((alone & (shares[0] < _HARMLESS * shares[1])).any()))


def _in_each(tables: Sequence[_Table]) -> _Found | None:
    """Pearson's chi-squared, added over tables, each of the actions with enough cases.

    One table matters if it is significant alone, and the lowest share is less than nine tenths of
    the highest.
    """
    total, freedom, matters = 0.0, 0, False
    for _, known, cases in tables:
        share = known.sum() / cases.sum()
        enough = cases * min(share, 1 - share) >= _EXPECTED
        k, n = known[enough], cases[enough]
        if len(n) < 2 or not 0 < k.sum() < n.sum():
            continue
        own = float(((k - n * (k.sum() / n.sum())) ** 2 / n).sum() / _spread(n.sum(), k.sum()))
        total, freedom = total + own, freedom + len(n) - 1
        is_lower = (k / n).min() < _HARMLESS * (k / n).max()
        matters = matters or (is_lower and chdtrc(len(n) - 1, own) < SIGNIFICANT)
    return _Found(float(chdtrc(freedom, total)), bool(matters)) if freedom else None


def _spread(cases: float, known: float) -> float:
    """Of one case of these, known or not, the variance without replacement."""
    return known * (cases - known) / (cases * (cases - 1))


def payoff_range(payoffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest payoff (n,) of each case among all classes (n, K): a model that
    states 0 may be wrong.
    """
    values = np.ascontiguousarray(payoffs.T)  # the least over the first axis is fast
    return values.min(axis=0), values.max(axis=0)


@dataclass(frozen=True)
class PropensityEstimate:
    """An estimate, its interval and what it rests on: `effective` cases, and the largest weight as
    a share of all.

    `usable` is false where few cases decide it; without an interval the promise is of outcomes too
    rare for it.
    """

    ips: Mean
    dr: Mean
    effective: float
    largest: float
    usable: bool


def weighted(
    known: np.ndarray, chance: np.ndarray, earned: np.ndarray, model: np.ndarray, risks: np.ndarray
) -> PropensityEstimate:
    """The mean benefit of a way to decide over all n cases, known or not.

    `known` (n,) states whether the truth is known, `chance` (n,) with what probability it became
    known, `earned` (n,) what the way would have earned (any value where unknown), `model` (n,) what
    the model expects of it, `risks` (2, n) how that varies. Inverse propensities (Horvitz and
    Thompson), not clipped: unbiased if the chances are right and above 0. Doubly robust: the
    model's value and the weighted error of it; unbiased if either the chances or the model are
    right. Its interval is that of `judge` for the weighted errors, as a sample does not know rare
    losses; that of inverse propensities adds the error of the weights.
    """
    weight = np.where(known, 1 / np.where(known, chance, 1.0), 0.0)
    errors = weight * np.where(known, earned - model, 0.0)
    sums = PromiseSums()
    sums.compare(errors, np.stack((risks[0], risks[1] * weight)), 0)
    judged, n = judge(sums), len(known)
    design = (weight - 1) * (model / UNIT)
    ips = float((weight * np.where(known, earned, 0.0)).mean())
    dr = float((model + errors).mean())
    spread = Z * float(design.std()) / np.sqrt(n) * UNIT
    means = Mean(ips), Mean(dr)
    if judged.mean is not None and judged.low is not None and judged.high is not None:
        down, up = judged.mean - judged.low, judged.high - judged.mean
        means = (
            Mean(ips, ips - float(np.hypot(down, spread)), ips + float(np.hypot(up, spread))),
            Mean(dr, dr - down, dr + up),
        )
    total = float(weight.sum())
    effective = total**2 / float((weight**2).sum()) if total else 0.0
    largest = float(weight.max(initial=0.0)) / total if total else 1.0
    usable = judged.low is not None and effective >= _FEWEST and largest <= _HEAVIEST
    return PropensityEstimate(*means, effective, largest, usable)
