"""Whether a distribution has changed: PSI, Kolmogorov and Smirnov, and Holm's correction for many
tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import kolmogorov

from payoff.evidence.intervals import SIGNIFICANT

_BINS = 10
# cases of a category on the smaller side, from which chi-squared holds
_MIN_EXPECTED = 5
_MIN_PSI = 0.1  # from which a change is commonly called moderate


@dataclass(frozen=True)
class Change:
    """The change of a distribution: `psi` over ten bins, or over the categories, `ks`, the greatest
    distance of the distribution functions, None for categories, and a p-value: that of `ks`, for
    categories of a test of their counts.
    """

    psi: float
    ks: float | None
    p_value: float


def histogram_change(before: np.ndarray, after: np.ndarray) -> Change:
    """The change of counts (m,) in the same ordered bins, with at least one case on each side.

    Ties within a bin make KS conservative.
    """
    n, m = before.sum(), after.sum()
    cumulative = np.cumsum(before) / n
    distance = float(np.abs(cumulative - np.cumsum(after) / m).max())
    edges = np.unique(
        np.searchsorted(cumulative, np.arange(1, _BINS) / _BINS - 1e-12) + 1
    )
    starts = np.append(0, edges)
    parts = [
        np.add.reduceat(np.append(counts, 0), starts) for counts in (before, after)
    ]
    p_value = float(kolmogorov(distance * np.sqrt(n * m / (n + m))))
    return Change(_psi(*parts), distance, p_value)


def category_change(before: np.ndarray, after: np.ndarray) -> Change:
    """The change of counts (m,) of the same categories, by the chi-squared test, of two categories
    by Fisher's test.

    Categories of which fewer than five cases are expected on a side count as one: many rare
    categories would look like a change.
    """
    from scipy.stats import chi2_contingency, fisher_exact  # noqa: PLC0415 - for reports alone

    table = np.stack((before, after))
    table = table[:, table.sum(axis=0) > 0]
    expected = table.sum(axis=0) * table.sum(axis=1).min() / table.sum()
    if table.shape[1] > 2 and (expected < _MIN_EXPECTED).any():
        table, expected = table[:, np.argsort(expected)], np.sort(expected)
        rare = int(np.count_nonzero(expected < _MIN_EXPECTED))
        if expected[:rare].sum() < _MIN_EXPECTED:
            rare += 1  # the next category joins categories that are rare together
        table = np.column_stack((table[:, :rare].sum(axis=1), table[:, rare:]))
    p_value = 1.0
    if table.shape[1] == 2:
        p_value = float(fisher_exact(table).pvalue)
    elif table.shape[1] > 2:
        p_value = float(chi2_contingency(table).pvalue)
    return Change(_psi(*table), None, p_value)


def odds_change(counts: np.ndarray, trained: np.ndarray) -> float:
    """The largest factor, at least 1, by which the odds of a class differ between counts (K,) and
    those in training (K,); half a case is added to each count.
    """
    cases = np.array([counts, trained])
    log_odds = np.log(cases + 0.5) - np.log(
        cases.sum(axis=1, keepdims=True) - cases + 0.5
    )
    return float(np.exp(np.abs(log_odds[0] - log_odds[1]).max()))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values (m,): if all below .05 count as changes, the probability of a false one is
    at most .05 (Holm).
    """
    order = np.argsort(p_values)
    steps = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def holm_of_known(p_values: Sequence[float | None]) -> list[float | None]:
    """`holm` of those p-values that are not None, which stay None."""
    tested = [i for i, p in enumerate(p_values) if p is not None]
    adjusted = holm(np.array([p_values[i] for i in tested], dtype=np.float64)).tolist()
    of_test = dict(zip(tested, adjusted, strict=True))
    return [of_test.get(i) for i in range(len(p_values))]


def drifted(change: Change, adjusted: float) -> bool:
    """Whether a change is more than noise, and large enough to matter."""
    return adjusted < SIGNIFICANT and change.psi >= _MIN_PSI


def _psi(before: np.ndarray, after: np.ndarray) -> float:
    """The population stability index of counts; half a case is added to each count, so that the
    index is finite with empty parts.
    """
    p, q = (
        (counts + 0.5) / (counts.sum() + 0.5 * len(counts))
        for counts in (before, after)
    )
    return float(((q - p) * np.log(q / p)).sum())
