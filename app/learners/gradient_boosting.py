"""scikit-learn's histogram gradient boosting on raw rows, cost-blind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import ThreadpoolController

from app.learners.base import Learner
from app.learners.kinds import Kind
from app.learners.parameters import CALIBRATION, Parameter
from app.progress import report

MAX_CATEGORIES = 255
"""What scikit-learn's bins hold; of a feature with more, the most common have codes of their own."""
# Progress reports of a fit. Each bins the rows again: a few per cent of the time without weights, but with weights
# scikit-learn takes a quarter of a second per feature for it, so such a fit has one report.
_STEPS = 10
# Up to so many rows one thread serves a request. Every tree opens a parallel region: with busy cores 500 of them took
# 290 ms for one row on two threads, against 3 ms on one.
_ONE_THREAD = 1000
_openmp = ThreadpoolController().select(user_api="openmp")


@dataclass(frozen=True)
class Boosted:
    """Probabilities from raw rows; `pools` holds (column, new code by old code) of features with many categories."""

    model: HistGradientBoostingClassifier
    pools: tuple[tuple[int, np.ndarray], ...]

    def posterior(self, X: np.ndarray) -> np.ndarray:
        if not len(X):  # scikit-learn refuses no rows
            return np.empty((0, len(self.model.classes_)))
        rows = pooled(X, self.pools)
        if len(rows) > _ONE_THREAD:
            return np.ascontiguousarray(self.model.predict_proba(rows), dtype=np.float64)
        with _openmp.limit(limits=1):
            return np.ascontiguousarray(self.model.predict_proba(rows), dtype=np.float64)


class GradientBoosting(Learner):
    """Boosted trees on binned features, missing values and categories taken as they are, then calibrated.

    `max_iter` trees per class (for two classes in all), each of `max_leaf_nodes` leaves at most (None: no limit),
    shrunk by `learning_rate`, their leaves by `l2_regularization`: scikit-learn's HistGradientBoostingClassifier
    without early stopping, so that rows, parameters and seed decide the model. Of a categorical feature with more
    than 255 categories the 254 of the largest weight stay apart and the others count as one (scikit-learn would
    refuse it). The other parameters are `Learner`'s. Raises Invalid for a parameter out of range.

    A row takes scikit-learn 0.7 ms at 100 trees, 3 ms at 500, and 1 ms more with categories: its trees have no public
    form that a quicker walk could use.
    """

    # Boosting is overconfident: on six of the UCI tables, whole and cut to 150 rows (smallest class 4 to 247), the
    # sigmoid lowered held-out log loss every time, by 15 to 40 %, and beat isotonic nearly always.
    _auto: ClassVar[tuple[float, float]] = (4, 1000)
    parameters = (
        Parameter("max_iter", "integer", 100, "Boosting rounds; each grows a tree per class.", low=1, high=10_000),
        Parameter("learning_rate", "number", 0.1, "Shrinkage of each round.", low=0.0, high=10.0, above_low=True),
        Parameter("max_leaf_nodes", "integer", 31, "Maximum number of leaves of a tree.", low=2, optional=True),
        Parameter("l2_regularization", "number", 0.0, "L2 penalty on the values of leaves.", low=0.0, high=1e10),
        CALIBRATION,
    )
    model_: Boosted

    def __init__(
        self,
        *,
        max_iter: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        l2_regularization: float = 0.0,
        calibration: str = "auto",
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.l2_regularization = l2_regularization
        self.calibration = calibration
        self.categorical_features = categorical_features
        self.random_state = random_state

    @property
    def n_iter_(self) -> int:
        """The rounds that the last fit took: all."""
        return int(self.model_.model.n_iter_)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Boosted:
        columns = self._categorical()
        pools = tuple((j, table) for j in columns if (table := pool(X[:, j], weights)) is not None)
        rows = pooled(X, pools)
        unknown = np.isnan(rows).all(axis=0)
        if unknown.any():  # scikit-learn cannot bin a column without values; a constant one is never split
            rows = np.where(unknown, 0.0, rows)
        model = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaf_nodes,
            l2_regularization=self.l2_regularization,
            categorical_features=columns or None,
            early_stopping=False,
            warm_start=True,
            random_state=self.random_state,
        )
        last = int(self.max_iter)
        alike = bool((weights == 1.0).all())
        for step in np.unique(np.linspace(0, last, (_STEPS if alike else 1) + 1).astype(int))[1:]:
            model.set_params(max_iter=int(step)).fit(rows, codes, sample_weight=None if alike else weights)
            report(step / last)
        return Boosted(model.set_params(warm_start=False), pools)


def pool(codes: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """New code by old code for a column of more than 255 categories, or None where it has fewer.

    The 254 of the largest weight (ties to the lower code) become 0…253 and the rest 254; a code that the column
    lacks becomes NaN. O(n + largest code).
    """
    known = ~np.isnan(codes)
    sums = np.bincount(codes[known].astype(np.intp), weights[known])
    seen = np.flatnonzero(sums)
    if len(seen) <= MAX_CATEGORIES:
        return None
    table = np.full(len(sums), np.nan)
    table[seen] = MAX_CATEGORIES - 1
    own = seen[np.argsort(-sums[seen], kind="stable")][: MAX_CATEGORIES - 1]
    table[np.sort(own)] = np.arange(MAX_CATEGORIES - 1)
    return table


def pooled(X: np.ndarray, pools: tuple[tuple[int, np.ndarray], ...]) -> np.ndarray:
    """Rows with the columns of `pools` given their new codes; X itself where there are none."""
    if not pools:
        return X
    X = X.copy()
    for j, table in pools:
        beyond = len(table)  # where missing and later codes find NaN
        codes = np.fmin(X[:, j], beyond).astype(np.intp)
        X[:, j] = np.append(table, np.nan)[codes]
    return X


KIND = Kind(
    "gradient_boosting",
    GradientBoosting,
    GradientBoosting.parameters,
    "Gradient boosted trees on histograms, cost-blind; takes missing values and categories without preparation.",
)
