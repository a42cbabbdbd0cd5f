"""Decisions and known truths by action: whether truth depends on the action."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from app.outcomes.cases import UNKNOWN
from app.outcomes.terms import Label
from app.usecases.outcome_report.slices import Slice, action_codes, coded


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
        labels, code = action_codes(part, part.choice)
        cases = np.bincount(code, minlength=len(labels))
        known = np.bincount(code[part.known], minlength=len(labels))
        for i in np.flatnonzero(cases).tolist():
            self.by_action[labels[i]] += (known[i], cases[i])
        told = part.known & (part.action != UNKNOWN)
        self.overridden += int(np.count_nonzero((part.action != part.choice)[told]))
        if told.any():
            labels, code = action_codes(part, np.where(told, part.action, part.choice))
        code = code[part.known]
        for i, count in enumerate(np.bincount(code, minlength=len(labels)).tolist()):
            self.done[labels[i]] += count
        self._count_alike(part)

    def _count_alike(self, part: Slice) -> None:
        """The same for decisions of one key, version and set of actions: mixtures of these may hide a difference."""
        stack, A = part.stack, part.stack.matrices.shape[2]
        kinds, kind = coded(list(zip(stack.versions.tolist(), stack.action_set.tolist(), strict=True)))
        code = (part.key.astype(np.int64) * len(kinds) + kind[part.term]) * A + part.choice
        size = len(part.keys) * len(kinds) * A
        tables = np.stack((np.bincount(code[part.known], minlength=size), np.bincount(code, minlength=size)))
        tables = tables.reshape(2, -1, A)
        for place in np.flatnonzero(tables[1].any(axis=1)).tolist():
            version, actions = kinds[place % len(kinds)]
            name = part.keys[place // len(kinds)], version, stack.action_sets[actions]
            own = self.alike.setdefault(name, np.zeros((2, len(name[2])), dtype=np.int64))
            own += tables[:, place, : own.shape[1]]
