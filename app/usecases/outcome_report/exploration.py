"""What ways to decide would have earned on all cases, by the propensities of decisions that were drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.evidence.intervals import Risk, risk
from app.evidence.truths import weighted
from app.outcomes.terms import Label
from app.usecases.outcome_report.promise import Kept
from app.usecases.outcome_report.selection import OFTEN
from app.usecases.outcome_report.slices import Slice
from app.usecases.outcome_report.ways import LEVEL, likely_actions, undrawn_actions

_KEPT = 100_000  # cases
_EFFECTIVE = 10  # cases of equal weight after a best action that are enough
_IPS = "all decisions with a propensity, weighted by how probable it was that the truth became known"
_DR = "the same, with the model's expectation where the truth is unknown"


@dataclass
class Exploration:
    """Cases of which some were drawn, with the share that was; `labels` and `action_sets` are coded."""

    cases: Kept = field(default_factory=lambda: Kept(_KEPT))
    action_sets: dict[tuple[Label, ...], int] = field(default_factory=dict)
    labels: dict[Label, int] = field(default_factory=dict)

    def add(self, part: Slice) -> None:
        shares = part.stack.explore[part.term]
        rows = np.flatnonzero(~np.isnan(part.propensity + shares) & part.has_matrix)
        if not part.mature or not len(rows):
            return
        P, M, each = part.P[rows], part.stack.matrices[part.term[rows]], np.arange(len(rows))
        model = np.einsum("nk,nka->na", P, M)
        truth, best = part.truth[rows], undrawn_actions(part, rows)
        earned = M[each, np.maximum(truth, 0)]
        ways: list[np.ndarray] = []
        for way in (best, likely_actions(part)[rows]):
            own = risk(P, M[each, :, way])
            ways += (earned[each, way], model[each, way], own.logit, own.width)
        labels = np.array([self.labels.setdefault(label, len(self.labels)) for label in part.stack.actions])
        actions = np.full(len(rows), self.action_sets.setdefault(part.stack.actions, len(self.action_sets)))
        codes = labels[part.choice[rows]], labels[best]
        self.cases.add(np.stack((truth >= 0, *codes, shares[rows], actions, *ways)))

    def document(self, doubt: str | None = None) -> dict[str, Any] | None:
        """Inverse-propensity and doubly robust estimates over all decisions that were drawn; None without any.

        With a `doubt` none is usable.
        """
        kept = self.cases.columns()
        if not kept.size:
            return None
        known, epsilon = kept[0] > 0, kept[3]
        chosen, best, sets = (kept[i].astype(np.intp) for i in (1, 2, 4))
        cases = np.bincount(chosen, minlength=len(self.labels))
        after = np.bincount(chosen, known, len(self.labels)) / np.maximum(cases, 1)
        mean_after = np.array([after[[self.labels[label] for label in labels]].mean() for labels in self.action_sets])
        chance = (1 - epsilon) * after[best] + epsilon * mean_after[sets]
        reached = doubt is None and _reached(known, chance, best)
        ways = {}
        for name, own in (("without_exploration", kept[5:9]), ("most_probable", kept[9:13])):
            found = weighted(known & (chance > 0), chance, own[0], own[1], Risk(own[2], own[3]))
            ways[name] = {
                **{
                    estimate: {"mean": mean.mean, "low": mean.low, "high": mean.high, "level": LEVEL, "basis": basis}
                    for estimate, mean, basis in (("ips", found.ips, _IPS), ("dr", found.dr, _DR))
                },
                "effective_cases": found.effective,
                "largest_weight": found.largest,
                "usable": found.usable and reached,
            }
        return {
            "cases": len(known) * self.cases.stride,
            "epsilon": float(epsilon.mean()),
            "known": int(known.sum()) * self.cases.stride,
            "ways": ways,
        }


def _reached(known: np.ndarray, chance: np.ndarray, best: np.ndarray) -> bool:
    """Whether the truth of every case had a chance to become known, and did so often enough after every best action:
    as often as ten cases of equal weight, for actions of at least one case in twenty.
    """
    if not (chance > 0).all():
        return False
    weight = known / chance
    total, squares, cases = (np.bincount(best, values) for values in (weight, weight**2, np.ones(len(best))))
    effective = total**2 / np.maximum(squares, 1e-300)
    return bool((effective[cases >= OFTEN * len(best)] >= _EFFECTIVE).all())
