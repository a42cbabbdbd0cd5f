"""The section on quantities: their real costs against the expected ones, and the share of numbers
that lie in their intervals.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.report.earned import amount, basis, total
from app.report.slices import Slice
from payoff.evidence.intervals import Mean, MeanSums, wilson

_FIGURES = ("over", "under", "coverage")


@dataclass
class Quantities:
    """Sums over quantities whose true number is known; `decisions` counts the others, too.

    Costs follow from the unit costs, unless the client reported a benefit: then they are minus that
    benefit. `excess_coverage` is, of each case with an interval, 1 where the number lies in the
    interval, else 0, less the interval's stated coverage; `stated_coverage` is the sum of these
    coverages.
    """

    decisions: int = 0
    expected: float = 0.0
    realised: MeanSums = field(default_factory=MeanSums)
    difference: MeanSums = field(default_factory=MeanSums)
    excess_coverage: MeanSums = field(default_factory=MeanSums)
    stated_coverage: float = 0.0

    def add(self, part: Slice) -> None:
        """Add the cases of a slice of quantities."""
        self.decisions += len(part)
        rows = np.flatnonzero(~np.isnan(part.number))
        figures = [
            [(terms.figures or {}).get(name) for name in _FIGURES]
            for terms in part.stack.terms
        ]
        over, under, coverage = np.array(figures, dtype=np.float64)[part.term[rows]].T
        quantity, low, high = part.probabilities[rows].T
        number = part.number[rows]
        benefit = part.benefit[rows]
        costs = np.where(
            quantity > number, over * (quantity - number), under * (number - quantity)
        )
        costs = np.where(np.isnan(benefit), costs, -benefit)
        self.expected -= float(part.expected[rows].sum())
        self.realised.add(costs, part.day)
        self.difference.add(costs + part.expected[rows], part.day)
        has_interval = ~np.isnan(coverage)
        is_inside = (low <= number) & (number <= high)
        self.stated_coverage += float(coverage[has_interval].sum())
        self.excess_coverage.add((is_inside - coverage)[has_interval], part.day)

    def document(self, reason: str | None) -> dict[str, Any]:
        """The means; `reason` is why nothing can be concluded yet."""
        n = self.realised.count
        difference = self.difference.mean()
        about = basis(n, self.decisions, selective=False, reason=reason)
        return {
            "decisions": self.decisions,
            "known": n,
            "expected": total(self.expected, n, about),
            "realised": total(self.realised.total, n, about)
            | amount(self.realised.mean(), about),
            "difference": {
                **amount(difference, about),
                "cases": n,
                "p_value": difference.p_value,
            },
            "intervals": self._coverage(about),
        }

    def _coverage(self, about: str) -> dict[str, Any] | None:
        """The share of numbers in their intervals against the stated share; else None."""
        n = self.excess_coverage.count
        excess = self.excess_coverage.mean()
        if excess.mean is None:
            return None
        stated = self.stated_coverage / n
        share = stated + excess.mean
        low, high = excess.low, excess.high
        if low is not None and high is not None:
            wilson_low, wilson_high = wilson(share, n)
            low = min(stated + low, wilson_low)
            high = max(stated + high, wilson_high)
        return {"promised": stated, "cases": n, **amount(Mean(share, low, high), about)}
