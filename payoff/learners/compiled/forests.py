"""Grow scikit-learn's random forest, for one label or several, and make it flat."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from payoff.acquisition.forest import FlatForest, Orders, order_categories
from payoff.acquisition.nodes import Nodes, Tree, beside, converted, flatten
from payoff.errors import Invalid
from payoff.learners.base import FoldedRows, check_sizes, stage_name
from payoff.learners.unseen import log_losses
from payoff.progress import report

_CELLS = 8_000_000  # of the table, times trees, in one piece of work: a third of a second or so
_MAX = 16  # trees between two reports of progress
_JUDGES = 100  # trees that choose the size of leaves, at most


def forest_like(learner: Any) -> RandomForestClassifier | RandomForestRegressor:
    """scikit-learn's forest, not fitted, with the parameters of a learner but the size of leaves,
    in one thread.

    Invalid where they do not fit its data.
    """
    most, m = learner.max_features, learner.n_features_in_
    if isinstance(most, int | np.integer) and most > m:
        raise Invalid.at("/max_features", f"max_features is {most} of {m} features")
    if most == "auto":
        most = None if learner.regresses else "sqrt"
    kind = RandomForestRegressor if learner.regresses else RandomForestClassifier
    return kind(
        learner.n_estimators,
        max_features=most,
        random_state=learner.random_state,
        warm_start=True,
        n_jobs=1,
    )


def grown_forests(
    learner: Any, dealt: FoldedRows, folds: Sequence[int], min_samples_leaf: int
) -> Iterator[tuple[int, FlatForest, np.ndarray]]:
    """A learner's forest without each of the folds, and whether its trees grew from each of its
    rows (n, T); a piece of work is some trees of one of them.

    `dealt.codes` are class codes (n,), labels (n, L) of 0 and 1, or numbers (n,). For labels the
    forest's distribution has L + 1 entries: the probability of each label, and what is left to L,
    all divided by L; of numbers it has 1.
    """
    n_classes, categorical = (
        1 if learner.regresses else len(learner.classes_),
        learner.categorical(),
    )
    rows = dealt._replace(X=_narrow(dealt.X))
    size = learner.n_estimators
    batch = int(np.clip(_CELLS // max(rows.X.size, 1), 1, _MAX))
    starts = range(0, size, batch)
    models = {
        fold: forest_like(learner.seeded()).set_params(min_samples_leaf=min_samples_leaf)
        for fold in folds
    }
    grown = Parallel(prefer="threads", return_as="generator")(
        delayed(_grow_some)(
            models[fold], n_classes, categorical, *rows, fold, start, min(batch, size - start)
        )
        for fold in folds
        for start in starts
    )
    done = 0
    for number, fold in enumerate(folds):
        stage = stage_name(number, len(folds) - 1) if len(folds) > 1 else "growing trees"
        parts, roots, bags, orders = [], [], [], Orders()
        for nodes, values, grew, same in islice(grown, len(starts)):
            parts.append(nodes)
            roots.append(values)
            bags.append(grew)
            orders, done = same, done + len(values)
            report(done / (size * len(folds)), stage)
        prior = np.concatenate(roots).mean(axis=0)
        yield (
            fold,
            FlatForest(beside(parts, prior / prior.sum()), dealt.X.shape[1], orders),
            np.hstack(bags),
        )


def best_leaf(
    learner: Any, leaves: Sequence[int], X: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> int:
    """Of `leaves` the `min_samples_leaf` of the forest with the least log loss out of bag; ties to
    the first.

    A share of 0 counts as one row in n + 2 would. Time: a forest each, of 100 trees at most.
    """
    rows, model = _narrow(X), forest_like(learner.seeded())
    X = order_categories(rows, codes, weights, len(learner.classes_), learner.categorical()).apply(
        rows
    )
    like = model.set_params(
        n_estimators=min(model.n_estimators, _JUDGES), oob_score=True, warm_start=False
    )
    losses = Parallel(prefer="threads")(
        delayed(_out_of_bag)(like, leaf, X, codes, weights) for leaf in leaves
    )
    return leaves[int(np.argmin(losses))]


def _out_of_bag(
    model: RandomForestClassifier, leaf: int, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> float:
    grown = clone(model).set_params(min_samples_leaf=leaf)
    with warnings.catch_warnings(
        action="ignore", category=UserWarning
    ):  # of few trees some rows are in all bags
        grown.fit(X, codes, sample_weight=_counted(weights))
    judged = np.isfinite(grown.oob_decision_function_).all(axis=1)
    P = np.maximum(grown.oob_decision_function_[judged], 1 / (len(X) + 2))
    return float(weights[judged] @ log_losses(P, codes[judged]))


def _narrow(X: np.ndarray) -> np.ndarray:
    """Rows as scikit-learn's trees compare them, at half the size; Invalid for numbers that are too
    large.
    """
    check_sizes(X, range(X.shape[1]))
    return X.astype(np.float32)


def _counted(weights: np.ndarray) -> np.ndarray | None:
    """Equal weights are none: scikit-learn draws its rows in another way once there are weights."""
    return None if (weights == weights[0]).all() else weights


def _grow_some(
    model: RandomForestClassifier, n_classes: int, categorical: Sequence[int],
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray, without: int, start: int, count: int,
) -> tuple[Nodes, np.ndarray, np.ndarray, Orders]:  # fmt: skip
    """Trees `start`, `start` + 1, … of a forest of all rows but those in one fold, as they are in
    the whole forest.

    Returns them flat, the distributions at their roots (count, K), whether they grew from each of
    these rows (n, count), and the order of the categories.
    """
    rows, truth, weight = FoldedRows(X, codes, weights, fold).without(without)
    numbers = truth.dtype.kind == "f"
    ranked = (truth - truth.mean())[:, None] / (truth.std() or 1.0) if numbers else truth
    orders = order_categories(rows, ranked, weight, n_classes, categorical)
    grown = clone(model).set_params(n_estimators=start + count)
    grown.estimators_ = [
        None
    ] * start  # a warm start passes over those that are there, and over their seeds
    target = truth.ravel() if n_classes == 1 else truth
    grown.fit(orders.apply(rows), target, sample_weight=_counted(weight))
    grown.estimators_ = grown.estimators_[start:]
    trees = [converted(tree.tree_) for tree in grown.estimators_]
    if numbers:
        trees = [tree._replace(counts=np.ones((len(tree.feature), 1))) for tree in trees]
    if codes.ndim == 2:
        always = np.asarray(truth.all(axis=0))
        values = [tree.tree_.value for tree in grown.estimators_]
        trees = [_of_labels(tree, value, always) for tree, value in zip(trees, values, strict=True)]
    roots = np.array([tree.counts[0] for tree in trees])
    bags = np.zeros((len(rows), count), dtype=bool)
    for t, drawn in enumerate(grown.estimators_samples_):
        bags[drawn, t] = True
    return flatten(trees, roots[0]), roots, bags, orders


def _of_labels(tree: Tree, value: np.ndarray, always: np.ndarray) -> Tree:
    """The tree with distributions of labels, from `value` (N, L, 2) and the labels that `always`
    (L,) apply.

    A label that does not vary has one column, the first. Inner nodes get the root's distribution:
    nobody stops there, and equal rows are stored once.
    """
    share = value[:, :, -1] if value.shape[2] > 1 else np.zeros(value.shape[:2])
    share = np.where(always, 1.0, share / value.sum(axis=2))
    counts = np.column_stack((share, np.maximum(share.shape[1] - share.sum(axis=1), 0.0)))
    return tree._replace(counts=np.where(tree.feature[:, None] < 0, counts, counts[0]))
