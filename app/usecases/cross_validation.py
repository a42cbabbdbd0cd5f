"""Evaluate on all rows of a small table, by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from app import progress
from app.data.table import Table
from app.decisions.folds import UNJUDGED
from app.registry.loaded import Holdout
from app.usecases.specs import TrainSpec
from app.usecases.splitting import Split, folds_of

FEW_ROWS = 500  # of which a quarter gives an accuracy with a standard error of up to 0.045
_MAX_FOLDS = 10
_MIN_SECONDS = 10.0  # that all folds may take, however fast the first fit was
_MAX_SECONDS = 60.0
_MAX_FITS = 4  # times the first fit: with the default hold-out there are three


@dataclass(frozen=True)
class Limit:
    """The `seconds` that the fits of all folds may take, and the seconds that a fold is `expected` to take."""

    seconds: float
    expected: float

    @classmethod
    def after(cls, first: float, left: float, spec: TrainSpec, folds: int) -> Limit:
        """After a first fit of `first` seconds, with `left` until the job's limit: the fit on all rows needs its share.

        A learner with `max_seconds` shares them among the folds (see `of_a_fold`).
        """
        own = spec.learner.parameters.get("max_seconds")
        most = _MAX_SECONDS if own is None else min(_MAX_SECONDS, own)
        seconds = max(_MIN_SECONDS, min(_MAX_FITS * first, most))
        return cls(min(seconds, left - 2 * first), first if own is None else first / folds)


def number_of_folds(spec: TrainSpec, table: Table, split: Split) -> int:
    """How many folds evaluate the model; 0 where its hold-out does.

    Cross-validation is for one label of classes and fewer than `FEW_ROWS` rows, where the model is fitted again on all
    rows: the folds then have about the size of the hold-out.
    """
    one_label = table.classes is not None and table.y.ndim == 1
    if not (one_label and spec.refit and split.holdout.size and len(table.y) < FEW_ROWS):
        return 0
    folds = min(round(1 / spec.holdout), _MAX_FOLDS)
    return folds if folds > 1 else 0


def of_a_fold(spec: TrainSpec, folds: int) -> TrainSpec:
    """The order of a fold's model: its learner has its share of `max_seconds`, where it has that parameter."""
    parameters = dict(spec.learner.parameters)
    if "max_seconds" not in parameters:
        return spec
    parameters["max_seconds"] /= folds
    return spec.model_copy(update={"learner": spec.learner.model_copy(update={"parameters": parameters})})


def cross_validated(
    holdout: Holdout,
    spec: TrainSpec,
    table: Table,
    split: Split,
    folds: int,
    fitted: Callable[[np.ndarray], Any],
    limit: Limit,
) -> tuple[Holdout, int]:
    """Each row's probabilities by a model that did not see it, and in how many folds; `fitted` returns a model of rows.

    The first fold is the `holdout`, whose model is fitted already. The only training row of a class is left out. No
    fold is begun that would end after the `limit`, if it takes as long as the slowest before it; the rows of folds that
    were not begun are left out.
    """
    fold = folds_of(table.y, split, folds, spec.seed)
    scores = np.zeros((len(table.y), holdout.scores.shape[1]))
    scores[split.holdout] = holdout.scores
    done, spent, slowest = 1, 0.0, limit.expected
    while done < folds and spent + slowest <= limit.seconds:
        rows, began = np.flatnonzero(fold == done), perf_counter()
        with progress.part((done - 1) / (folds - 1), done / (folds - 1), f"fold {done + 1} of {folds}"):
            if rows.size:
                scores[rows] = fitted(np.flatnonzero(fold != done)).posterior(table.X[rows])
        seconds = perf_counter() - began
        done, spent, slowest = done + 1, spent + seconds, max(slowest, seconds)
    judged = (fold != UNJUDGED) & (fold < done)
    return Holdout(scores[judged], table.y[judged]), done
