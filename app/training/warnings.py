"""The warnings of a training job: rare classes, predictions that do not rank, features that
separate the classes, a random split where rows repeat or have a time, shares of classes that move,
and parameters that the fit did not use.
"""

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from app.registry.loaded import Holdout
from app.requests.specifications import SplitSpec, TrainSpec
from app.tables.dataset import Dataset, Table
from app.tables.notations import ISO
from app.tables.text import names_identifier, some_of
from app.training.splits import Split, blocks_of
from payoff.decisions.calibration import MIN_ROWS_OF_CURVE
from payoff.decisions.folds import Blocks
from payoff.decisions.metrics import mean_rank_area
from payoff.decisions.row_weights import effective_rows, effective_total
from payoff.errors import counted

_MORE_DATA = "provide other features, or more rows"
_MAX_NAMED = 5
# rows of a class, by which the standard error of how often it occurs is a tenth of that
_ROWS_OF_PROMISE = 100
_RARE = 0.25  # of the share that each class has where all are as frequent
_SHARE_OF_REPEATS = 0.05  # of the rows, from which repeats are named
# of the rows, different values of an identifier that repeats: of fewer all may be in training
_FEWEST_GROUPS = 0.01
# metrics by which splits are compared, the first that a model has
_FIGURES = {
    "benefit": "the benefit of a case",
    "auc": "the area under the ROC curve",
    "mae": "the mean absolute error",
    "subset_accuracy": "the share of rows whose labels are all right",
}
_CLEAR_SHARE = 0.05  # of the rows, by which the share of a class moves
_CLEAR_MOVE = 4.0  # standard errors
_RANKED_ROWS = 10_000  # rows of the evaluation whose ranking is checked
# rows of a class, and of other classes, for a ranking with a meaning
_FEWEST_RANKED = 10
_CLEAR = 2.0  # standard errors by which rows are ranked better than by chance
_NEIGHBOURS = 5  # rows on either side that predict a row's class
# the errors of a feature that separates the classes, as a share of those of the most common class
_SHARE_OF_ERRORS = 0.05
_CHECKED_CELLS = 1_000_000  # rows times features that are enough to check the features
_FEWEST_CHECKED = 1_000  # rows that are checked, however many features there are
# distinct values of a column that separates rows, by different rows
_SHARE_OF_DIFFERENT = 0.9


def rare_classes(table: Table, rows: Split) -> list[str]:
    """Sentences about the classes or labels with few training rows, and about classes whose few
    rows leave open how often they occur. Nothing for numbers.
    """
    if table.classes is None:
        return []
    y = table.y[rows.train]
    weights = table.weights[rows.train]
    counts = (
        np.array([effective_total(weights[label > 0]) for label in y.T])
        if y.ndim == 2
        else effective_rows(weights, y, len(table.classes))
    )
    by_rarity = np.argsort(counts, kind="stable")
    rarest = [k for k in by_rarity if counts[k] < MIN_ROWS_OF_CURVE]
    messages = []
    if rarest:
        kind = "classes" if y.ndim == 1 else "labels"
        needed = math.ceil(MIN_ROWS_OF_CURVE * len(table.y) / len(rows.train))
        names = [
            f"{table.classes[k]!r} ({counted(round(counts[k]), 'row')})" for k in rarest
        ]
        messages.append(
            f"{kind} with too few training rows for reliable probabilities:"
            f" {some_of(names, _MAX_NAMED)}; provide at least {needed} of each, or merge rare"
            f" {kind}"
        )
    rare = counts < min(_ROWS_OF_PROMISE, counts.sum() * _RARE / len(counts))
    unsure = [k for k in by_rarity if rare[k] and k not in rarest]
    if unsure and y.ndim == 1:
        names = [
            f"{table.classes[k]!r} ({counts[k]:.0f} rows: {counts[k] ** -0.5:.0%})"
            for k in unsure
        ]
        messages.append(
            "what decisions promise about rare classes may be wrong by a tenth or more, as their"
            f" training rows are few: {some_of(names, _MAX_NAMED)}; add rows of them, with weights"
            f" that keep their shares: {_ROWS_OF_PROMISE} rows leave 10%"
        )
    return messages


def no_ranking(estimator: Any, holdout: Holdout | None) -> list[str]:
    """A sentence where rows that the model did not see are not ranked better than by chance.

    By their class, by each of several labels, or by whether a number is above the median.
    """
    if not estimator.ranks():
        message = (
            "the features do not rank rows that the model did not see: every prediction has about"
            f" the shares of the classes in training; {_MORE_DATA}"
        )
        return [message]
    figures = None if holdout is None else _rank_area(holdout)
    if figures is None:
        return []
    area, error = figures
    if area > 0.5 + _CLEAR * error:
        return []
    message = (
        "the model does not rank rows that it did not see clearly better than by chance:"
        f" the area under the ROC curve is {area:.2f}, give or take {error:.2f}; {_MORE_DATA}"
    )
    return [message]


def _rank_area(holdout: Holdout) -> tuple[float, float] | None:
    """As `mean_rank_area`, of some of the rows that the model did not see."""
    step = slice(None, None, max(1, len(holdout.y) // _RANKED_ROWS))
    scores = holdout.scores[step]
    y = holdout.y[step]
    if y.dtype.kind == "f":
        inside = y[:, None] > np.median(y)
    elif y.ndim == 2:
        inside = y > 0
    else:
        inside = y[:, None] == np.arange(scores.shape[1])
    if y.ndim == 1 and scores.shape[1] == 2:  # the two areas are the same
        scores = scores[:, 1:]
        inside = inside[:, 1:]
    return mean_rank_area(scores, inside, _FEWEST_RANKED, holdout.row_weights[step])


def separating_features(table: Table) -> list[str]:
    """A sentence that names the features of which one alone predicts nearly all classes, as a value
    does that is known only after the outcome.

    A number predicts a row's class by the rows next to it in the order of the numbers, a category
    by its other rows. A sample of the rows is enough. O(m n log n).
    """
    if table.classes is None or table.y.ndim > 1:
        return []
    n, m = table.X.shape
    size = max(_FEWEST_CHECKED, _CHECKED_CELLS // m)
    rows = np.random.default_rng(0).permutation(n)[
        :size
    ]  # files may be sorted by class
    y = table.y[rows]
    errors = len(y) - np.bincount(y).max()  # of always predicting the most common class
    if errors < MIN_ROWS_OF_CURVE:
        return []
    features = []
    for j, name in enumerate(table.schema.names):
        correct_rows = (
            _correct_by_category if j in table.schema.categorical else _correct_by_order
        )
        correct = correct_rows(table.X[rows, j], y)
        if len(y) - correct <= _SHARE_OF_ERRORS * errors:
            features.append(f"{name!r} ({correct / len(y):.2%} of the rows)")
    if not features:
        return []
    message = (
        f"one feature alone tells the classes apart: {some_of(features, _MAX_NAMED)}; leave it out"
        " if it is known only after the outcome, as then all figures are too good, and the"
        " decisions wrong"
    )
    return [message]


def _correct_by_order(column: np.ndarray, y: np.ndarray) -> int:
    """The number of rows of whose neighbours in the order of a column (n,) at least half have the
    row's class; missing values come last.
    """
    ordered = y[np.argsort(column, kind="stable")]
    alike = np.zeros(len(y), dtype=np.intp)
    near = np.zeros(len(y), dtype=np.intp)
    for distance in range(1, _NEIGHBOURS + 1):
        is_alike = ordered[distance:] == ordered[:-distance]
        for side in (slice(distance, None), slice(None, -distance)):
            alike[side] += is_alike
            near[side] += 1
    return int(np.count_nonzero(2 * alike >= near))


def _correct_by_category(column: np.ndarray, y: np.ndarray) -> int:
    """The number of rows of whose category in a column (n,) at least half of the other rows have
    the row's class; missing values are a category.
    """
    codes = np.where(np.isnan(column), -1, column).astype(np.intp) + 1
    counts = np.zeros((codes.max() + 1, y.max() + 1), dtype=np.intp)
    np.add.at(counts, (codes, y), 1)
    alike = counts[codes, y] - 1
    near = counts.sum(axis=1)[codes] - 1
    return int(np.count_nonzero((near > 0) & (2 * alike >= near)))


Doubt = tuple[str, Callable[[Table], Blocks]]
"""A sentence against a random split, and the blocks that a better one keeps whole."""


def likely_splits(dataset: Dataset) -> list[SplitSpec]:
    """The columns by which new cases will differ from the rows of training: the identifier that
    repeats most, and the latest of the moments. The record is enough to find them.
    """
    forms = dataset.forms
    least = max(_FEWEST_GROUPS * dataset.rows, 2)
    largest = (1 - _SHARE_OF_REPEATS) * dataset.rows
    numbers = {
        report.name: report.distinct or 0
        for report in dataset.columns
        if report.name in forms and not report.missing
    }
    latest = {report.name: report.examples[-1:] for report in dataset.columns}
    identifiers = [
        name
        for name, distinct in numbers.items()
        if (name in dataset.kept or names_identifier(name))
        and least <= distinct <= largest
        and not forms[name]
    ]
    moments = [name for name in numbers if forms[name].startswith(ISO)]
    groups = sorted(identifiers, key=lambda name: numbers[name])[:1]
    times = sorted(moments, key=lambda name: latest[name])[-1:]
    return [
        *(SplitSpec(by="group", column=name) for name in groups),
        *(SplitSpec(by="time", column=name, form=forms[name]) for name in times),
    ]


def doubt_of(split: SplitSpec) -> Doubt:
    """The doubt that a column gives, of which `likely_splits` are."""
    column = split.column
    reasons = {
        "group": f"rows with one value of {column!r} are in training and in the evaluation: for"
        " cases with new values the figures may be too good",
        "time": f"{column!r} has dates, and the split is random: for later cases the figures may"
        " be too good",
    }
    request = json.dumps({"by": split.by, "column": column}, ensure_ascii=False)
    sentence = f"{reasons[split.by]}; hold out by it ('holdout': {request})"
    return sentence, partial(blocks_of, by=split)


def compared(at_random: Mapping[str, Any], better: Mapping[str, Any]) -> str:
    """The end of a doubt: the first of `_FIGURES` that the metrics by both splits have."""
    for key, name in _FIGURES.items():
        if at_random.get(key) is not None and better.get(key) is not None:
            return f"; {name} is then {better[key]:.3g}, and {at_random[key]:.3g} at random"
    return ""


def moving_shares(table: Table) -> list[str]:
    """A sentence if the shares of the classes differ between the first and the last rows, but not
    of files that are sorted by class.
    """
    quarter = len(table.y) // 4
    if table.classes is None or table.y.ndim > 1 or quarter < MIN_ROWS_OF_CURVE:
        return []
    counts = [
        np.bincount(rows, minlength=len(table.classes)) / quarter
        for rows in (table.y[:quarter], table.y[-quarter:])
    ]
    k = int(np.abs(counts[1] - counts[0]).argmax())
    first, last = float(counts[0][k]), float(counts[1][k])
    error = math.sqrt((first * (1 - first) + last * (1 - last)) / quarter)
    is_sorted = min(first, last) == 0 or max(first, last) == 1
    if is_sorted or abs(last - first) < max(_CLEAR_SHARE, _CLEAR_MOVE * error):
        return []
    message = (
        f"the share of {table.classes[k]!r} is {first:.0%} in the first quarter of the rows and"
        f" {last:.0%} in the last: if new cases are like the last, send their shares as 'priors'"
        " when deciding, or hold out by time"
    )
    return [message]


def repeated_rows(table: Table) -> list[Doubt]:
    """The doubt if many rows of the table occur again though two columns separate rows.

    Rows of few different values, or of one column, repeat without being copies. O(n m log n).
    """
    n, m = table.X.shape
    if n < 2 or m < 2:
        return []
    X = np.where(
        np.isnan(table.X), np.nan, table.X + 0.0
    )  # one kind of NaN, one of zero
    rows = X.view(np.dtype((np.void, X.itemsize * m))).ravel()
    different = len(np.unique(rows))
    repeats = n - different
    if (
        repeats < _SHARE_OF_REPEATS * n
        or sum(_separates_rows(column, different) for column in X.T) < 2
    ):
        return []
    message = (
        f"{repeats:,} of {n:,} rows are repeats of others: if these are copies, the metrics, and"
        " what the model promises for new cases, are too good; train with each row once"
    )
    return [(message, lambda _: Blocks.of(rows))]


def _separates_rows(column: np.ndarray, different: int) -> bool:
    """Whether the column has nearly as many values as there are `different` rows, of those in
    which it is not missing.
    """
    present = column[~np.isnan(column)]
    share = max(len(present) / len(column), 0.1)
    return len(np.unique(present)) >= _SHARE_OF_DIFFERENT * different * share


def notes(estimator: Any, spec: TrainSpec) -> list[str]:
    """Sentences about candidates that were not tried, and a matrix that chose nothing."""
    sentences = []
    untried = estimator.untried() if hasattr(estimator, "untried") else []
    if untried:
        verb = "was" if len(untried) == 1 else "were"
        sentences.append(
            f"{', '.join(untried)} {verb} not tried: 'max_seconds' were over"
        )
    trains_path = (
        "lambda" in spec.learner.parameters
        and spec.learner.parameters["lambda"] is None
    )
    if trains_path and spec.benefits and spec.feature_costs is None:
        sentences.append(
            "'benefits' did not choose the tree: that needs 'feature_costs' in the same currency;"
            " without them each feature costs 1"
        )
    return sentences
