"""Warnings about classes that have too few rows, and about features that say nothing about the class."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.data.table import Table
from app.decisions.calibration import FEW
from app.registry.loaded import Holdout
from app.usecases.splitting import Split

_MAX_NAMED = 5


def rare_classes(estimator: Any, table: Table, rows: Split, holdout: Holdout | None) -> list[str]:
    """A sentence about the classes with few training rows, and one about those without a row in the hold-out.

    One more where the calibration found no ranking. Nothing for several labels, and for numbers.
    """
    if table.classes is None or table.y.ndim > 1:
        return []
    found = []
    counts = np.bincount(table.y[rows.train], minlength=len(table.classes))
    if counts.min() < FEW:
        named = _named(table, counts, counts < FEW)
        found.append(
            f"classes with too few training rows for reliable probabilities: {named}; provide at least {FEW} of each,"
            " or merge rare classes"
        )
    if not estimator.ranks():
        found.append(
            "the features do not rank rows that the model did not see: every prediction has about the shares of the"
            " classes in training; provide other features, or more rows"
        )
    if holdout is not None:
        absent = np.bincount(holdout.y, minlength=len(table.classes)) == 0
        if absent.any():
            named = _named(table, np.bincount(table.y), absent)
            found.append(
                f"classes without a row in the hold-out, so missing in metrics and thresholds: {named}; provide more"
                " rows of each, or merge rare classes"
            )
    return found


def _named(table: Table, counts: np.ndarray, chosen: np.ndarray) -> str:
    """Some of the chosen classes with their numbers of rows, the rarest first."""
    assert table.classes is not None
    rarest = np.flatnonzero(chosen)[np.argsort(counts[chosen], kind="stable")]
    named = ", ".join(f"{table.classes[k]!r} ({_rows(counts[k])})" for k in rarest[:_MAX_NAMED])
    return named + (f" and {len(rarest) - _MAX_NAMED} more" if len(rarest) > _MAX_NAMED else "")


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"
