"""scikit-learn's histogram gradient boosting: how it grows and answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.preprocessing import OrdinalEncoder
from threadpoolctl import ThreadpoolController

from payoff.decisions.explanations import Contributions
from payoff.learners import loading
from payoff.progress import report
from payoff.stored import Stored

MAX_CATEGORIES = 255
"""What scikit-learn's bins hold; of a feature with more, the most common have codes of their own.
"""
# Up to so many rows one thread serves a request. Every tree opens a parallel region: with busy
# cores 500 of them took 290 ms for one row on two threads, against 3 ms on one.
_ONE_THREAD = 1000
_FITTED = 10  # rows of a fit that are as much work as one to answer
_openmp = ThreadpoolController().select(user_api="openmp")


def _threads(rows: int) -> AbstractContextManager[Any]:
    """One thread for few rows, else as many as there are."""
    return nullcontext() if rows > _ONE_THREAD else _openmp.limit(limits=1)


@dataclass(frozen=True)
class Boosted(Stored):
    """Probabilities or numbers from raw rows; `pool` gives the columns `many`, of too many
    categories, other codes.
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
        return (
            self._said(X, self.model.predict_proba)
            if len(X)
            else np.empty((0, len(self.model.classes_)))
        )

    def values(self, X: np.ndarray) -> np.ndarray:
        return self._said(X, self.model.predict) if len(X) else np.empty(0)

    def _said(self, X: np.ndarray, answer: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """What scikit-learn, which refuses no rows, answers to some."""
        rows = self.rows(X)
        with _threads(len(rows)):
            return np.ascontiguousarray(answer(rows), dtype=np.float64)

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        return loading.compiled.boosted.contributions(self.model, self.rows(X), chosen)


def grown(
    parameters: Mapping[str, Any], columns: Sequence[int], X: np.ndarray, codes: np.ndarray, weights: np.ndarray,
    rounds: Sequence[int],
) -> Iterator[Boosted]:  # fmt: skip
    """The same model, with a warm start, after each of so many rounds; `columns` are categorical,
    `codes` float64 (n,) where they are numbers.
    """
    many = [j for j in columns if len(np.unique(X[~np.isnan(X[:, j]), j])) > MAX_CATEGORIES]
    pool = OrdinalEncoder(
        max_categories=MAX_CATEGORIES, handle_unknown="use_encoded_value", unknown_value=np.nan,
        encoded_missing_value=np.nan,
    )  # fmt: skip
    if many:
        pool.fit(X[:, many])
    kind = (
        HistGradientBoostingRegressor if codes.dtype.kind == "f" else HistGradientBoostingClassifier
    )
    boosted = Boosted(
        kind(  # early stopping is ours
            categorical_features=list(columns) or None,
            early_stopping=False,
            warm_start=True,
            **parameters,
        ),
        many,
        pool,
    )
    model, rows = boosted.model, boosted.rows(X)
    unknown = np.isnan(rows).all(axis=0)
    if (
        unknown.any()
    ):  # scikit-learn cannot bin a column without values; a constant one is never split
        rows = np.where(unknown, 0.0, rows)
    alike = bool((weights == 1.0).all())
    for step in rounds:
        with _threads(len(rows) // _FITTED):
            model.set_params(max_iter=step).fit(
                rows, codes, sample_weight=None if alike else weights
            )
        report(step / rounds[-1])
        yield boosted
    model.set_params(warm_start=False)
