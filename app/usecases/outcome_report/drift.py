"""Whether classes, scores and features of recorded decisions are those of training, or of the days before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from app.errors import PayoffError
from app.evidence.drift import Change, category_change, drifted, histogram_change, holm
from app.evidence.priors import odds_change, priors_test
from app.outcomes.terms import Label
from app.registry.loaded import Loaded
from app.usecases.outcome_report import instances
from app.usecases.outcome_report.earnings import gain
from app.usecases.outcome_report.sums import Sums, histogram
from app.usecases.ports import Ports

_SIGNIFICANT = 0.05
_FEWEST = 100  # cases on each side of a comparison of distributions
_CHANGED = 1.25  # factor of the odds of a class, below which a change does little harm


def priors(
    sums: Sums, classes: Mapping[int, Sequence[Label]], basis: str, rows: Callable[[int], int], *, selective: bool
) -> dict[str, Any]:
    """Classes that occurred against those of the `rows` in training, and what correcting the shares would have earned.

    Whether they changed is not answered where truth is known more often after some actions.
    """
    versions = [version for version, counts in sums.classes.items() if counts.sum()]
    tables = [(sums.classes[one], np.rint(_trained(sums, one) * rows(one)).astype(np.int64)) for one in versions]
    tested = [priors_test(*table) for table in tables]
    adjusted = holm(np.array([p for p, _ in tested]))
    factors = [odds_change(*table) if table[1].any() else None for table in tables]
    return {
        "versions": [
            {
                "version": version,
                "classes": [
                    {"class": label, "cases": int(count), "observed": float(count / counts.sum()), "trained": float(p)}
                    for label, count, p in zip(classes[version], counts, _trained(sums, version), strict=True)
                ],
                "p_value": p,
                "adjusted_p_value": float(own),
                "test": method,
                "odds_ratio": factor,
                "changed": None if selective or factor is None else bool(own < _SIGNIFICANT and factor >= _CHANGED),
            }
            for version, (counts, _), (p, method), own, factor in zip(
                versions, tables, tested, adjusted, factors, strict=True
            )
        ],
        "corrected": gain(sums.corrected, basis) if sums.corrected.count else None,
        "basis": basis,
    }


def _trained(sums: Sums, version: int) -> np.ndarray:
    shares = sums.trained(version)
    assert shares is not None
    return shares


def drift(changes: Sequence[tuple[dict[str, Any], Change | None]]) -> list[dict[str, Any]]:
    """Names and changes, where there are any, as documents; one correction for all."""
    found = [(name, change) for name, change in changes if change is not None]
    adjusted = holm(np.array([change.p_value for _, change in found]))
    return [
        {
            **name,
            "psi": change.psi,
            "ks": change.ks,
            "p_value": change.p_value,
            "adjusted_p_value": float(own),
            "drifted": drifted(change, float(own)),
        }
        for (name, change), own in zip(found, adjusted, strict=True)
    ]


def compared(before: np.ndarray, after: np.ndarray) -> Change | None:
    """Counts in ordered bins; None with too few cases."""
    enough = min(before.sum(), after.sum()) >= _FEWEST
    return histogram_change(before, after) if enough else None


def compared_values(before: Sequence[Any], after: Sequence[Any]) -> Change | None:
    """Values of a feature, numbers or categories, without missing ones; None with too few, or numbers beside text."""
    sides = [[value for value in side if value is not None] for side in (before, after)]
    kinds = {isinstance(value, int | float) and not isinstance(value, bool) for side in sides for value in side}
    if min(map(len, sides)) < _FEWEST or len(kinds) != 1:
        return None
    if kinds == {True}:
        numbers = [np.array(side, dtype=np.float64) for side in sides]
        found = np.unique(np.concatenate(numbers))
        return compared(*(np.bincount(np.searchsorted(found, side), minlength=len(found)) for side in numbers))
    places = {name: i for i, name in enumerate(dict.fromkeys(str(value) for side in sides for value in side))}
    counts = [np.bincount([places[str(value)] for value in side], minlength=len(places)) for side in sides]
    return category_change(*counts)


def compared_presence(before: Sequence[Any], after: Sequence[Any]) -> Change | None:
    """Whether values are missing as often; None with too few, and where none is."""
    counts = np.array([np.bincount([value is None for value in side], minlength=2) for side in (before, after)])
    return category_change(*counts) if counts.sum(axis=1).min() >= _FEWEST and counts[:, 1].any() else None


def scores(ports: Ports, model: str, sums: Sums, classes: Mapping[int, Sequence[Label]]) -> list[tuple[dict, Change]]:
    """The probabilities of each class against those of the version's hold-out, else of earlier days.

    A version that was fitted again on all rows has no hold-out of its own.
    """
    found = []
    for version, days in sorted(sums.scores.items()):
        K = len(next(iter(days.values())))
        labels = classes.get(version, ())
        if len(labels) != K:
            continue
        held_out = _held_out(ports, f"{model}:{version}", K)
        before, after = _sides(days) if held_out is None else (held_out, np.sum(list(days.values()), axis=0))
        for k in range(1 if K == 2 else 0, K):  # of two classes one has it all
            change = compared(before[k], after[k])
            if change is not None:
                against = "earlier days" if held_out is None else "hold-out"
                found.append(({"version": version, "class": labels[k], "against": against}, change))
    return found


def _held_out(ports: Ports, reference: str, K: int) -> np.ndarray | None:
    """Histograms (K, bins) of the scores of a version's hold-out; None without, or where it cannot be loaded."""
    try:
        model = ports.registry.load(reference)
    except PayoffError:
        return None
    return model.once(_histograms) if len(model.classes) == K else None


def _histograms(model: Loaded) -> np.ndarray | None:
    """None where another fit, on fewer rows, made the scores: they differ by themselves from those published."""
    other_fit = model.card.data.refit or model.evaluation == "cross-validation"
    if model.holdout is None or other_fit or model.regression or model.multilabel:
        return None
    return np.array([histogram(column) for column in model.holdout.scores.T])


def _sides(days: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The sums of earlier and of later days, each with about half of the cases; the first is 0 for one day."""
    listed = [days[day] for day in sorted(days)]
    sizes = np.cumsum([own[0].sum() for own in listed])
    cut = int(np.searchsorted(sizes, sizes[-1] / 2)) + 1 if len(listed) > 1 else 0
    cut = min(cut, len(listed) - 1)
    nothing = np.zeros_like(listed[0])
    return sum(listed[:cut], nothing), sum(listed[cut:], nothing)


def features(
    ports: Ports, model: str, days: Sequence[int], versions: Sequence[int] | None
) -> list[tuple[dict[str, Any], Change | None]]:
    """Each feature of recorded instances, of the first days against the last: its values, None where they cannot be
    compared, and whether it is missing as often.
    """
    before, after = instances.sides(ports, model, days, versions)
    changes: list[tuple[dict[str, Any], Change | None]] = []
    for name in dict.fromkeys(name for one in (*before, *after) for name in one):
        sides = [[one.get(name) for one in side] for side in (before, after)]
        changes.append(({"feature": name, "of": "values"}, compared_values(*sides)))
        if (missing := compared_presence(*sides)) is not None:
            changes.append(({"feature": name, "of": "missing"}, missing))
    return changes
