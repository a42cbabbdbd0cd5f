"""Whether a distribution has changed: PSI, Kolmogorov and Smirnov, and Holm's correction for many
tests.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import kolmogorov

from payoff.evidence.intervals import SIGNIFICANT

_BINS = 10
_EXPECTED = 5  # cases of a category on the smaller side, from which chi-squared holds
_SHIFTED = 0.1  # PSI from which a change is commonly called moderate


@dataclass(frozen=True)
class Change:
    """`psi` over ten bins (or the categories), `ks` the greatest distance of the distribution
    functions (None for categories), and the p-value: of KS, for categories that of the PSI.
    """

    psi: float
    ks: float | None
    p_value: float


def histogram_change(before: np.ndarray, after: np.ndarray) -> Change:
    """Of counts (m,) in the same ordered bins, each with at least one; ties within a bin make KS
    conservative.
    """
    n, m = before.sum(), after.sum()
    cumulative = np.cumsum(before) / n
    distance = float(np.abs(cumulative - np.cumsum(after) / m).max())
    edges = np.unique(np.searchsorted(cumulative, np.arange(1, _BINS) / _BINS - 1e-12) + 1)
    parts = [
        np.add.reduceat(np.append(counts, 0), np.append(0, edges)) for counts in (before, after)
    ]
    return Change(_psi(*parts), distance, float(kolmogorov(distance * np.sqrt(n * m / (n + m)))))


def category_change(before: np.ndarray, after: np.ndarray) -> Change:
    """Of counts (m,) of the same categories, by the chi-squared test, of two by that of Fisher.

    Categories of which fewer than five are expected on a side count as one: many rare ones would
    look like a change.
    """
    from scipy.stats import chi2_contingency, fisher_exact  # noqa: PLC0415 - imported with the first report

    table = np.stack((before, after))
    table = table[:, table.sum(axis=0) > 0]
    expected = table.sum(axis=0) * table.sum(axis=1).min() / table.sum()
    if table.shape[1] > 2 and (expected < _EXPECTED).any():
        table, expected = table[:, np.argsort(expected)], np.sort(expected)
        last = int(np.count_nonzero(expected < _EXPECTED))
        if expected[:last].sum() < _EXPECTED:
            last += 1  # where they are rare together, the next one, too
        table = np.column_stack((table[:, :last].sum(axis=1), table[:, last:]))
    if table.shape[1] == 2:
        return Change(_psi(*table), None, float(fisher_exact(table).pvalue))
    return Change(
        _psi(*table), None, float(chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0
    )


def odds_change(counts: np.ndarray, trained: np.ndarray) -> float:
    """The largest factor, at least 1, by which the odds of a class differ; half a case is added to
    each count (K,).
    """
    sides = [np.log(own + 0.5) - np.log(own.sum() - own + 0.5) for own in (counts, trained)]
    return float(np.exp(np.abs(sides[0] - sides[1]).max()))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values (m,): with all below .05 called changed, the chance of any false one is at
    most .05 (Holm).
    """
    order = np.argsort(p_values)
    steps = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def drifted(change: Change, adjusted: float) -> bool:
    """Whether a change is more than noise, and large enough to matter."""
    return adjusted < SIGNIFICANT and change.psi >= _SHIFTED


def _psi(before: np.ndarray, after: np.ndarray) -> float:
    """The population stability index; half a case is added to each part, so that empty ones leave
    it finite.
    """
    p, q = ((counts + 0.5) / (counts.sum() + 0.5 * len(counts)) for counts in (before, after))
    return float(((q - p) * np.log(q / p)).sum())
