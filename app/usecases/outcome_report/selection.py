"""Whether truth depends on the action; bounds of what is unknown, and estimates from propensities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.evidence import exploration
from app.evidence.promise import Risk
from app.evidence.selection import Group, known_shares
from app.outcomes.terms import Label
from app.usecases.outcome_report.action_counts import ActionCounts
from app.usecases.outcome_report.earnings import LEVEL
from app.usecases.outcome_report.sums import Sums

UNEQUAL = "truth is known more often after some actions than after others"
WHATEVER = "all decisions; for those without known truth the worst and the best class"
_PROMISED = 36  # cases of a class, of which none is known: dozens
_SHARE, _EFFECTIVE = 0.05, 10  # of a best action: the share of cases from which it counts, and cases that are enough


def selection(counts: ActionCounts) -> dict[str, Any]:
    """Whether truth is known more often after some actions than after others."""
    table = list(counts.by_action.items())
    found = known_shares([Group(actions, *own) for (_, _, actions), own in counts.alike.items()])
    often = [label for label, (_, cases) in table if cases >= _SHARE * sum(own[1] for _, own in table)]
    replaced = bool(counts.overridden) and any(not counts.done[label] for label in often)  # and so never seen
    return {
        "is": replaced or found.selective,
        "p_value": found.p_value,
        "actions": [
            {"action": label, "decisions": int(cases), "known": int(known), "coverage": float(known / cases)}
            for label, (known, cases) in table
        ],
    }


def bounds(sums: Sums) -> dict[str, Any]:
    """The total and the mean over all decisions with a matrix, known or not."""
    unknown, low, high, expected = (float(value) for value in sums.unknown)
    received, cases = sums.total.received, sums.total.promise.count + int(unknown)
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
            "basis": "all decisions; for those without known truth what the model expects, which nothing here confirms",
        },
    }


def explored(sums: Sums, doubt: str | None = None) -> dict[str, Any] | None:
    """Inverse-propensity and doubly robust estimates over all decisions that were drawn; None without any.

    With a `doubt` none is usable.
    """
    kept = sums.explored.columns()
    if not kept.size:
        return None
    known, chosen, best, epsilon, sets = kept[:5]
    found, chosen_code = known > 0, chosen.astype(np.intp)
    cases = np.bincount(chosen_code, minlength=len(sums.labels))
    after = np.bincount(chosen_code, known, len(sums.labels)) / np.maximum(cases, 1)
    mean_after = np.array([after[[sums.labels[label] for label in labels]].mean() for labels in sums.action_sets])
    chance = (1 - epsilon) * after[best.astype(np.intp)] + epsilon * mean_after[sets.astype(np.intp)]
    ways = {
        name: exploration.weighted(found & (chance > 0), chance, own[0], own[1], Risk(own[2], own[3]))
        for name, own in (("without_exploration", kept[5:9]), ("most_probable", kept[9:13]))
    }
    return {
        "cases": len(known) * sums.explored.stride,
        "epsilon": float(epsilon.mean()),
        "known": int(found.sum()) * sums.explored.stride,
        "ways": {
            name: _weighted(way, reached=doubt is None and _reached(found, chance, best)) for name, way in ways.items()
        },
    }


def _reached(known: np.ndarray, chance: np.ndarray, best: np.ndarray) -> bool:
    """Whether the truth of every case had a chance to become known, and did so often enough after every best action:
    as often as ten cases of equal weight, for actions of at least one case in twenty.
    """
    if not (chance > 0).all():
        return False
    code = best.astype(np.intp)
    weight = known / chance
    total, squares, cases = (np.bincount(code, values) for values in (weight, weight**2, np.ones(len(code))))
    effective = total**2 / np.maximum(squares, 1e-300)
    return bool((effective[cases >= _SHARE * len(code)] >= _EFFECTIVE).all())


def _weighted(way: exploration.Weighted, *, reached: bool) -> dict[str, Any]:
    parts = {
        "ips": (
            way.ips,
            "all decisions with a propensity, weighted by how probable it was that the truth became known",
        ),
        "dr": (way.dr, "the same, with the model's expectation where the truth is unknown"),
    }
    return {
        **{
            name: {"mean": mean.mean, "low": mean.low, "high": mean.high, "level": LEVEL, "basis": basis}
            for name, (mean, basis) in parts.items()
        },
        "effective_cases": way.effective,
        "largest_weight": way.largest,
        "usable": way.usable and reached,
    }


def missing_class(sums: Sums, classes: Mapping[int, Sequence[Label]]) -> str | None:
    """Why nothing is concluded where the truths of some class seem not to become known; None where all do.

    Among the cases with known truth a class was promised dozens of times, and none of them has it.
    """
    if sums.total.known == sums.total.decisions:
        return None
    for version, counts in sums.classes.items():
        promised = np.where(counts == 0, sums.promised[version], 0.0)
        if promised.max(initial=0.0) >= _PROMISED:
            k = int(promised.argmax())
            what = f"{promised[k]:.0f} of the cases with known truth were expected to be {classes[version][k]!r}"
            return f"{what}, and none is: perhaps the truth of other classes only becomes known"
    return None
