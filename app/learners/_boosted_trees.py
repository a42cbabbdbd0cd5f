"""Contributions of features to the raw scores of scikit-learn's histogram gradient boosting.

Its trees have no public form; `contributions` is compared with `decision_function` in tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from app.decisions.contributions import Contributions, of_terms
from app.decisions.tree_contributions import Trees, tree_contributions


def contributions(model: HistGradientBoostingClassifier, X: np.ndarray, chosen: np.ndarray) -> Contributions:
    """To the log-odds of two classes, of more to the log ratio of the chosen class; rows (n, m)."""
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

        def goes(some: slice, nodes: Any = nodes, bits: Any = bits, trees: Trees = trees) -> np.ndarray:
            return np.where(_left(nodes, bits, rows[some]), trees.left, trees.right)

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
