"""The warnings of a training job: rare classes, predictions that do not rank, features that
separate the classes, repeated rows, and parameters that the fit did not use.
"""

import math
from typing import Any

import numpy as np

from app.registry.loaded import Holdout
from app.requests.specifications import TrainSpec
from app.tables.dataset import Table
from app.tables.text import some_of
from app.training.evaluation import Split
from payoff.decisions.calibration import MIN_ROWS_OF_CURVE
from payoff.decisions.metrics import mean_rank_area
from payoff.errors import counted

_MORE_DATA = "provide other features, or more rows"
_MAX_NAMED = 5
_SHARE_OF_REPEATS = 0.05  # of the rows, from which repeats are named
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
    """A sentence about the classes or labels with few training rows. Nothing for numbers."""
    if table.classes is None:
        return []
    y = table.y[rows.train]
    counts = (
        y.sum(axis=0) if y.ndim == 2 else np.bincount(y, minlength=len(table.classes))
    )
    rarest = [
        k for k in np.argsort(counts, kind="stable") if counts[k] < MIN_ROWS_OF_CURVE
    ]
    if not rarest:
        return []
    kind = "classes" if y.ndim == 1 else "labels"
    needed = math.ceil(MIN_ROWS_OF_CURVE * len(table.y) / len(rows.train))
    names = [f"{table.classes[k]!r} ({counted(counts[k], 'row')})" for k in rarest]
    advice = f"provide at least {needed} of each, or merge rare {kind}"
    message = (
        f"{kind} with too few training rows for reliable probabilities:"
        f" {some_of(names, _MAX_NAMED)}; {advice}"
    )
    return [message]


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
    return mean_rank_area(scores, inside, _FEWEST_RANKED)


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


def repeated_rows(table: Table) -> list[str]:
    """A sentence if many rows of the table occur again though two columns separate rows.

    Rows of few different values, or of one column, repeat without being copies. O(n m log n).
    """
    n, m = table.X.shape
    if n < 2 or m < 2:
        return []
    X = np.where(
        np.isnan(table.X), np.nan, table.X + 0.0
    )  # one kind of NaN, one of zero
    different = len(np.unique(X.view(np.dtype((np.void, X.itemsize * m)))))
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
    return [message]


def _separates_rows(column: np.ndarray, different: int) -> bool:
    """Whether the column has nearly as many values as there are `different` rows, of those in
    which it is not missing.
    """
    present = column[~np.isnan(column)]
    share = max(len(present) / len(column), 0.1)
    return len(np.unique(present)) >= _SHARE_OF_DIFFERENT * different * share


def notes(estimator: Any, spec: TrainSpec) -> list[str]:
    """Sentences about a fit."""
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
