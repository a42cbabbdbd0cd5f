"""The section on guarantees: whether what was certified holds for the cases that were decided."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from app.report.slices import Slice
from app.report.ways import verdict
from app.requests.guarantees import Guarantee
from payoff.evidence.sequence import Sequence

_DRIFTED = (
    "the scores of this version have drifted: a guarantee is about cases like those that it was"
    " certified on"
)

# By the verdict on the risk less the limit.
_VERDICTS = {"better": "broken", "worse": "kept", "undecided": "undecided"}


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
    high: float | None = Field(description="the interval has 95 %")
    verdict: Literal["kept", "broken", "undecided"]
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
        lines = []
        for name, use in sorted(self.uses.items()):
            mean = use.excess.interval()
            at_most = use.guarantee.at_most
            lines.append(
                {
                    "guarantee": name,
                    "version": use.version,
                    "action": use.guarantee.action,
                    "at_most": at_most,
                    "decisions": use.decisions,
                    "known": use.excess.count,
                    "risk": None if mean.mean is None else mean.mean + at_most,
                    "low": None if mean.low is None else max(mean.low + at_most, 0.0),
                    "high": None if mean.high is None else mean.high + at_most,
                    "verdict": _VERDICTS[verdict(mean, doubt)],
                    "warning": _DRIFTED if use.version in drifted else None,
                }
            )
        return lines
