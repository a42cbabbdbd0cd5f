"""scikit-learn's histogram gradient boosting: how it grows and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import OrdinalEncoder
from threadpoolctl import ThreadpoolController

from app.decisions.explanations import Contributions
from app.learners.loading import compiled
from app.progress import report

MAX_CATEGORIES = 255
"""What scikit-learn's bins hold; of a feature with more, the most common have codes of their own."""
# Up to so many rows one thread serves a request. Every tree opens a parallel region: with busy cores 500 of them took
# 290 ms for one row on two threads, against 3 ms on one.
_ONE_THREAD = 1000
_openmp = ThreadpoolController().select(user_api="openmp")


@dataclass(frozen=True)
class Boosted:
    """Probabilities from raw rows; `pool` gives the columns `many`, of too many categories, other codes."""

    model: HistGradientBoostingClassifier
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
        if not len(X):  # scikit-learn refuses no rows
            return np.empty((0, len(self.model.classes_)))
        rows = self.rows(X)
        if len(rows) > _ONE_THREAD:
            return np.ascontiguousarray(self.model.predict_proba(rows), dtype=np.float64)
        with _openmp.limit(limits=1):
            return np.ascontiguousarray(self.model.predict_proba(rows), dtype=np.float64)

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        found: Contributions = compiled().boosted.contributions(self.model, self.rows(X), chosen)
        return found


def grown(
    parameters: Mapping[str, Any], columns: Sequence[int], X: np.ndarray, codes: np.ndarray, weights: np.ndarray,
    rounds: Sequence[int],
) -> Iterator[Boosted]:  # fmt: skip
    """The same model, with a warm start, after each of so many rounds; `columns` are categorical."""
    many = [j for j in columns if len(np.unique(X[~np.isnan(X[:, j]), j])) > MAX_CATEGORIES]
    pool = OrdinalEncoder(
        max_categories=MAX_CATEGORIES, handle_unknown="use_encoded_value", unknown_value=np.nan,
        encoded_missing_value=np.nan,
    )  # fmt: skip
    if many:
        pool.fit(X[:, many])
    boosted = Boosted(
        HistGradientBoostingClassifier(  # early stopping is ours
            categorical_features=list(columns) or None, early_stopping=False, warm_start=True, **parameters
        ),
        many,
        pool,
    )
    model, rows = boosted.model, boosted.rows(X)
    unknown = np.isnan(rows).all(axis=0)
    if unknown.any():  # scikit-learn cannot bin a column without values; a constant one is never split
        rows = np.where(unknown, 0.0, rows)
    alike = bool((weights == 1.0).all())
    for step in rounds:
        model.set_params(max_iter=step).fit(rows, codes, sample_weight=None if alike else weights)
        report(step / rounds[-1])
        yield boosted
    model.set_params(warm_start=False)
