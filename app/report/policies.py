"""Policies on recorded decisions by rewards: the log by which they are judged, and the judgements
of a version or a challenger in a document.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from app.outcomes.decision import Label
from app.report.earned import amount
from app.report.slices import Slice
from app.report.ways import Kept
from payoff.evidence.drift import holm_of_known
from payoff.evidence.intervals import SIGNIFICANT, Mean
from payoff.evidence.policies import (
    LoggedRewards,
    PolicyJudgement,
    best_single,
    gain_over,
    judge,
)

ROBUST = (
    "decisions with known reward that were carried out, less costs; doubly robust by recorded"
    " chances"
)


def judged_rows(part: Slice) -> np.ndarray:
    """The rows of a slice with a known reward of the action that was decided."""
    return np.flatnonzero(part.known & (part.performed == part.choice))


def log_columns(part: Slice, rows: np.ndarray) -> np.ndarray:
    """Columns (2 + 2 A, n) of rows (n,) of a slice: code and reward of the action, then of all
    actions the expected rewards and the chances. Rewards are less the costs of the request.
    """
    expected, chances, net = np.split(part.probabilities[rows].T, 3)
    codes = part.choice[rows]
    costs = (expected - net)[codes, np.arange(len(rows))]
    return np.vstack((codes, part.benefit[rows] - costs, net, chances))


def largest(logs: Mapping[tuple[Label, ...], Kept]) -> tuple[Label, ...]:
    """The set of actions with most cases of these logs; none without any case."""
    sizes = {actions: kept.columns().shape[1] for actions, kept in logs.items()}
    return max(sizes, key=lambda actions: sizes[actions], default=())


class PolicyLog(NamedTuple):
    """A log, and two policies in it, codes (n,): a version's choices, and `recorded`, the decisions
    without exploration.
    """

    log: LoggedRewards
    chosen: np.ndarray
    recorded: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray) -> Self:
        """From the choices, and below them `log_columns`: (3 + 2 A, n)."""
        chosen, actions = columns[:2].astype(np.intp)
        expected, chances = np.split(columns[3:].T, 2, axis=1)
        log = LoggedRewards(actions, columns[2], chances, expected)
        return cls(log, chosen, chances.argmax(axis=1))

    def judgements(self) -> tuple[PolicyJudgement, PolicyJudgement]:
        """The choices beside all that was decided, and beside `recorded`."""
        return judge(self.log, self.chosen), judge(self.log, self.chosen, self.recorded)

    def document(
        self,
        judgements: Sequence[PolicyJudgement],
        actions: Sequence[Label],
        doubt: str | None,
    ) -> dict[str, Any]:
        """Both `judgements`, and the gain over the best single one of the actions."""
        beside_log, beside_recorded = judgements
        single = best_single(self.log)
        gain = gain_over(self.log, self.chosen, single)
        return {
            **document(beside_log, doubt),
            "best_single": {"action": actions[single], "gain": amount(gain, ROBUST)},
            "over_policy": {
                **_amount(beside_recorded.gain, beside_recorded),
                "differing": int(np.count_nonzero(self.chosen != self.recorded)),
                **_verdict(beside_recorded, doubt),
            },
        }


def document(judgement: PolicyJudgement, doubt: str | None) -> dict[str, Any]:
    """A judgement, without intervals where it cannot be judged; a `doubt` is why nothing can be
    concluded.
    """
    return {
        "value": _amount(judgement.value, judgement),
        "gain": _amount(judgement.gain, judgement),
        **_verdict(judgement, doubt),
        "effective": judgement.effective,
        "expected_effective": judgement.expected_effective,
    }


def _amount(mean: Mean, judgement: PolicyJudgement) -> dict[str, Any]:
    if judgement.verdict == "cannot_be_judged":
        mean = Mean(mean.mean)
    return amount(mean, ROBUST)


def _verdict(judgement: PolicyJudgement, doubt: str | None) -> dict[str, str | None]:
    if doubt is None:
        return {"verdict": judgement.verdict, "reason": judgement.reason}
    return {"verdict": "cannot_be_judged", "reason": doubt}


def corrected(judgements: Sequence[PolicyJudgement]) -> list[PolicyJudgement]:
    """The judgements of several policies, undecided where a gain may be chance among so many
    (Holm).
    """
    adjusted = holm_of_known([judgement.gain.p_value for judgement in judgements])
    tested = len(adjusted) - adjusted.count(None)
    chance = f"the gain may be chance, as {tested} are compared"
    return [
        replace(judgement, verdict="undecided", reason=chance)
        if judgement.verdict in ("better", "worse") and (p or 0.0) >= SIGNIFICANT
        else judgement
        for judgement, p in zip(judgements, adjusted, strict=True)
    ]
