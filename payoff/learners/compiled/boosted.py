"""What each feature contributes to the scores of scikit-learn's gradient boosting.

Its trees have no public form; tests compare `contributions` with `decision_function`.
"""

from typing import Any

import numpy as np

from payoff.decisions.explanations import Contributions, of_terms
from payoff.decisions.tree_contributions import Trees, tree_contributions


def contributions(model: Any, X: np.ndarray, chosen: np.ndarray) -> Contributions:
    """To the log-odds of two classes, of more to the log ratio of the chosen class; rows (n, m)."""
    grown, baseline, reorder = model._predictors, model._baseline_prediction, model._preprocess_X  # noqa: SLF001
    rows = reorder(X, reset=False)  # categories first, as the trees number the columns
    m, scores = X.shape[1], len(grown[0])
    T, base = np.zeros((len(X), m, scores)), np.zeros((len(X), scores))
    for k in range(scores):
        predictors = [each[k] for each in grown]
        nodes, roots, bits = _joined(predictors)
        leaf = nodes["is_leaf"].astype(bool)
        left, right = (
            np.where(leaf, -1, nodes[side]).astype(np.int32) for side in ("left", "right")
        )
        trees = Trees(roots, np.where(leaf, -1, nodes["feature_idx"]).astype(np.int32), left, right,
                      nodes["count"].astype(np.float32))  # fmt: skip
        value, share = (
            np.ascontiguousarray(nodes["value"][:, None]),
            np.arange(len(nodes), dtype=np.int32),
        )

        def goes(
            some: slice, nodes: Any = nodes, bits: Any = bits, trees: Any = trees
        ) -> np.ndarray:
            return np.asarray(np.where(_left(nodes, bits, rows[some]), trees.left, trees.right))

        T[:, :, k], base[:, k] = tree_contributions(
            trees, goes, value, share, np.zeros(len(X), dtype=np.intp), m
        )
    base += baseline
    categorical = model.is_categorical_
    if categorical is not None:
        T = T[
            :,
            np.argsort(np.concatenate((np.flatnonzero(categorical), np.flatnonzero(~categorical)))),
        ]
    return of_terms(T, base[0] if len(base) else np.zeros(scores), chosen)


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
    return (
        nodes,
        sizes[:-1].astype(np.int32),
        np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little"),
    )


def _left(nodes: np.ndarray, bits: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Whether each row goes left at each node, bool (n, N)."""
    x = rows[:, nodes["feature_idx"]]
    goes: np.ndarray = np.where(
        np.isnan(x), nodes["missing_go_to_left"].astype(bool), x <= nodes["num_threshold"]
    )
    at = np.flatnonzero(nodes["is_categorical"])
    codes = np.nan_to_num(x[:, at], nan=0.0).astype(np.intp)
    goes[:, at] = np.where(np.isnan(x[:, at]), goes[:, at], bits[nodes["bitset_idx"][at], codes])
    return goes
