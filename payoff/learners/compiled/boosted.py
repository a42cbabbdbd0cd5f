"""What each feature contributes to the scores of scikit-learn's gradient boosting.

Its trees have no public form; tests compare `contributions` with `decision_function`.
"""

from typing import Any

import numpy as np

from payoff.decisions.explanations import Contributions, of_terms
from payoff.decisions.tree_contributions import Trees, tree_contributions


def contributions(model: Any, X: np.ndarray, chosen: np.ndarray) -> Contributions:
    """Contributions for rows X (n, m) to the log-odds of two classes.

    Of more classes to the log ratio of the `chosen` class (n,).
    """
    iterations = model._predictors  # noqa: SLF001
    # Categorical columns come first, as the trees number the columns.
    rows = model._preprocess_X(X, reset=False)  # noqa: SLF001
    n, m = X.shape
    scores = len(iterations[0])
    T = np.zeros((n, m, scores))
    base = np.zeros((n, scores))
    for k in range(scores):
        T[:, :, k], base[:, k] = _of_score([trees[k] for trees in iterations], rows)
    base += model._baseline_prediction  # noqa: SLF001
    categorical = model.is_categorical_
    if categorical is not None:
        order = np.concatenate(
            (np.flatnonzero(categorical), np.flatnonzero(~categorical))
        )
        T = T[:, np.argsort(order)]
    return of_terms(T, base[0] if len(base) else np.zeros(scores), chosen)


def _of_score(predictors: list[Any], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contributions (n, m) of rows to the sum of the trees of one score, and their base (n,)."""
    nodes, roots, bits = _joined(predictors)
    leaf = nodes["is_leaf"].astype(bool)
    left_child, right_child, feature = (
        np.where(leaf, -1, nodes[name]).astype(np.int32)
        for name in ("left", "right", "feature_idx")
    )
    trees = Trees(
        roots, feature, left_child, right_child, nodes["count"].astype(np.float32)
    )
    values = np.ascontiguousarray(nodes["value"][:, None])
    shares = np.arange(len(nodes), dtype=np.int32)

    def goes(block: slice) -> np.ndarray:
        return np.asarray(
            np.where(_goes_left(nodes, bits, rows[block]), left_child, right_child)
        )

    n, m = rows.shape
    return tree_contributions(
        trees, goes, values, shares, np.zeros(n, dtype=np.intp), m
    )


def _joined(predictors: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes of all trees, where each begins, and the sets of categories that go left."""
    starts = np.cumsum([0, *(len(tree.nodes) for tree in predictors)])
    set_starts = np.cumsum(
        [0, *(len(tree.raw_left_cat_bitsets) for tree in predictors)]
    )
    nodes = np.concatenate([tree.nodes for tree in predictors])
    owner = np.repeat(np.arange(len(predictors)), np.diff(starts))
    for side in ("left", "right"):
        nodes[side] += starts[owner].astype(np.uint32)
    nodes["bitset_idx"] += set_starts[owner].astype(np.uint32)
    sets = np.concatenate(
        [tree.raw_left_cat_bitsets.reshape(-1, 8) for tree in predictors]
    )
    bits = np.unpackbits(sets.view(np.uint8), axis=1, bitorder="little")
    return nodes, starts[:-1].astype(np.int32), bits


def _goes_left(nodes: np.ndarray, bits: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Whether each row goes left at each node, bool (n, N)."""
    x = rows[:, nodes["feature_idx"]]
    missing = np.isnan(x)
    goes: np.ndarray = np.where(
        missing, nodes["missing_go_to_left"].astype(bool), x <= nodes["num_threshold"]
    )
    at = np.flatnonzero(nodes["is_categorical"])
    codes = np.nan_to_num(x[:, at], nan=0.0).astype(np.intp)
    goes[:, at] = np.where(
        missing[:, at], goes[:, at], bits[nodes["bitset_idx"][at], codes]
    )
    return goes
