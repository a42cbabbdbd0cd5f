"""What a training job warns of: rare classes, repeated rows, and what its fit left out."""

import math
from typing import Any

import numpy as np

from app.data.dataset import Table
from app.text import some_of
from app.usecases.evaluation import Split
from app.usecases.specs import TrainSpec
from payoff.decisions.calibration import FEW
from payoff.errors import counted

_MAX_NAMED = 5
_SHARE = 0.05  # of the rows, from which repeats are named
_TELLING = 0.9  # of the different rows: so many values has a column that tells rows apart


def rare_classes(estimator: Any, table: Table, rows: Split) -> list[str]:
    """A sentence about the classes or labels with few training rows, and one where the calibration found no ranking of
    classes. Nothing for numbers.
    """
    if table.classes is None:
        return []
    found, y = [], table.y[rows.train]
    counts = y.sum(axis=0) if y.ndim == 2 else np.bincount(y, minlength=len(table.classes))
    rarest = [k for k in np.argsort(counts, kind="stable") if counts[k] < FEW]
    if rarest:
        kind, needed = (
            "classes" if y.ndim == 1 else "labels",
            math.ceil(FEW * len(table.y) / len(rows.train)),
        )
        named = some_of(
            [f"{table.classes[k]!r} ({counted(counts[k], 'row')})" for k in rarest], _MAX_NAMED
        )
        advice = f"provide at least {needed} of each, or merge rare {kind}"
        found.append(
            f"{kind} with too few training rows for reliable probabilities: {named}; {advice}"
        )
    if y.ndim == 1 and not estimator.ranks():
        found.append(
            "the features do not rank rows that the model did not see: every prediction has about the shares of the"
            " classes in training; provide other features, or more rows"
        )
    return found


def repeated_rows(table: Table) -> list[str]:
    """A sentence if many rows of the table occur again though two columns tell rows apart; O(n m log n).

    Rows of few different values, or of one column, repeat without being copies.
    """
    n, m = table.X.shape
    if n < 2 or m < 2:
        return []
    X = np.where(np.isnan(table.X), np.nan, table.X + 0.0)  # one kind of NaN, one of zero
    different = len(np.unique(X.view(np.dtype((np.void, X.itemsize * m)))))
    repeats = n - different
    if repeats < _SHARE * n or sum(_tells(column, different) for column in X.T) < 2:
        return []
    message = (
        f"{repeats:,} of {n:,} rows are repeats of others: if these are copies, the metrics, and what the model"
        " promises for new cases, are too good; train with each row once"
    )
    return [message]


def _tells(column: np.ndarray, different: int) -> bool:
    """Whether the values of a column tell nearly all the different rows apart in which it is not missing."""
    present = column[~np.isnan(column)]
    return len(np.unique(present)) >= _TELLING * different * max(len(present) / len(column), 0.1)


def notes(estimator: Any, spec: TrainSpec) -> list[str]:
    """Sentences about a fit."""
    found = []
    untried = estimator.untried() if hasattr(estimator, "untried") else []
    if untried:
        verb = "was" if len(untried) == 1 else "were"
        found.append(f"{', '.join(untried)} {verb} not tried: 'max_seconds' were over")
    trains_path = "lambda" in spec.learner.parameters and spec.learner.parameters["lambda"] is None
    if trains_path and spec.benefits and spec.feature_costs is None:
        found.append(
            "'benefits' did not choose the tree: that needs 'feature_costs' in the same currency; without them each"
            " feature costs 1"
        )
    return found
