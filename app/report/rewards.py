"""The section on decisions by rewards: what was promised and earned, and what the best actions and
single ones would have earned.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.outcomes.decision import Label
from app.report.earned import TOLERANCE, amount, basis, total
from app.report.slices import Slice
from app.report.ways import Kept
from payoff.evidence.intervals import MeanSums, PromiseInterval
from payoff.evidence.policies import LoggedRewards, gain_over, judge

_ROBUST = "decisions with known reward that were carried out, doubly robust by recorded chances"


@dataclass
class RewardDecisions:
    """Sums over decisions by rewards; `decisions` counts those without a reward, too.

    `promised` is what the model expected of the actions really performed, of cases with a reward.
    `logs` are, by the actions that could be chosen, columns of the cases that were carried out as
    decided: action, reward, expected rewards and chances of all actions.
    """

    decisions: int = 0
    promised: float = 0.0
    magnitude: float = 0.0
    realised: MeanSums = field(default_factory=MeanSums)
    difference: MeanSums = field(default_factory=MeanSums)
    overridden: int = 0
    logs: dict[tuple[Label, ...], Kept] = field(
        default_factory=lambda: defaultdict(Kept)
    )

    def add(self, part: Slice) -> None:
        """Add the cases of a slice of decisions by rewards."""
        self.decisions += len(part)
        rows = np.flatnonzero(part.known)
        if not len(rows):
            return
        expected = part.probabilities[rows, : len(part.stack.actions)]
        promised = expected[np.arange(len(rows)), part.performed[rows]]
        reward = part.benefit[rows]
        self.promised += float(promised.sum())
        self.magnitude += float(np.abs(promised).sum())
        self.realised.add(reward, part.day)
        self.difference.add(reward - promised, part.day)
        is_decided = part.performed[rows] == part.choice[rows]
        self.overridden += int(np.count_nonzero(~is_decided))
        rows = rows[is_decided]
        columns = (part.choice[rows], part.benefit[rows], *part.probabilities[rows].T)
        self.logs[part.stack.actions].add(np.stack(columns))

    def document(self, reason: str | None) -> dict[str, Any]:
        """The means and verdicts; `reason` is why nothing can be concluded yet."""
        n = self.realised.count
        difference = self.difference.mean()
        about = basis(n, self.decisions, selective=False, reason=reason)
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
            "policy": self._policy(reason),
        }

    def _policy(self, doubt: str | None) -> dict[str, Any] | None:
        """The best actions without exploration, against all that was decided, and against single
        ones; of the set of actions with most cases. None without a reward.
        """
        if not self.logs:
            return None
        actions, kept = max(
            self.logs.items(), key=lambda log: log[1].columns().shape[1]
        )
        columns = kept.columns()
        if not columns.size:
            return None
        taken_actions = columns[0].astype(np.intp)
        expected, chances = np.split(columns[2:].T, 2, axis=1)
        log = LoggedRewards(taken_actions, columns[1], chances, expected)
        best = chances.argmax(axis=1)
        judgement = judge(log, best)
        counts = np.bincount(taken_actions, minlength=len(actions)).tolist()
        return {
            "cases": columns.shape[1] * kept.stride,
            "value": amount(judgement.value, _ROBUST),
            "gain": amount(judgement.gain, _ROBUST),
            "verdict": "cannot_be_judged" if doubt else judgement.verdict,
            "reason": doubt or judgement.reason,
            "effective": judgement.effective,
            "expected_effective": judgement.expected_effective,
            "single_actions": [
                {
                    "action": name,
                    "cases": count * kept.stride,
                    "gain_over": amount(gain_over(log, best, code), _ROBUST),
                }
                for code, (name, count) in enumerate(zip(actions, counts, strict=True))
            ],
        }
