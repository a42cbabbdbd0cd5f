"""scikit-learn's histogram gradient boosting: how it grows, answers, and explains its scores.

Its trees have no public form; `contributions` is compared with `decision_function` in tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import ThreadpoolController

from app.decisions.contributions import Contributions, of_terms
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
        return contributions(self.model, pooled(X, self.pools), chosen)


def model(**parameters: Any) -> HistGradientBoostingClassifier:
    """scikit-learn's estimator; early stopping is ours."""
    return HistGradientBoostingClassifier(early_stopping=False, warm_start=True, **parameters)


def grown(
    model: HistGradientBoostingClassifier, columns: Sequence[int], X: np.ndarray, codes: np.ndarray,
    weights: np.ndarray, rounds: np.ndarray,
) -> Iterator[Boosted]:  # fmt: skip
    """The same model, with a warm start, after each of so many rounds; `columns` are categorical."""
    pools = tuple((j, table) for j in columns if (table := pool(X[:, j], weights)) is not None)
    rows = pooled(X, pools)
    unknown = np.isnan(rows).all(axis=0)
    if unknown.any():  # scikit-learn cannot bin a column without values; a constant one is never split
        rows = np.where(unknown, 0.0, rows)
    model.set_params(categorical_features=list(columns) or None)
    alike = bool((weights == 1.0).all())
    for step in rounds:
        model.set_params(max_iter=int(step)).fit(rows, codes, sample_weight=None if alike else weights)
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


def contributions(model: HistGradientBoostingClassifier, X: np.ndarray, chosen: np.ndarray) -> Contributions:
    """To the log-odds of two classes, of more to the log ratio of the chosen class; rows (n, m)."""
    from app.decisions.tree_contributions import Trees, tree_contributions  # noqa: PLC0415 - the compiler takes 60 MB

    rows = model._preprocess_X(X, reset=False)  # noqa: SLF001 - categories first, as the trees number the columns
    scores, m = model._predictors[0], X.shape[1]  # noqa: SLF001
    T, base = np.zeros((len(X), m, len(scores))), np.zeros((len(X), len(scores)))
    for k in range(len(scores)):
        predictors = [each[k] for each in model._predictors]  # noqa: SLF001
        nodes, roots, bits = _joined(predictors)
        leaf = nodes["is_leaf"].astype(bool)
        left, right = (np.where(leaf, -1, nodes[side]).astype(np.int32) for side in ("left", "right"))
        trees = Trees(roots, np.where(leaf, -1, nodes["feature_idx"]).astype(np.int32), left, right,
                      nodes["count"].astype(np.float32))  # fmt: skip
        value, share = np.ascontiguousarray(nodes["value"][:, None]), np.arange(len(nodes), dtype=np.int32)

        def goes(some: slice, nodes: Any = nodes, bits: Any = bits, trees: Any = trees) -> np.ndarray:
            return np.asarray(np.where(_left(nodes, bits, rows[some]), trees.left, trees.right))

        T[:, :, k], base[:, k] = tree_contributions(trees, goes, value, share, np.zeros(len(X), dtype=np.intp), m)
    base += model._baseline_prediction  # noqa: SLF001
    categorical = model.is_categorical_
    if categorical is not None:
        T = T[:, np.argsort(np.concatenate((np.flatnonzero(categorical), np.flatnonzero(~categorical))))]
    return of_terms(T, base[0] if len(base) else np.zeros(len(scores)), chosen)


def _joined(predictors: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes of all trees, where each begins, and the sets of categories that go left."""
    sizes = np.cumsum([0, *(len(each.nodes) for each in predictors)])
    sets = np.cumsum([0, *(len(each.raw_left_cat_bitsets) for each in predictors)])
    nodes = np.concatenate([each.nodes for each in predictors])
    by = np.repeat(np.arange(len(predictors)), np.diff(sizes))
    for side in ("left", "right"):
        nodes[side] += sizes[by].astype(np.uint32)
    nodes["bitset_idx"] += sets[by].astype(np.uint32)
    bits = np.concatenate([each.raw_left_cat_bitsets.reshape(-1, 8) for each in predictors])
    return nodes, sizes[:-1].astype(np.int32), np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")


def _left(nodes: np.ndarray, bits: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Whether each row goes left at each node, bool (n, N)."""
    x = rows[:, nodes["feature_idx"]]
    goes: np.ndarray = np.where(np.isnan(x), nodes["missing_go_to_left"].astype(bool), x <= nodes["num_threshold"])
    at = np.flatnonzero(nodes["is_categorical"])
    codes = np.nan_to_num(x[:, at], nan=0.0).astype(np.intp)
    goes[:, at] = np.where(np.isnan(x[:, at]), goes[:, at], bits[nodes["bitset_idx"][at], codes])
    return goes
