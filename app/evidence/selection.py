"""Whether truth is known more often after some decisions than after others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_LEVEL, _GROUP_LEVEL = 0.01, 0.05
_LEAST = 0.9  # the lowest share of known cases over the highest, above which a difference does no harm


@dataclass(frozen=True)
class Selection:
    """The test that truth is known as often after all actions, None with fewer than two; whether it is not."""

    p_value: float | None
    selective: bool


def known_shares(known: Sequence[np.ndarray], cases: Sequence[np.ndarray]) -> Selection:
    """The G-test of known against unknown cases by action, within groups of decisions that are alike, each counts (m,).

    The tests are added. A difference counts if p is below .01, and in one of them that is significant at .05 the lowest
    share is less than nine tenths of the highest.
    """
    used = [(some[rows], of[rows]) for some, of in zip(known, cases, strict=True) if (rows := of > 0).any()]
    found = [(*_g(some, of), some / of) for some, of in used if len(of) > 1]
    if not found:
        return Selection(None, selective=False)
    from scipy.stats import chi2  # noqa: PLC0415

    p = float(chi2.sf(sum(g for g, _, _ in found), sum(freedom for _, freedom, _ in found)))
    differs = any(own.min() < _LEAST * own.max() and chi2.sf(g, freedom) < _GROUP_LEVEL for g, freedom, own in found)
    return Selection(p, selective=p < _LEVEL and differs)


def _g(known: np.ndarray, cases: np.ndarray) -> tuple[float, int]:
    """The G statistic and its degrees of freedom."""
    table = np.stack((known, cases - known)).astype(np.float64)
    even = np.outer(table.sum(axis=1), cases / cases.sum())
    terms = np.where(table > 0, table * np.log(np.maximum(table, 1) / np.where(even > 0, even, 1)), 0)
    return max(float(2 * terms.sum()), 0.0), len(cases) - 1


def payoff_range(payoffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest payoff (n,) of each case among all classes: a model that states 0 may be wrong.

    `payoffs` (n, K) are NaN where a case has fewer classes; a row without any class gives NaN.
    """
    values = np.ascontiguousarray(payoffs.T)  # the least over the first axis is fast
    possible = ~np.isnan(values)
    low, high = np.where(possible, values, np.inf).min(axis=0), np.where(possible, values, -np.inf).max(axis=0)
    none = ~possible.any(axis=0)
    return np.where(none, np.nan, low), np.where(none, np.nan, high)
