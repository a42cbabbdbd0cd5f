"""Whether truth depends on the action, and between which bounds that leaves what is unknown."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.evidence.truths import Group, known_shares, payoff_range
from app.outcomes.terms import Label
from app.usecases.outcome_report.slices import Slice

UNEQUAL = "truth is known more often after some actions than after others"
WHATEVER = "all decisions; for those without known truth the worst and the best class"
OFTEN = 0.05  # of the cases, from which on an action counts


@dataclass
class ActionCounts:
    """Counts of mature days; `by_action` are known truths and decisions (2,)."""

    by_action: dict[Label, np.ndarray] = field(default_factory=lambda: defaultdict(lambda: np.zeros(2, dtype=np.int64)))
    # Known cases and all, counts (2, A), by key, version and actions.
    alike: dict[tuple[str | None, int, tuple[Label, ...]], np.ndarray] = field(default_factory=dict)
    done: dict[Label, int] = field(default_factory=lambda: defaultdict(int))  # actions really taken, of known cases
    overridden: int = 0

    def add(self, part: Slice) -> None:
        """Cases of a slice; those of days that are not mature are left out."""
        if not part.mature:
            return
        stack, size = part.stack, len(part.stack.actions)
        cases, known = (np.bincount(own, minlength=size) for own in (part.choice, part.choice[part.known]))
        for i in np.flatnonzero(cases).tolist():
            self.by_action[stack.actions[i]] += (known[i], cases[i])
        self.overridden += int(np.count_nonzero((part.taken != part.choice)[part.known]))
        for i, count in enumerate(np.bincount(part.taken[part.known], minlength=size).tolist()):
            self.done[stack.actions[i]] += count
        code = part.key.astype(np.int64) * size + part.choice
        tables = np.stack([np.bincount(own, minlength=len(part.keys) * size) for own in (code[part.known], code)])
        for key, table in zip(part.keys, np.moveaxis(tables.reshape(2, -1, size), 1, 0), strict=True):
            if table[1].any():  # decisions of one key, version and set of actions: mixtures may hide a difference
                name = key, stack.version, stack.actions
                self.alike[name] = self.alike.get(name, 0) + table

    def document(self) -> dict[str, Any]:
        """Whether truth is known more often after some actions than after others."""
        found = known_shares([Group(actions, *own) for (_, _, actions), own in self.alike.items()])
        every = sum(own[1] for own in self.by_action.values())
        often = [label for label, (_, cases) in self.by_action.items() if cases >= OFTEN * every]
        replaced = bool(self.overridden) and any(not self.done[label] for label in often)  # and so never seen
        return {
            "is": replaced or found.selective,
            "p_value": found.p_value,
            "actions": [
                {"action": label, "decisions": int(cases), "known": int(known), "coverage": float(known / cases)}
                for label, (known, cases) in self.by_action.items()
            ],
        }


@dataclass
class Bounds:
    """Decisions with a matrix whose truth is unknown: how many, and the sums of the least and the greatest that they
    can earn, and of what is expected of them.
    """

    sums: np.ndarray = field(default_factory=lambda: np.zeros(4))

    def add(self, part: Slice) -> None:
        rows = np.flatnonzero(~part.known & part.has_matrix)
        if len(rows):
            low, high = payoff_range(part.payoffs[rows])
            self.sums += (len(rows), low.sum(), high.sum(), part.expected[rows].sum())

    def document(self, received: float, known: int) -> dict[str, Any]:
        """The total and the mean over all decisions with a matrix, where the known ones received so much."""
        unknown, low, high, expected = (float(value) for value in self.sums)
        cases = known + int(unknown)
        ends = {"low": received + low, "high": received + high}
        return {
            "cases": cases,
            "unknown": int(unknown),
            **ends,
            "mean_low": ends["low"] / cases if cases else None,
            "mean_high": ends["high"] / cases if cases else None,
            "basis": WHATEVER,
            "if_probabilities_hold": {
                "mean": (received + expected) / cases if cases else None,
                "total": received + expected,
                "basis": "all decisions; for those without known truth what the model expects, which nothing here"
                " confirms",
            },
        }
