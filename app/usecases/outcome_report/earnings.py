"""Expected and realised benefit, their difference and the verdict: sums, and these as documents.

Every object with an amount of money has `basis`: which cases it is about, and what it takes for granted.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.evidence.means import MeanSums
from app.evidence.promise import PromiseSums, judge
from app.usecases.outcome_report.slices import Slice

LEVEL = 0.95
ALL = "all decisions, by the model's probabilities"
KNOWN = "decisions with known truth"
ASSUMING = "decisions with known truth, as if whether the truth is known did not depend on it"
SELECTED = "only decisions with known truth, which depends on the action; not an estimate for all decisions"
_TOLERANCE = 0.1  # of the mean absolute expected benefit


@dataclass
class Earned:
    """Decisions, and what became of them: of all, or of one group."""

    decisions: int = 0
    known: int = 0
    expecting: int = 0  # decisions with an expected benefit
    expected: float = 0.0  # the sum of theirs
    promised: float = 0.0  # the same of those with known truth
    size: float = 0.0  # the sum of the absolute ones of these
    received: float = 0.0
    promise: PromiseSums = field(default_factory=PromiseSums)
    taken: PromiseSums | None = None  # the same of the actions really taken, from the first that is another
    taken_promised: float = 0.0
    told: MeanSums = field(default_factory=MeanSums)  # benefit told less that of the matrix, 0 where none was

    def add(self, part: Slice, rows: np.ndarray | None = None) -> None:
        """Cases of a slice: all, or these rows of it."""
        every: Any = slice(None) if rows is None else rows
        priced: Any = slice(None) if rows is None else np.flatnonzero(np.isin(part.priced, rows, assume_unique=True))
        expected = part.expected[every]
        self.decisions += len(expected)
        self.known += int(np.count_nonzero(part.known[every]))
        self.expecting += int(np.count_nonzero(~np.isnan(expected)))
        self.expected += float(np.nansum(expected))
        promised = part.promised[priced]
        self.promised += float(promised.sum())
        self.size += float(np.abs(promised).sum())
        self.received += float(part.received[priced].sum())
        self.taken_promised += float(part.taken_promised[priced].sum())
        self.told.add((part.received - part.taken_earned)[priced])
        if self.taken is None and part.overridden[priced].any():
            self.taken = deepcopy(self.promise)  # until here they were the same
        if self.taken is not None:
            differences = (part.taken_earned - part.taken_promised)[priced]
            self.taken.add(differences, part.taken_risks[priced], part.day)
        self.promise.add(part.decided[priced] - promised, part.risks[priced], part.day)


def basis(known: int, decisions: int, *, selective: bool, reason: str | None) -> str:
    """What an amount about the cases with known truth takes for granted; `reason`: why no day is mature."""
    about = SELECTED if selective else ASSUMING if known < decisions else KNOWN
    return about if reason is None else f"{about}; {reason}"


def earned(sums: Earned, basis: str, doubt: str | None = None) -> dict[str, Any]:
    """The difference of realised and expected benefit, the verdict, counts, and both; `doubt` is why there is none."""
    judged = judge(sums.promise)
    n = judged.cases
    tolerance = _TOLERANCE * sums.size / n if n else None
    return {
        "difference": {
            "mean": judged.mean,
            "low": judged.low,
            "high": judged.high,
            "level": LEVEL,
            "cases": n,
            "reason": doubt or judged.reason,
            "p_value": judged.p_value,
            "dispersion": judged.dispersion,
            "day_inflation": judged.day_inflation,
            "tolerance": tolerance,
            "basis": basis,
        },
        "verdict": "undecided" if doubt else judged.verdict(tolerance or 0.0),
        "decisions": sums.decisions,
        "known": sums.known,
        "coverage": sums.known / sums.decisions if sums.decisions else None,
        "expected": {
            "mean": sums.expected / sums.expecting if sums.expecting else None,
            "total": sums.expected,
            "cases": sums.expecting,
            "mean_of_known": sums.promised / n if n else None,
            "basis": ALL,
        },
        "realised": {**_realised(sums, judged.low, judged.high), "level": LEVEL, "cases": n, "basis": basis},
    }


def _realised(sums: Earned, low: float | None, high: float | None) -> dict[str, Any]:
    """The benefit received, around what the model expected of the actions really taken.

    Benefits that were told differ from the matrix by an amount with an interval of its own; the two are added as
    independent (Zou and Donner, 2008).
    """
    n = sums.promise.count
    if not n:
        return {"mean": None, "total": 0.0, "low": None, "high": None}
    if sums.taken is not None:
        taken = judge(sums.taken)
        low, high = taken.low, taken.high
    mean, promised = sums.received / n, sums.taken_promised / n
    told = sums.told.mean()
    if told is None or low is None or high is None or (sums.told.nonzero and told.low is None):
        return {"mean": mean, "total": sums.received, "low": None, "high": None}
    centre = mean - promised - told.mean
    if told.low is not None and told.high is not None and sums.told.nonzero:
        low = centre + told.mean - float(np.hypot(centre - low, told.mean - told.low))
        high = centre + told.mean + float(np.hypot(high - centre, told.high - told.mean))
    return {"mean": mean, "total": sums.received, "low": promised + low, "high": promised + high}


def gain(sums: MeanSums, basis: str) -> dict[str, Any]:
    """A mean difference to what the decisions earned on the same cases."""
    mean = sums.mean()
    return {
        "mean": None if mean is None else mean.mean,
        "low": None if mean is None else mean.low,
        "high": None if mean is None else mean.high,
        "level": LEVEL,
        "cases": sums.count,
        "differing": sums.nonzero,
        "basis": basis,
    }
