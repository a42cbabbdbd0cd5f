"""From which day on too many truths are still to come, as those that are known early are not like the others."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import chdtrc

_LEVEL = 0.01
_BELOW = 0.9  # share of known truth of newer days over that of older ones, above which a difference does no harm
_Z = 3.0  # one in a hundred series of equal shares has a newest part that is as far below the rest
_BINS, _OCTAVES = 128, 32  # of lags, from a second to 2**32 seconds
_LATE = 2 / 3  # of the age of a day: where truths take longer than that, some may take longer than it is old
_OPEN = 0.05  # share of truths that take so long up to which next to nothing is missing
_ENOUGH = 30  # truths of a class that show how long it takes, or half of all
_LONG = 2 / 3  # of the days, which have to be mature where nobody knows how long truths take
_DAY = 86_400.0


@dataclass(frozen=True)
class Maturity:
    """`since` is the first day whose truths are not to be used, None where all are mature, `left_out` how many it
    has with those after it. `p_value` tests whether the classes become known equally fast, None where nothing shows it.
    `reason` says why no day can be called mature, None where some can.
    """

    since: int | None = None
    left_out: int = 0
    p_value: float | None = None
    reason: str | None = None

    @property
    def differs(self) -> bool | None:
        return None if self.p_value is None else self.p_value < _LEVEL


@dataclass
class Arrivals:
    """Counts by day of decisions, and by class of how long their truths took. `now` is the time in seconds."""

    now: float
    _cases: dict[int, int] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)
    _lags: dict[int, np.ndarray] = field(default_factory=dict)  # (K, bins)

    def add(self, day: int, at: np.ndarray, truth: np.ndarray, known_at: np.ndarray, classes: int) -> None:
        """Decisions (n,) of a day: when, the code of the true class below `classes` or -1, when that became known
        (NaN where nobody knows).
        """
        known = np.flatnonzero(truth >= 0)
        self._cases[day] = self._cases.get(day, 0) + len(at)
        self._known[day] = self._known.get(day, 0) + len(known)
        known = known[~np.isnan(known_at[known])]
        code = truth[known] * _BINS + _bin(known_at[known] - at[known])
        counts = np.bincount(code, minlength=classes * _BINS).reshape(-1, _BINS)
        self._lags[day] = _sum(self._lags.get(day), counts)

    def judge(self) -> Maturity:
        """What is mature.

        The newest days are not where their share of known truths is clearly below that of the days before, and truths
        may come that late. Where classes become known at different speeds, no day is either of whose class, or of that
        of the days before, more than one truth in twenty took longer than two thirds of the day's age. O(days**2).
        """
        days = sorted(self._cases)
        if not days:
            return Maturity()
        cases, known = (np.array([own[day] for day in days], np.float64) for own in (self._cases, self._known))
        classes = max(len(own) for own in self._lags.values())
        lags = np.stack([_wide(self._lags[day], classes) for day in days])
        p = _lag_test(lags)
        age = self.now - (np.array(days) + 0.5) * _DAY
        every = lags.sum(axis=1, keepdims=True)
        total, slow = _longer(every, age)
        kept = _level(cases, known, ((total == 0) | (slow > _OPEN * total))[:, 0])
        reason = None
        if p is None and kept < _LONG * len(days):
            reason = (
                "the share of known truths falls over more than a third of the period, so no day can be called mature"
            )
        if p is not None and p < _LEVEL:
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
    """(D, K) each: the truths of each day and those before it, and how many of them took longer than an age (D,)."""
    longer = np.cumsum(lags, axis=0)[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    place = _bin(age) + 1
    slow = np.where(place[:, None] < _BINS, longer[np.arange(len(age)), :, np.minimum(place, _BINS - 1)], 0)
    return longer[:, :, 0], slow


def _bin(seconds: np.ndarray) -> np.ndarray:
    octave = np.log2(np.maximum(seconds, 1.0))
    return np.asarray(np.minimum(octave * (_BINS / _OCTAVES), _BINS - 1), np.intp)


def _level(cases: np.ndarray, known: np.ndarray, is_open: np.ndarray) -> int:
    """How many of the oldest days have a share of known truths that no newest part of them is clearly below."""
    kept = len(cases)
    n, k = np.cumsum(cases), np.cumsum(known)
    while kept > 1 and is_open[kept - 1]:
        old_n, old_k = n[: kept - 1], k[: kept - 1]
        new_n, new_k = n[kept - 1] - old_n, k[kept - 1] - old_k
        older, newer, both = old_k / old_n, new_k / new_n, k[kept - 1] / n[kept - 1]
        error = np.sqrt(both * (1 - both) * (1 / old_n + 1 / new_n))
        if not ((newer < _BELOW * older) & (older - newer > _Z * error)).any():
            break
        kept -= 1
    return kept


def _lag_test(lags: np.ndarray) -> float | None:
    """The rank test of van Elteren that all classes become known equally fast, by day; counts (D, K, bins).

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


def _sum(before: np.ndarray | None, counts: np.ndarray) -> np.ndarray:
    if before is None:
        return counts
    size = max(len(before), len(counts))
    return np.asarray(_wide(before, size) + _wide(counts, size))


def _wide(counts: np.ndarray, size: int) -> np.ndarray:
    wide: np.ndarray = np.zeros((size, *counts.shape[1:]), counts.dtype)
    wide[: len(counts)] = counts
    return wide
