"""Ways to decide that are replayed, against the actions that were really performed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.outcomes.decision import UNKNOWN
from app.report.earned import UNEQUAL, WHATEVER, basis, total
from app.report.slices import Slice
from app.report.ways import Paired, gain, verdict
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.evidence.drift import holm
from payoff.evidence.intervals import SIGNIFICANT
from payoff.evidence.truths import payoff_range


@dataclass
class Alternative:
    """A version, None for the recorded probabilities, and a rule, against the actions that were
    really performed in the same cases.

    The benefits of both sides are those of the matrix, also where a client reported another benefit
    of the action performed. `bounds` (2,) are sums of the differences in cases with unknown truth,
    in the worst and the best class.
    """

    model: str | None
    rule: dict[str, Any]
    cases: int = 0
    failure: str | None = None
    performed: float = 0.0
    paired: Paired = field(default_factory=Paired)
    bounds: np.ndarray = field(default_factory=lambda: np.zeros(2))

    def add(self, part: Slice, choice: np.ndarray) -> None:
        """Add the cases of a slice in which this way (n,) decides."""
        decides = choice != UNKNOWN
        self.cases += int(np.count_nonzero(decides))
        rows = self.paired.compare(part, part.performed, choice)
        earned = part.stack.matrices[
            part.term[rows], part.truth[rows], part.performed[rows]
        ]
        self.performed += float(earned.sum())
        unknown = np.flatnonzero(~part.known & decides)
        gains = part.payoffs(unknown, choice) - part.payoffs(unknown, part.performed)
        low, high = payoff_range(gains)
        self.bounds += (low.sum(), high.sum())

    def document(
        self, p_value: float, *, selective: bool, late: str | None
    ) -> dict[str, Any]:
        """The figures; `p_value` is corrected for the number of alternatives, `late` is why nothing
        can be concluded yet.
        """
        known = self.paired.count
        head = {
            "model": self.model,
            "rule": self.rule,
            "cases": self.cases,
            "known": known,
        }
        if self.failure is not None:
            return head | {"error": self.failure}
        if not self.cases:
            return head | {
                "error": "there is no case, or no instance of one was recorded"
            }
        if not known:
            return head | {"error": "no case has a known truth"}
        about = basis(known, self.cases, selective=selective, reason=late)
        low, high = ((self.bounds + self.paired.total) / self.cases).tolist()
        result = "same"
        reason = None
        if self.paired.nonzero:
            has_zero = selective and low <= 0 <= high
            reason = late or self._doubt(p_value)
            if reason is None and has_zero:
                reason = f"{UNEQUAL}, and the bounds over all decisions contain 0"
            result = "undecided" if reason else verdict(self.paired.mean())
        return {
            **total(self.performed + self.paired.total, known, about),
            **head,
            "done": total(self.performed, known, about),
            "difference": gain(self.paired, about),
            "bounds": {"basis": WHATEVER, "low": low, "high": high},
            "adjusted_p_value": p_value,
            "verdict": result,
            "reason": reason,
        }

    def _doubt(self, p_value: float) -> str | None:
        """Why the difference on known cases shows nothing; None where it shows which is better."""
        differing = self.paired.nonzero
        if differing < MIN_ROWS_TO_COMPARE:
            return f"only {differing} cases differ; {MIN_ROWS_TO_COMPARE} are needed"
        mean = self.paired.mean()
        if mean.reason is not None:
            return mean.reason
        if verdict(mean) == "undecided" or p_value >= SIGNIFICANT:
            return "the difference may be chance"
        return None


def documents(
    alternatives: Sequence[Alternative], *, selective: bool, late: str | None = None
) -> list[dict[str, Any]]:
    """The figures of all alternatives, with one correction for the number of those that differ from
    the actions performed (Holm).
    """
    adjusted = np.ones(len(alternatives))
    tested = [
        i
        for i, alternative in enumerate(alternatives)
        if alternative.failure is None and alternative.paired.nonzero
    ]
    p_values = [alternatives[i].paired.mean().p_value for i in tested]
    adjusted[tested] = holm(np.array([1.0 if p is None else p for p in p_values]))
    return [
        alternative.document(float(p), selective=selective, late=late)
        for alternative, p in zip(alternatives, adjusted, strict=True)
    ]
