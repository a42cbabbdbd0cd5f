"""What people, challengers and other ways to decide earned on the same cases; the promise by its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from app.outcomes.terms import Label
from app.usecases.outcome_report.earnings import LEVEL, gain
from app.usecases.outcome_report.paired import THIN, Paired
from app.usecases.outcome_report.sums import Sums

_DECILES = 10
_ROUNDING = 1e-12  # of the largest expected benefit: values that are closer are equal


def overrides(sums: Sums, basis: str, doubt: str | None = None) -> dict[str, Any]:
    """Who was right in money where another action was really taken; `doubt` is why nobody can say."""
    found = gain(sums.overrides, basis)
    doubt = doubt or (THIN if sums.overrides.thin else None)
    low, high = found["low"], found["high"]
    sure = not doubt and low is not None  # not a number is neither above nor below 0
    right = "people" if sure and low > 0 else "decisions" if sure and high < 0 else "undecided"
    return {**found, "right": right, "reason": doubt}


def deciles(sums: Sums, basis: str) -> list[dict[str, Any]]:
    """Expected against realised benefit in ten parts by expected benefit, as equal in size as ties permit.

    Cases of equal expected benefit are in one part, so there may be fewer.
    """
    kept = sums.values.columns()
    if not kept.size:
        return []
    order = np.argsort(kept[0])
    promised, decided = kept[:, order]
    changes = np.diff(promised) > _ROUNDING * np.abs(promised).max()
    edges = np.concatenate(([0], np.flatnonzero(changes) + 1, [len(order)]))
    cuts = np.arange(1, _DECILES) * len(order) / _DECILES
    right = np.searchsorted(edges, cuts)
    nearest = np.where(cuts - edges[right - 1] <= edges[right] - cuts, edges[right - 1], edges[right])
    starts = np.unique(np.append(0, nearest[nearest < len(order)]))
    size = np.diff(np.append(starts, len(order)))
    expected, realised = (np.add.reduceat(column, starts) for column in (promised, decided))
    low, high = promised[starts], promised[starts + size - 1]
    return [
        {
            "from": float(low[i]),
            "to": float(high[i]),
            "cases": int(size[i]) * sums.values.stride,
            "expected": float(expected[i] / size[i]),
            "realised": float(realised[i] / size[i]),
            "basis": basis,
        }
        for i in range(len(size))
    ]


def alternatives(sums: Sums, basis: str) -> dict[str, Any] | None:
    """What other ways to decide would have earned on the same cases; None without any."""
    n = sums.perfect.count
    if not n:
        return None
    base = sums.decided / n

    def way(own: Paired, **more: Any) -> dict[str, Any]:
        difference = gain(own, basis)
        mean = base + difference["mean"]
        return {**more, "mean": mean, "total": mean * n, "gain": difference, "cases": n, "basis": basis}

    every = dict.fromkeys(label for label, _ in sums.singles)
    labels = [label for label in every if sums.singles[label, 0].count + sums.singles[label, 1].count == n]
    return {
        "decided": {"mean": base, "total": sums.decided, "cases": n, "basis": basis},
        "most_probable": way(sums.most_probable),
        "best_single_action": _single(sums, labels, way) if labels and n > 1 else None,
        "perfect": way(sums.perfect),
    }


def _single(sums: Sums, labels: Sequence[Label], way: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The action that was best on one half of the cases, judged on the other, and the reverse: no hindsight."""
    crossed = Paired()
    for half in (0, 1):
        chosen = max(labels, key=lambda label: sums.singles[label, 1 - half].total)
        crossed += sums.singles[chosen, half]
    best = max(labels, key=lambda label: sum(sums.singles[label, half].total for half in (0, 1)))
    return way(crossed, action=best)


def shadows(sums: Sums, basis: str, doubt: str | None = None) -> list[dict[str, Any]]:
    """Challengers against what was decided, by confidence sequences; `doubt` is why none has a verdict."""
    listed = []
    for name, (sequence, differing) in sorted(sums.shadows.items()):
        mean, low, high = sequence.interval() or (None, None, None)
        shown = "better" if low is not None and low > 0 else "worse" if high is not None and high < 0 else None
        reason = doubt or ("the interval contains 0" if shown is None else None)
        figures = {"mean": mean, "low": low, "high": high, "level": LEVEL, "basis": basis}
        listed.append(
            {
                "challenger": name,
                "cases": sequence.count,
                "differing": differing,
                "gain": figures,
                "verdict": "undecided" if reason else shown,
                "reason": reason,
            }
        )
    return listed
