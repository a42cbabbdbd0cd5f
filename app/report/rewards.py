"""The section on decisions by rewards: what was promised and earned, and what the best actions,
challengers and single actions would have earned.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.outcomes.decision import UNKNOWN, Label
from app.report.earned import TOLERANCE, amount, total
from app.report.policies import (
    ROBUST,
    PolicyLog,
    document,
    judged_rows,
    largest,
    log_columns,
)
from app.report.slices import Slice
from app.report.ways import Kept
from payoff.evidence.intervals import MeanSums, PromiseInterval
from payoff.evidence.policies import gain_over, judge


@dataclass
class RewardSums:
    """Sums over decisions by rewards; `decisions` counts those without a reward, too.

    `promised` is what the model expected of the actions really performed, of cases with a reward.
    """

    decisions: int = 0
    promised: float = 0.0
    magnitude: float = 0.0
    realised: MeanSums = field(default_factory=MeanSums)
    difference: MeanSums = field(default_factory=MeanSums)
    overridden: int = 0

    def add(self, part: Slice, rows: np.ndarray | None = None) -> None:
        """Add the cases of a slice of decisions by rewards: all, or these rows of it."""
        rows = np.arange(len(part)) if rows is None else rows
        self.decisions += len(rows)
        rows = rows[part.known[rows]]
        promised = part.probabilities[rows, part.performed[rows]]
        reward = part.benefit[rows]
        self.promised += float(promised.sum())
        self.magnitude += float(np.abs(promised).sum())
        self.realised.add(reward, part.day)
        self.difference.add(reward - promised, part.day)
        overridden = part.performed[rows] != part.choice[rows]
        self.overridden += int(np.count_nonzero(overridden))

    def document(self, about: str, reason: str | None) -> dict[str, Any]:
        """The means and verdicts; `reason` is why nothing can be concluded yet."""
        n = self.realised.count
        difference = self.difference.mean()
        interval = PromiseInterval(difference.mean, difference.low, difference.high)
        tolerance = TOLERANCE * self.magnitude / n if n else 0.0
        return {
            "decisions": self.decisions,
            "known": n,
            "overridden": self.overridden,
            "promised": total(self.promised, n, about),
            "realised": total(self.realised.total, n, about)
            | amount(self.realised.mean(), about),
            "difference": {
                **amount(difference, about),
                "cases": n,
                "p_value": difference.p_value,
            },
            "verdict": "undecided" if reason else interval.verdict(tolerance),
        }


@dataclass
class RewardDecisions(RewardSums):
    """These sums, and the cases by which policies are judged.

    `logs` are, by the actions that could be chosen, columns as `PolicyLog.of` takes them; `shadows`
    are those with the choices of challengers, by these actions and by name.
    """

    logs: dict[tuple[Label, ...], Kept] = field(
        default_factory=lambda: defaultdict(Kept)
    )
    shadows: dict[tuple[tuple[Label, ...], str], Kept] = field(
        default_factory=lambda: defaultdict(Kept)
    )

    def add(self, part: Slice, rows: np.ndarray | None = None) -> None:
        super().add(part, rows)
        rows = judged_rows(part)
        if not len(rows):
            return
        columns = log_columns(part, rows)
        actions = part.stack.actions
        self.logs[actions].add(np.vstack((part.choice[rows], columns)))
        for name, choices in part.shadows.items():
            shadowed = choices[rows] != UNKNOWN
            kept = np.vstack((choices[rows], columns))[:, shadowed]
            self.shadows[actions, name].add(kept)

    def policies(self, doubt: str | None) -> dict[str, Any]:
        """The best actions without exploration, against all that was decided and single actions, as
        `policy`, None without a reward; the `challengers`. Of the set of actions with most cases.
        """
        actions = largest(self.logs)
        if not actions:
            return {"policy": None, "challengers": []}
        kept = self.logs[actions]
        log, _, best = PolicyLog.of(kept.columns())
        counts = np.bincount(log.actions, minlength=len(actions)).tolist()
        singles = [
            {
                "action": name,
                "cases": count * kept.stride,
                "gain_over": amount(gain_over(log, best, code), ROBUST),
            }
            for code, (name, count) in enumerate(zip(actions, counts, strict=True))
        ]
        policy = document(judge(log, best), doubt)
        challengers = [
            self._challenger(actions, name, doubt)
            for names, name in sorted(self.shadows, key=str)
            if names == actions and self.shadows[names, name].columns().size
        ]
        cases = len(best) * kept.stride
        return {
            "policy": {"cases": cases, **policy, "single_actions": singles},
            "challengers": challengers,
        }

    def _challenger(
        self, actions: tuple[Label, ...], name: str, doubt: str | None
    ) -> dict[str, Any]:
        kept = self.shadows[actions, name]
        shadow = PolicyLog.of(kept.columns())
        return {
            "challenger": name,
            "cases": len(shadow.chosen) * kept.stride,
            **shadow.document(shadow.judgements(), actions, doubt),
        }
