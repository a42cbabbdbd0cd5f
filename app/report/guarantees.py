"""The section on guarantees: whether what was certified holds for the cases that were decided."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from app.report.slices import Slice
from app.requests.guarantees import Guarantee
from payoff.evidence.intervals import LEVEL
from payoff.evidence.sequence import Sequence

_DRIFTED = (
    "the scores of this version have drifted: a guarantee is about cases like those that it was"
    " certified on"
)


class KeptGuarantee(BaseModel):
    """The risk of the cases with the guaranteed action, by a confidence sequence: its interval may
    be looked at as often as one likes.
    """

    guarantee: str = Field(examples=["careful:1"])
    version: int = Field(description="of the model")
    action: str
    at_most: float
    decisions: int = Field(description="with the action")
    known: int = Field(description="of these, with known truth")
    risk: float | None = Field(description="share of wrong cases, or mean loss")
    low: float | None
    high: float | None
    level: float
    verdict: Literal["kept", "broken", "undecided"]
    reason: str | None = Field(description="why it is undecided")
    warning: str | None = Field(description="where scores of the version have drifted")


@dataclass
class _Use:
    """The cases of one guarantee; `excess` is their risk less the limit."""

    guarantee: Guarantee
    version: int
    decisions: int = 0
    excess: Sequence = field(default_factory=Sequence)


@dataclass
class Guarantees:
    """The cases with a guaranteed action, by the guarantee."""

    uses: dict[str, _Use] = field(default_factory=dict)

    def add(self, part: Slice) -> None:
        """The cases of a slice."""
        stack = part.stack
        figures = [(terms.figures or {}).get("guarantee") for terms in stack.terms]
        stated = {figure["name"]: figure for figure in figures if figure}
        for name, figure in stated.items():
            guarantee = Guarantee(**figure)
            use = self.uses.setdefault(name, _Use(guarantee, stack.version))
            is_about = np.array([stated_figure == figure for stated_figure in figures])[
                part.term
            ]
            action = list(map(str, stack.actions)).index(guarantee.action)
            is_taken = is_about & (part.choice == action)
            use.decisions += int(np.count_nonzero(is_taken))
            truth = part.truth[is_taken & part.known]
            excess = np.array(guarantee.risks)[truth] - guarantee.at_most
            low = np.full(len(excess), -guarantee.at_most)
            if len(excess):
                use.excess.add(excess, low, low + max(guarantee.risks), part.day)

    def document(
        self, doubt: str | None, drifted: Collection[int]
    ) -> list[dict[str, Any]]:
        """A `KeptGuarantee` for each, by name; a `doubt` is the reason why none has a verdict, and
        `drifted` are versions whose scores have changed.
        """
        return [
            self._line(name, use, doubt, _DRIFTED if use.version in drifted else None)
            for name, use in sorted(self.uses.items())
        ]

    def _line(
        self, name: str, use: _Use, doubt: str | None, warning: str | None
    ) -> dict[str, Any]:
        at_most = use.guarantee.at_most
        mean = use.excess.interval()
        low = high = None
        verdict = "undecided"
        reason = doubt or "no truth is known"
        if mean.low is not None and mean.high is not None:
            low = max(mean.low + at_most, 0.0)
            high = min(mean.high + at_most, max(use.guarantee.risks))
            reason = doubt or "the interval contains the limit"
            if not doubt and high <= at_most:
                verdict = "kept"
            elif not doubt and low > at_most:
                verdict = "broken"
        return {
            "guarantee": name,
            "version": use.version,
            "action": use.guarantee.action,
            "at_most": at_most,
            "decisions": use.decisions,
            "known": use.excess.count,
            "risk": None if mean.mean is None else mean.mean + at_most,
            "low": low,
            "high": high,
            "level": LEVEL,
            "verdict": verdict,
            "reason": reason if verdict == "undecided" else None,
            "warning": warning,
        }
