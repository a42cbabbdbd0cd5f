"""Which classes occurred, against those of training, and what correcting their shares would have earned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.decisions.priors import shift_priors
from app.evidence.drift import category_change, holm, odds_change
from app.outcomes.terms import Label
from app.usecases.outcome_report.slices import Slice
from app.usecases.outcome_report.ways import Paired, best_actions, gain, undrawn_actions, way

Trained = Callable[[int], tuple[np.ndarray | None, int]]  # by version the class shares (K,) in training, and its rows

_LEARNT = 50  # known outcomes before priors are corrected by them
_PROMISED = 36  # cases of a class, of which none is known: dozens
_SIGNIFICANT = 0.05
_CHANGED = 1.25  # factor of the odds of a class, below which a change does little harm


@dataclass
class ClassShares:
    """Counts of the classes by version, and of the same cases the sums of the probabilities."""

    trained: Trained
    counts: dict[int, np.ndarray] = field(default_factory=dict)
    promised: dict[int, np.ndarray] = field(default_factory=dict)
    arrived: dict[int, dict[int, np.ndarray]] = field(default_factory=dict)  # the counts, by the day they were known
    corrected: Paired = field(default_factory=Paired)

    def add(self, part: Slice) -> None:
        """Count; decide by the shares of the truths that had come before the day of the slice."""
        version, rows = part.stack.version, np.flatnonzero(part.known)
        trained, _ = self.trained(version)
        if trained is None or not len(rows):
            return
        size = len(trained)
        counts = self.counts.setdefault(version, np.zeros(size, dtype=np.int64))
        waiting = self.arrived.setdefault(version, {})
        before = sum((waiting[day] for day in waiting if day < part.day), np.zeros(size, dtype=np.int64))
        self._correct(part, rows, before, trained)
        truth, day = part.truth[rows], part.known_day[rows]
        counts += np.bincount(truth, minlength=size)
        self.promised[version] = self.promised.get(version, 0.0) + part.P[rows].sum(axis=0)
        for arrival in np.unique(day).tolist():
            some = np.bincount(truth[day == arrival], minlength=size)
            waiting[arrival] = waiting.get(arrival, 0) + some

    def _correct(self, part: Slice, rows: np.ndarray, counts: np.ndarray, trained: np.ndarray) -> None:
        """The decisions of the rule against those under the priors of training, neither limited nor drawn."""
        rows = rows[(part.has_matrix & part.stack.free[part.term])[rows]]
        if counts.sum() < _LEARNT or not len(rows):
            return
        shares = np.where(trained > 0, counts + 0.5, 0)
        shifted, _ = shift_priors(part.P[rows], trained, shares / shares.sum())
        before, after = undrawn_actions(part, rows), best_actions(part, rows, shifted)
        self.corrected.compare(part, way(part, rows, before), way(part, rows, after))

    def document(self, classes: Mapping[int, Sequence[Label]], basis: str, *, selective: bool) -> dict[str, Any]:
        """Whether they changed is not answered where truth is known more often after some actions."""
        versions = sorted(version for version, counts in self.counts.items() if counts.sum())
        shares, tables = {}, []
        for version in versions:
            trained, rows = self.trained(version)
            assert trained is not None
            shares[version] = trained
            tables.append((self.counts[version], np.rint(trained * rows).astype(np.int64)))
        p_values = [category_change(*table).p_value for table in tables]
        adjusted = holm(np.array(p_values))
        factors = [odds_change(*table) if table[1].any() else None for table in tables]
        return {
            "versions": [
                {
                    "version": version,
                    "classes": [
                        {
                            "class": label,
                            "cases": int(count),
                            "observed": float(count / counts.sum()),
                            "trained": float(p),
                        }
                        for label, count, p in zip(classes[version], counts, shares[version], strict=True)
                    ],
                    "p_value": p,
                    "adjusted_p_value": float(own),
                    "odds_ratio": factor,
                    "changed": None if selective or factor is None else bool(own < _SIGNIFICANT and factor >= _CHANGED),
                }
                for version, (counts, _), p, own, factor in zip(
                    versions, tables, p_values, adjusted, factors, strict=True
                )
            ],
            "corrected": gain(self.corrected, basis) if self.corrected.count else None,
            "basis": basis,
        }

    def missing(self, classes: Mapping[int, Sequence[Label]]) -> str | None:
        """Why nothing is concluded where the truths of some class seem not to become known; None where all do.

        Among the cases with known truth a class was promised dozens of times, and none of them has it.
        """
        for version, counts in self.counts.items():
            promised = np.where(counts == 0, self.promised[version], 0.0)
            if promised.max(initial=0.0) >= _PROMISED:
                k = int(promised.argmax())
                what = f"{promised[k]:.0f} of the cases with known truth were expected to be {classes[version][k]!r}"
                return f"{what}, and none is: perhaps the truth of other classes only becomes known"
        return None
