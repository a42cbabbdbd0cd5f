"""What a training job warns of: rare classes, predictions that rank nothing, features that tell too
much, repeated rows, and what its fit left out.
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

_MAX_NAMED = 5
_SHARE = 0.05  # of the rows, from which repeats are named
_RANKED_ROWS = 10_000  # rows of the evaluation whose ranking is looked at
_FEWEST_RANKED = 10  # rows of a class, and of others, whose ranking means something
_CLEAR = 2.0  # standard errors by which rows are ranked better than by chance
_NEIGHBOURS = 5  # rows on either side that tell a row's class
_UNTOLD = (
    0.05  # errors of a feature that tells nearly all, for each of who guesses the most common class
)
_JUDGED_CELLS = 1_000_000  # rows times features that are enough to judge features by
_FEWEST_JUDGED = 1_000  # rows that are judged, however many the features
_TELLING = 0.9  # of the different rows: so many values has a column that tells rows apart


def rare_classes(table: Table, rows: Split) -> list[str]:
    """A sentence about the classes or labels with few training rows. Nothing for numbers."""
    if table.classes is None:
        return []
    found, y = [], table.y[rows.train]
    counts = y.sum(axis=0) if y.ndim == 2 else np.bincount(y, minlength=len(table.classes))
    rarest = [k for k in np.argsort(counts, kind="stable") if counts[k] < MIN_ROWS_OF_CURVE]
    if rarest:
        kind, needed = (
            "classes" if y.ndim == 1 else "labels",
            math.ceil(MIN_ROWS_OF_CURVE * len(table.y) / len(rows.train)),
        )
        named = some_of(
            [f"{table.classes[k]!r} ({counted(counts[k], 'row')})" for k in rarest], _MAX_NAMED
        )
        advice = f"provide at least {needed} of each, or merge rare {kind}"
        found.append(
            f"{kind} with too few training rows for reliable probabilities: {named}; {advice}"
        )
    return found


def no_ranking(estimator: Any, holdout: Holdout | None) -> list[str]:
    """A sentence where rows that the model did not see are not ranked better than by chance.

    By their class, by each of several labels, or by whether a number is above the median.
    """
    if not estimator.ranks():
        sentence = (
            "the features do not rank rows that the model did not see: every prediction has about"
            " the shares of the classes in training"
        )
    elif (figures := None if holdout is None else _rank_area(holdout)) is not None:
        area, error = figures
        if area > 0.5 + _CLEAR * error:
            return []
        sentence = (
            "the model does not rank rows that it did not see clearly better than by chance: the area"
            f" under the ROC curve is {area:.2f}, give or take {error:.2f}"
        )
    else:
        return []
    return [f"{sentence}; provide other features, or more rows"]


def _rank_area(holdout: Holdout) -> tuple[float, float] | None:
    """As `mean_rank_area`, of some of the rows that the model did not see."""
    some = slice(None, None, max(1, len(holdout.y) // _RANKED_ROWS))
    scores, y = holdout.scores[some], holdout.y[some]
    if y.dtype.kind == "f":
        inside = y[:, None] > np.median(y)
    elif y.ndim == 2:
        inside = y > 0
    else:
        inside = y[:, None] == np.arange(scores.shape[1])
    if y.ndim == 1 and scores.shape[1] == 2:  # the two areas are the same
        scores, inside = scores[:, 1:], inside[:, 1:]
    return mean_rank_area(scores, inside, _FEWEST_RANKED)


def separating_features(table: Table) -> list[str]:
    """A sentence that names the features of which one alone tells nearly all classes, as what is
    known only after the outcome does.

    Numbers tell a row's class by the rows next to it in their order, categories by their other
    rows. Some of the rows are enough. O(m n log n).
    """
    if table.classes is None or table.y.ndim > 1:
        return []
    n, m = table.X.shape
    size = max(_FEWEST_JUDGED, _JUDGED_CELLS // m)
    rows = np.random.default_rng(0).permutation(n)[:size]  # also because files are sorted by class
    y = table.y[rows]
    guesses = len(y) - np.bincount(y).max()  # errors of who always says the most common class
    if guesses < MIN_ROWS_OF_CURVE:
        return []
    features = []
    for j, name in enumerate(table.schema.names):
        told = _told_by_category if j in table.schema.categorical else _told_by_order
        right = told(table.X[rows, j], y)
        if len(y) - right <= _UNTOLD * guesses:
            features.append(f"{name!r} ({right / len(y):.2%} of the rows)")
    if not features:
        return []
    message = (
        f"one feature alone tells the classes apart: {some_of(features, _MAX_NAMED)}; leave it out if it"
        " is known only after the outcome, as then all figures are too good, and the decisions wrong"
    )
    return [message]


def _told_by_order(column: np.ndarray, y: np.ndarray) -> int:
    """For how many rows half of the rows next to them in the order of a column (n,) have their
    class; missing last.
    """
    ordered = y[np.argsort(column, kind="stable")]
    alike, near = np.zeros(len(y), dtype=np.intp), np.zeros(len(y), dtype=np.intp)
    for distance in range(1, _NEIGHBOURS + 1):
        same = ordered[distance:] == ordered[:-distance]
        for side in (slice(distance, None), slice(None, -distance)):
            alike[side] += same
            near[side] += 1
    return int(np.count_nonzero(2 * alike >= near))


def _told_by_category(column: np.ndarray, y: np.ndarray) -> int:
    """For how many rows half of the others with their category in a column (n,) have their class;
    missing is one.
    """
    codes = np.where(np.isnan(column), -1, column).astype(np.intp) + 1
    counts = np.zeros((codes.max() + 1, y.max() + 1), dtype=np.intp)
    np.add.at(counts, (codes, y), 1)
    alike, near = counts[codes, y] - 1, counts.sum(axis=1)[codes] - 1
    return int(np.count_nonzero((near > 0) & (2 * alike >= near)))


def repeated_rows(table: Table) -> list[str]:
    """A sentence if many rows of the table occur again though two columns tell rows apart; O(n m
    log n).

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
    """Whether the values of a column tell nearly all the different rows apart in which it is not
    missing.
    """
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
