"""scikit-learn's histogram gradient boosting: how it grows and answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.preprocessing import OrdinalEncoder
from threadpoolctl import ThreadpoolController

from payoff.decisions.explanations import Contributions
from payoff.learners import loading
from payoff.progress import report
from payoff.stored import Stored

MAX_CATEGORIES = 255
"""The categories that scikit-learn's bins hold; of more, only the most common have their code."""
# Up to so many rows one thread serves a request. Every tree opens a parallel region: with busy
# cores 500 of them took 290 ms for one row on two threads, against 3 ms on one.
_MAX_ROWS_OF_ONE_THREAD = 1000
_FITTED = 10  # rows of a fit that are as much work as one row to predict
_openmp = ThreadpoolController().select(user_api="openmp")


def _threads(rows: int) -> AbstractContextManager[Any]:
    """One thread for few rows, else as many as there are."""
    return nullcontext() if rows > _MAX_ROWS_OF_ONE_THREAD else _openmp.limit(limits=1)


@dataclass(frozen=True)
class Boosted(Stored):
    """Probabilities or numbers from raw rows.

    `many` are the columns with too many categories, to which `pool` gives other codes.
    """

    model: HistGradientBoostingClassifier | HistGradientBoostingRegressor
    many: Sequence[int]
    pool: OrdinalEncoder

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Raw rows (n, m) as the model takes them."""
        if not self.many:
            return X
        X = X.copy()
        X[:, self.many] = self.pool.transform(X[:, self.many])
        return X

    def posterior(self, X: np.ndarray) -> np.ndarray:
        if not len(X):
            return np.empty((0, len(self.model.classes_)))
        return self._predict(X, self.model.predict_proba)

    def values(self, X: np.ndarray) -> np.ndarray:
        return self._predict(X, self.model.predict) if len(X) else np.empty(0)

    def staged_values(self, X: np.ndarray, every: int) -> np.ndarray:
        """The numbers (stages, n) of rows X (n, m) after each so many rounds, at least one row."""
        rows = self.rows(X)
        with _threads(len(rows)):
            stages = islice(self.model.staged_predict(rows), every - 1, None, every)
            return np.array([*stages])

    def _predict(
        self, X: np.ndarray, method: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """The result of a method of scikit-learn's model for rows X, at least one."""
        rows = self.rows(X)
        with _threads(len(rows)):
            return np.ascontiguousarray(method(rows), dtype=np.float64)

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        return loading.compiled.boosted.contributions(self.model, self.rows(X), chosen)


def grow(
    parameters: Mapping[str, Any],
    columns: Sequence[int],
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    rounds: Sequence[int],
) -> Iterator[Boosted]:
    """The same model, with a warm start, after each number of `rounds`.

    `columns` are categorical; `codes` are float64 (n,) where they are numbers.
    """
    many = [
        j for j in columns if len(np.unique(X[~np.isnan(X[:, j]), j])) > MAX_CATEGORIES
    ]
    pool = OrdinalEncoder(
        max_categories=MAX_CATEGORIES,
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
        encoded_missing_value=np.nan,
    )
    if many:
        pool.fit(X[:, many])
    estimator = HistGradientBoostingClassifier
    if codes.dtype.kind == "f":
        estimator = HistGradientBoostingRegressor
    # The learner chooses the number of rounds, not scikit-learn.
    model = estimator(
        categorical_features=list(columns) or None,
        early_stopping=False,
        warm_start=True,
        **parameters,
    )
    boosted = Boosted(model, many, pool)
    rows = boosted.rows(X)
    unknown = np.isnan(rows).all(axis=0)
    if unknown.any():
        # scikit-learn cannot bin a column without values; a constant column is never split.
        rows = np.where(unknown, 0.0, rows)
    sample_weight = None if bool((weights == 1.0).all()) else weights
    for step in rounds:
        with _threads(len(rows) // _FITTED):
            model.set_params(max_iter=step).fit(
                rows, codes, sample_weight=sample_weight
            )
        report(step / rounds[-1])
        yield boosted
    model.set_params(warm_start=False)
