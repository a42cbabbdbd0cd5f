"""Which rows train a model and which evaluate it: a hold-out, or folds of a small table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from app import progress
from app.data.table import Table
from app.decisions.folds import UNJUDGED, shuffled_groups, stratified_folds
from app.registry.loaded import Holdout
from app.usecases.specs import TrainSpec

FEW_ROWS = 500  # of which a quarter gives an accuracy with a standard error of up to 0.045
_MAX_FOLDS = 10


@dataclass(frozen=True)
class Split:
    """Training rows and hold-out rows."""

    train: np.ndarray
    holdout: np.ndarray


def split_rows(y: np.ndarray, part: float, seed: int) -> Split:
    """Hold out `part` of the rows, class by class so that every class stays in the training rows.

    `y` (n,) class codes: a class of m rows gives round(part m) of them, at most m - 1. Or (n, L) labels: rows are held
    out evenly over those that share their rarest label, and a label that applies to some rows, and not to others, does
    so among the training rows too. Or (n,) float64 numbers: round(part n) rows, at most n - 1. Deterministic in `seed`.
    O(n log n + n L).
    """
    rng = np.random.default_rng(seed)
    if y.ndim == 2:
        held = _held_of_labels(y, part, rng)
    else:
        held = np.zeros(len(y), dtype=bool)
        groups = np.zeros(len(y), dtype=np.intp) if y.dtype.kind == "f" else y
        for rows, size in shuffled_groups(groups, part, rng):
            held[rows[:size]] = True
    return Split(np.flatnonzero(~held), np.flatnonzero(held))


def folds_of(y: np.ndarray, split: Split, folds: int, seed: int) -> np.ndarray:
    """The fold (n,) of each row for cross-validation: 0 is the split's hold-out, 1…folds-1 share the other rows.

    For class codes y (n,) and folds >= 2. The only training row of a class belongs to no fold (`UNJUDGED`).
    """
    fold = np.zeros(len(y), dtype=np.intp)
    others = stratified_folds(y[split.train], folds - 1, seed)
    fold[split.train] = np.where(others == UNJUDGED, UNJUDGED, others + 1)
    return fold


def _held_of_labels(y: np.ndarray, part: float, rng: np.random.Generator) -> np.ndarray:
    """The rows (n,) of labels (n, L) to hold out, as a mask."""
    n, held = len(y), np.zeros(len(y), dtype=bool)
    counts = y.sum(axis=0, dtype=np.int64)
    by_rarity = np.argsort(counts, kind="stable")
    rarest = np.where(y.any(axis=1), y[:, by_rarity].argmax(axis=1), y.shape[1])
    shuffled = rng.permutation(n)
    ordered = shuffled[np.argsort(rarest[shuffled], kind="stable")]
    count = min(round(part * n), n - 1)
    held[ordered[((np.arange(count) + 0.5) * n / max(count, 1)).astype(np.int64)]] = True
    for applies in (1, 0):
        for label in np.flatnonzero((y[~held] != applies).all(axis=0)):
            rows = np.flatnonzero(held & (y[:, label] == applies))
            held[rows[:1]] = False  # the last that shows it
    return held


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
) -> Holdout:
    """Each row's probabilities by a model that did not see it; `fitted` returns a model of rows.

    The first fold is the `holdout`, whose model is fitted already. The only training row of a class is left out.
    """
    fold = folds_of(table.y, split, folds, spec.seed)
    scores = np.zeros((len(table.y), holdout.scores.shape[1]))
    scores[split.holdout] = holdout.scores
    for part in range(1, folds):
        rows = np.flatnonzero(fold == part)
        with progress.part((part - 1) / (folds - 1), part / (folds - 1), f"fold {part + 1} of {folds}"):
            if rows.size:
                scores[rows] = fitted(np.flatnonzero(fold != part)).posterior(table.X[rows])
    judged = fold != UNJUDGED
    return Holdout(scores[judged], table.y[judged])
