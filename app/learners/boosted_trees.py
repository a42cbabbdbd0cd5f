"""scikit-learn's histogram gradient boosting: how it grows and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
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

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions:
        found: Contributions = compiled().boosted.contributions(self.model, pooled(X, self.pools), chosen)
        return found


def grown(
    parameters: Mapping[str, Any], columns: Sequence[int], X: np.ndarray, codes: np.ndarray, weights: np.ndarray,
    rounds: Sequence[int],
) -> Iterator[Boosted]:  # fmt: skip
    """The same model, with a warm start, after each of so many rounds; `columns` are categorical."""
    pools = tuple((j, table) for j in columns if (table := pool(X[:, j], weights)) is not None)
    rows = pooled(X, pools)
    unknown = np.isnan(rows).all(axis=0)
    if unknown.any():  # scikit-learn cannot bin a column without values; a constant one is never split
        rows = np.where(unknown, 0.0, rows)
    model = HistGradientBoostingClassifier(  # early stopping is ours
        categorical_features=list(columns) or None, early_stopping=False, warm_start=True, **parameters
    )
    alike = bool((weights == 1.0).all())
    for step in rounds:
        model.set_params(max_iter=step).fit(rows, codes, sample_weight=None if alike else weights)
        report(step / rounds[-1])
        yield Boosted(model, pools)
    model.set_params(warm_start=False)


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
