"""Split a table into training rows and hold-out rows: at random, by time or by group."""

from dataclasses import dataclass

import numpy as np

from app.registry.card import EvaluationCard
from app.requests.holdouts import PLACE, reject_column
from app.requests.specifications import SplitSpec
from app.tables.dataset import ColumnReport, Table
from app.tables.notations import shown
from payoff.decisions.folds import (
    UNJUDGED,
    Blocks,
    held_out,
    shuffled_groups,
    stratified_folds,
)
from payoff.decisions.row_weights import effective_total
from payoff.errors import Invalid, below, counted


@dataclass(frozen=True)
class Split:
    """Training rows and hold-out rows; `blocks` are those of all rows that no split divides, where
    it is not random.
    """

    train: np.ndarray
    holdout: np.ndarray
    blocks: Blocks | None = None

    def blocks_of(self, rows: np.ndarray | slice) -> Blocks | None:
        """The blocks of some rows: a mask (n,), or their numbers."""
        return None if self.blocks is None else self.blocks.take(rows)

    def groups_of(self, rows: np.ndarray) -> np.ndarray | None:
        """The codes of the groups of some rows, where the split is by group."""
        blocks = self.blocks_of(rows)
        return None if blocks is None or blocks.ordered else blocks.codes


def split_of(table: Table, part: float, by: SplitSpec | None, seed: int) -> Split:
    """Hold out `part` of the rows as `by` requests, at random without it.

    Raises Invalid at /holdout/column for a column that cannot serve, at /holdout where training
    would lack a class, or one value of a label.
    """
    if by is None:
        return split_rows(table.y, part, seed)
    return split_by(table, part, blocks_of(table, by), seed)


def split_by(table: Table, part: float, blocks: Blocks, seed: int) -> Split:
    """Hold out `part` of the rows as these blocks allow; errors as of `split_of`."""
    with below(PLACE):
        is_held = held_out(table.y, part, seed, blocks)
    _check_classes(table, is_held)
    return Split(np.flatnonzero(~is_held), np.flatnonzero(is_held), blocks)


def blocks_of(table: Table, by: SplitSpec) -> Blocks:
    """The groups or moments of the rows; Invalid where the column does not say them of each row.

    Integers that differ only in digits that a float64 does not keep are one group.
    """
    values = table.column(by.column)
    missing = int(np.count_nonzero(np.isnan(values)))
    reject_column(by, ColumnReport(by.column, missing=missing))
    return Blocks.of(values, ordered=by.by == "time")


def _check_classes(table: Table, is_held: np.ndarray) -> None:
    """Invalid at /holdout by the first class, or label, of which training would have no row."""
    codes, codes_of_training = (
        np.nonzero(y)[1] if y.ndim == 2 else y for y in (table.y, table.y[~is_held])
    )
    lacking = np.setdiff1d(codes, codes_of_training)
    if table.classes is not None and lacking.size:
        raise Invalid.at(
            "/holdout",
            f"training would have no row of {table.classes[lacking[0]]!r}, as all are held out:"
            " send another 'part', leave these rows out (drop_classes), or hold a random part out",
        )


def split_rows(y: np.ndarray, part: float, seed: int) -> Split:
    """Hold out `part` of the rows, class by class so that every class stays in the training rows.

    `y` (n,) class codes: a class of m rows gives round(part m) of them, at most m - 1. Or (n, L)
    labels: rows are held out evenly over those that share their rarest label, and a label that
    applies to some rows, and not to others, does so among the training rows too. Or (n,) float64
    numbers: round(part n) rows, at most n - 1. Deterministic in `seed`. O(n log n + n L).
    """
    rng = np.random.default_rng(seed)
    if y.ndim == 2:
        is_held = _held_of_labels(y, part, rng)
    else:
        is_held = np.zeros(len(y), dtype=bool)
        groups = np.zeros(len(y), dtype=np.intp) if y.dtype.kind == "f" else y
        for rows, size in shuffled_groups(groups, part, rng):
            is_held[rows[:size]] = True
    return Split(np.flatnonzero(~is_held), np.flatnonzero(is_held))


def folds_of(y: np.ndarray, split: Split, folds: int, seed: int) -> np.ndarray:
    """The fold (n,) of each row for cross-validation: 0 is the split's hold-out, 1…folds-1 share
    the other rows.

    For class codes y (n,) and folds >= 2. The only training row, or group, of a class belongs to no
    fold (`UNJUDGED`).
    """
    fold = np.zeros(len(y), dtype=np.intp)
    folds_of_training = stratified_folds(
        y[split.train], folds - 1, seed, split.blocks_of(split.train)
    )
    fold[split.train] = np.where(
        folds_of_training == UNJUDGED, UNJUDGED, folds_of_training + 1
    )
    return fold


def _held_of_labels(y: np.ndarray, part: float, rng: np.random.Generator) -> np.ndarray:
    """The rows (n,) of labels (n, L) to hold out, as a mask."""
    n = len(y)
    is_held = np.zeros(n, dtype=bool)
    counts = y.sum(axis=0, dtype=np.int64)
    by_rarity = np.argsort(counts, kind="stable")
    rarest = np.where(y.any(axis=1), y[:, by_rarity].argmax(axis=1), y.shape[1])
    shuffled = rng.permutation(n)
    ordered = shuffled[np.argsort(rarest[shuffled], kind="stable")]
    count = min(round(part * n), n - 1)
    is_held[
        ordered[((np.arange(count) + 0.5) * n / max(count, 1)).astype(np.int64)]
    ] = True
    for applies in (1, 0):
        for label in np.flatnonzero((y[~is_held] != applies).all(axis=0)):
            rows = np.flatnonzero(is_held & (y[:, label] == applies))
            is_held[rows[:1]] = False  # a training row that shows the label
    return is_held


def evaluation_card(
    table: Table, split: Split, by: SplitSpec | None, predicted: np.ndarray, folds: int
) -> EvaluationCard:
    """The rows (r,) that were `predicted`, in how many folds, 0 or 1 where they were held out."""
    groups = split.groups_of(predicted)
    count = None if groups is None else int(groups.max()) + 1
    folds = folds if count is None else min(folds, count)  # the others are empty
    return EvaluationCard(
        method="cross-validation" if folds > 1 else "hold-out",
        folds=folds if folds > 1 else None,
        rows=len(predicted),
        by=None if by is None else by.by,
        column=None if by is None else by.column,
        groups=count,
        in_words=in_words(table, split, by, predicted, folds),
    )


def in_words(
    table: Table, split: Split, by: SplitSpec | None, predicted: np.ndarray, folds: int
) -> str:
    """Which rows figures come from, as one says it; arguments as of `evaluation_card`."""
    rows = counted(len(predicted), "row")
    if table.weight is not None:
        effective = effective_total(table.weights[predicted])
        rows += f" ({effective:,.0f} by their weights)"
    share = f"{len(predicted) / len(table.y):.0%}"
    amount = (
        f"all {rows}" if len(predicted) == len(table.y) else f"{rows}, {share} of all"
    )
    if by is None or split.blocks is None:
        return f"{amount}, at random{_in_folds(folds)}"
    if by.by == "time":
        first = shown(float(table.column(by.column)[predicted].min()), by.form)
        return f"the last {share} by {by.column!r}: {rows} from {first} on"
    groups = len(np.unique(split.blocks.codes[predicted]))
    total = int(split.blocks.codes.max()) + 1
    parts = _in_folds(min(folds, groups))
    return f"{groups:,} of {total:,} groups by {by.column!r}{parts}: {amount}"


def _in_folds(folds: int) -> str:
    return f" in {folds} folds" if folds > 1 else ""
