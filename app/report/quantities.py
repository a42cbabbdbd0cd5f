"""What recorded quantities cost, against what was expected of them, and how many numbers lie in
their intervals.
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
    """Sums over quantities: costs are those of cases with known truth, whatever a client told of
    them in place of the unit costs; `missed` is 1 where a number lies in its interval, else 0, less
    the share that the interval promises.
    """

    decisions: int = 0
    expected: float = 0.0
    realised: MeanSums = field(default_factory=MeanSums)
    difference: MeanSums = field(default_factory=MeanSums)
    missed: MeanSums = field(default_factory=MeanSums)
    promised: float = 0.0  # the sum of these shares

    def add(self, part: Slice) -> None:
        """A slice of quantities."""
        self.decisions += len(part)
        rows = np.flatnonzero(~np.isnan(part.number))
        figures = [[(one.figures or {}).get(name) for name in _FIGURES] for one in part.stack.terms]
        over, under, coverage = np.array(figures, dtype=np.float64)[part.term[rows]].T
        (quantity, low, high), number, told = (
            part.probabilities[rows].T,
            part.number[rows],
            part.benefit[rows],
        )
        costs = np.where(quantity > number, over * (quantity - number), under * (number - quantity))
        costs = np.where(np.isnan(told), costs, -told)
        self.expected -= float(part.expected[rows].sum())
        self.realised.add(costs, part.day)
        self.difference.add(costs + part.expected[rows], part.day)
        has = ~np.isnan(coverage)
        self.promised += float(coverage[has].sum())
        self.missed.add((((low <= number) & (number <= high)) - coverage)[has], part.day)

    def document(self, reason: str | None) -> dict[str, Any]:
        """The means; `reason` is why nothing can be concluded yet."""
        n, found = self.realised.count, self.difference.mean()
        about = basis(n, self.decisions, selective=False, reason=reason)
        return {
            "decisions": self.decisions,
            "known": n,
            "expected": total(self.expected, n, about),
            "realised": total(self.realised.total, n, about) | amount(self.realised.mean(), about),
            "difference": {**amount(found, about), "cases": n, "p_value": found.p_value},
            "intervals": self._coverage(about),
        }

    def _coverage(self, about: str) -> dict[str, Any] | None:
        n, found = self.missed.count, self.missed.mean()
        if found.mean is None:
            return None
        stated = self.promised / n
        share = stated + found.mean
        low, high = found.low, found.high
        if low is not None and high is not None:
            ends = wilson(share, n)
            low, high = min(stated + low, ends[0]), max(stated + high, ends[1])
        return {"promised": stated, "cases": n, **amount(Mean(share, low, high), about)}
