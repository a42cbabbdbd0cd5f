"""The section on decisions by rewards: what was promised and earned, and by the same log what the
best actions, challengers and single actions would have earned.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from app.outcomes.decision import UNKNOWN, Label
from app.report.earned import TOLERANCE, amount, basis, total
from app.report.slices import Slice
from app.report.ways import Kept
from payoff.evidence.drift import holm_of_known
from payoff.evidence.intervals import SIGNIFICANT, Mean, MeanSums, PromiseInterval
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
    """Columns (3 + 2 A, n) of rows (n,) of a slice: code and reward of the action, the day, then of
    all actions the expected rewards and the chances. Rewards are less the costs of the request.
    """
    expected, chances, net = np.split(part.probabilities[rows].T, 3)
    codes = part.choice[rows]
    costs = (expected - net)[codes, np.arange(len(rows))]
    days = np.full(len(rows), part.day)
    return np.vstack((codes, part.benefit[rows] - costs, days, net, chances))


def actions_of_most_cases(logs: Mapping[tuple[Label, ...], Kept]) -> tuple[Label, ...]:
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
        """From the choices, and below them `log_columns`: (4 + 2 A, n)."""
        chosen, actions = columns[:2].astype(np.intp)
        expected, chances = np.split(columns[4:].T, 2, axis=1)
        log = LoggedRewards(
            actions, columns[2], chances, expected, days=columns[3].astype(np.intp)
        )
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
    is_open = judgement.verdict == "cannot_be_judged"
    return amount(Mean(mean.mean) if is_open else mean, ROBUST)


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

    def document(self, reason: str | None) -> dict[str, Any]:
        """The means and verdicts; `reason` is why nothing can be concluded yet."""
        n = self.realised.count
        about = basis(n, self.decisions, selective=False, reason=reason)
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
        actions = actions_of_most_cases(self.logs)
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
