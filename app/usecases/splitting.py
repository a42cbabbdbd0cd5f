"""Split rows into training and hold-out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.decisions.folds import UNJUDGED, shuffled_groups, stratified_folds


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
