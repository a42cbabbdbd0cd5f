"""Which classes occurred, against those of training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.evidence.drift import category_change, holm, odds_change
from app.outcomes.terms import Label
from app.usecases.outcome_report.slices import Slice

Trained = Callable[[int], tuple[np.ndarray | None, int]]  # by version the class shares (K,) in training, and its rows

_PROMISED = 36  # cases of a class, of which none is known: dozens
_SIGNIFICANT = 0.05
_CHANGED = 1.25  # factor of the odds of a class, below which a change does little harm


@dataclass
class ClassShares:
    """Counts of the classes by version, and of the same cases the sums of the probabilities."""

    trained: Trained
    counts: dict[int, np.ndarray] = field(default_factory=dict)
    promised: dict[int, np.ndarray] = field(default_factory=dict)

    def add(self, part: Slice) -> None:
        version, rows = part.stack.version, np.flatnonzero(part.known)
        trained, _ = self.trained(version)
        if trained is None or not len(rows):
            return
        self.counts[version] = self.counts.get(version, 0) + np.bincount(part.truth[rows], minlength=len(trained))
        self.promised[version] = self.promised.get(version, 0.0) + part.P[rows].sum(axis=0)

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
