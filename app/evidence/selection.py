"""Whether truth is known more often after some decisions than after others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

_LEVEL, _OWN_LEVEL = 0.01, 0.05
_LEAST = 0.9  # the lowest share of known cases over the highest, above which a difference does no harm
_CORRECTION = 1.0  # cases; with half a case the skewed counts of rare actions would be called selective too often
_EXPECTED = 5  # known and unknown cases of an action, from which chi-squared holds for a group alone
_ACTIONS = 50  # tested, those that show most
_NONE = 1e-9  # relative variance that is rounding

_Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # codes of the actions, their known cases and all, (m,) each


class Group(NamedTuple):
    """Decisions that are alike: their actions (m,), and of each the known cases and all cases, counts (m,)."""

    actions: Sequence[Hashable]
    known: np.ndarray
    cases: np.ndarray


@dataclass(frozen=True)
class Selection:
    """The test that truth is known as often after all actions, None where nothing shows it; whether it is not."""

    p_value: float | None
    selective: bool


class _Found(NamedTuple):
    p_value: float
    matters: bool  # whether some difference is as large as does harm


def known_shares(groups: Sequence[Group]) -> Selection:
    """Whether truth is known as often after all actions within the groups; a difference counts if p is below .01.

    Cochran, Mantel and Haenszel's test finds actions after which truth is known more, or less, often in most groups,
    however small these are. Differences that cancel out between groups are found by the sum of chi-squared over groups
    that are large enough for it. Of both the smaller p-value is doubled.
    """
    codes: dict[Hashable, int] = {}
    tables = []
    for actions, known, cases in groups:
        rows = np.flatnonzero(cases)
        if len(rows) > 1 and 0 < known.sum() < cases.sum():
            code = np.array([codes.setdefault(actions[i], len(codes)) for i in rows.tolist()])
            tables.append((code, known[rows], cases[rows]))
    tests = [_in_common(tables, len(codes))]
    if len(tables) > 1:
        tests.append(_in_each(tables))
    found = [test for test in tests if test is not None]
    if not found:
        return Selection(None, selective=False)
    p = min(min(test.p_value for test in found) * len(found), 1.0)
    return Selection(p, selective=any(test.matters and test.p_value * len(found) < _LEVEL for test in found))


def _in_common(tables: Sequence[_Table], size: int) -> _Found | None:
    """The test of Cochran, Mantel and Haenszel, by the moments of known cases given the sums of each table.

    A case is taken from each difference, as counts are whole. An action matters if it is significant alone, and
    its share is less than nine tenths of that of the others in the same tables, or the reverse.
    """
    excess, variance, known, even, every = np.zeros((5, size))
    for code, k, n in tables:
        N, K = n.sum(), k.sum()
        excess[code] += k - n * (K / N)
        variance[code] += _spread(N, K) * n * (1 - n / N)
        known[code] += k
        even[code] += n * (K / N)
        every[code] += K
    if not tables:
        return None
    used = np.argsort(-variance, kind="stable")[:_ACTIONS]
    place = np.full(size, -1)
    place[used] = np.arange(len(used))
    cover = np.zeros((len(used), len(used)))
    for code, k, n in tables:
        inside = place[code] >= 0
        own, m = place[code[inside]], n[inside]
        cover[np.ix_(own, own)] += _spread(n.sum(), k.sum()) * (np.diag(m) - np.outer(m, m) / n.sum())
    moved = np.sign(excess[used]) * np.maximum(np.abs(excess[used]) - _CORRECTION, 0)
    # Known cases are as many in all as given: at least one direction has no variance.
    sizes, axes = np.linalg.eigh(cover)
    axes, sizes = axes[:, sizes > _NONE * sizes[-1]], sizes[sizes > _NONE * sizes[-1]]
    p = float(chdtrc(len(sizes), ((moved @ axes) ** 2 / sizes).sum()))
    shares = np.sort((known[used] / even[used], (every - known)[used] / (every - even)[used]), axis=0)
    alone = chdtrc(1, excess[used] ** 2 / variance[used]) < _OWN_LEVEL
    return _Found(p, bool((alone & (shares[0] < _LEAST * shares[1])).any()))


def _in_each(tables: Sequence[_Table]) -> _Found | None:
    """Pearson's chi-squared, added over tables, each of the actions with enough cases.

    One table matters if it is significant alone, and the lowest share is less than nine tenths of the highest.
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
        is_lower = (k / n).min() < _LEAST * (k / n).max()
        matters = matters or (is_lower and chdtrc(len(n) - 1, own) < _OWN_LEVEL)
    return _Found(float(chdtrc(freedom, total)), bool(matters)) if freedom else None


def _spread(cases: float, known: float) -> float:
    """Of one case of these, known or not, the variance without replacement."""
    return known * (cases - known) / (cases * (cases - 1))


def payoff_range(payoffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest payoff (n,) of each case among all classes (n, K): a model that states 0 may be
    wrong.
    """
    values = np.ascontiguousarray(payoffs.T)  # the least over the first axis is fast
    return values.min(axis=0), values.max(axis=0)
