"""What decisions on rows with a truth promise and earn, by the values of a column."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.registry.loaded import Segment
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.decisions.row_weights import effective_rows, effective_total, normalised
from payoff.decisions.rule_ranking import LabelledRows
from payoff.evidence.drift import holm_of_known
from payoff.evidence.intervals import (
    PromiseSums,
    compare_probabilities,
    promise_interval,
    risk,
    wilson,
)

OTHER = "other"  # the group of values of few rows
_MOST_SUMS = 64  # of groups, by which their variance is estimated


def by_segment(
    segment: Segment,
    rows: LabelledRows,
    P: np.ndarray,
    choice: np.ndarray,
    actions: Sequence[Any],
) -> list[dict[str, Any]]:
    """For each word of a segment the share of each action, the benefit that the probabilities
    P (n, K) promise of the choices (n,), the realised one, and how often classes occurred.

    Rows of a group depend on each other: variances are at least those of the sums of groups.
    Words of fewer effective rows than `MIN_ROWS_TO_COMPARE` are pooled, and p-values corrected for
    the number of groups (Holm). O(n K).
    """
    codes, words = segment
    code = np.where(np.isnan(codes), len(words), codes).astype(np.intp)
    sizes = effective_rows(rows.weights, code, len(words) + 1)
    is_large = (sizes >= MIN_ROWS_TO_COMPARE).tolist()
    names: list[str | None] = [
        word if large else OTHER for word, large in zip(words, is_large, strict=False)
    ]
    names.append(None)
    lines = []
    for name in dict.fromkeys(names):
        members = [k for k, group in enumerate(names) if group == name]
        index = np.flatnonzero(np.isin(code, members) & (rows.weights > 0))
        if index.size:
            line = _line(rows, P, choice, actions, index)
            lines.append({"group": name, **line})
    for part in ("difference", "calibration"):
        p_values = holm_of_known([line[part]["p_value"] for line in lines])
        for line, p_value in zip(lines, p_values, strict=True):
            line[part]["adjusted_p_value"] = p_value
    return lines


def _line(
    rows: LabelledRows,
    P: np.ndarray,
    choice: np.ndarray,
    actions: Sequence[Any],
    index: np.ndarray,
) -> dict[str, Any]:
    """The figures of the rows at these positions."""
    n = len(index)
    w = normalised(rows.weights[index])
    y, P, chosen = rows.y[index], P[index], choice[index]
    payoffs = rows.B[:, chosen].T if rows.B.ndim == 2 else rows.B[index, :, chosen]
    realised = payoffs[np.arange(n), y]
    promised = (P * payoffs).sum(axis=1)
    logit, width = risk(P, payoffs)
    earned, calibration = PromiseSums(), PromiseSums()
    differences = w * (realised - promised)
    risks = np.stack((logit, w * width))
    groups = np.zeros(n, dtype=np.intp)
    independent = w
    if rows.groups is not None:
        groups = np.unique(rows.groups[index], return_inverse=True)[1]
        independent = np.bincount(groups, w)
    # Sums of several groups are as independent as those of one, and fewer.
    stated = 0.0
    for day in range(min(int(groups.max()) + 1, _MOST_SUMS)):
        part = groups % _MOST_SUMS == day
        earned.compare(differences[part], risks[:, part], day)
        stated += compare_probabilities(calibration, P[part], y[part], day, w[part])
    shares = np.bincount(chosen, w, len(actions)) / n
    size = round(effective_total(independent))
    return {
        "rows": n,
        "actions": [
            {"action": action, "share": share, "interval": wilson(share, size)}
            for action, share in zip(actions, shares.tolist(), strict=True)
        ],
        "promised": float(w @ promised) / n,
        "realised": float(w @ realised) / n,
        "difference": _gap(earned),
        "calibration": {
            "stated": stated / n,
            "occurred": (stated + calibration.total) / n,
            **_gap(calibration),
        },
    }


def _gap(sums: PromiseSums) -> dict[str, Any]:
    """A mean difference with its interval."""
    interval = promise_interval(sums)
    names = ("mean", "low", "high", "p_value", "reason")
    return {name: getattr(interval, name) for name in names}
