"""Grow scikit-learn's random forest, for one label or several, and make it flat."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from payoff.acquisition.forest import FlatForest, Orders, order_categories
from payoff.acquisition.nodes import Nodes, Tree, beside, converted, flatten
from payoff.decisions.folds import stratified_folds
from payoff.errors import Invalid
from payoff.learners.rows import ALL, FoldedRows, check_sizes, stage_name
from payoff.learners.unseen import log_losses
from payoff.progress import report

_CELLS = 8_000_000  # cells of the table, times trees, in a piece of work: about a third of a second
_MAX_BATCH = 16  # trees between two reports of progress

_FOLDS_OF_LEAF = 3


class _Forest(NamedTuple):
    """A forest of all rows but those of one fold; `n_classes` is 1 for numbers."""

    model: RandomForestClassifier | RandomForestRegressor
    n_classes: int
    categorical: Sequence[int]
    without: int


def forest_like(learner: Any) -> RandomForestClassifier | RandomForestRegressor:
    """scikit-learn's forest, not fitted, with a learner's parameters but the sizes.

    Runs in one thread. Invalid where the parameters do not fit the learner's data.
    """
    max_features = learner.max_features
    m = learner.n_features_in_
    if isinstance(max_features, int | np.integer) and max_features > m:
        raise Invalid.at(
            "/max_features", f"max_features is {max_features} of {m} features"
        )
    if max_features == "auto":
        max_features = None if learner.regresses else "sqrt"
    kind = RandomForestRegressor if learner.regresses else RandomForestClassifier
    return kind(
        max_features=max_features,
        random_state=learner.random_state,
        warm_start=True,
        n_jobs=1,
    )


def grow_forests(
    learner: Any,
    rows: FoldedRows,
    folds: Sequence[int],
    min_samples_leaf: int,
    trees: int | None = None,
) -> Iterator[tuple[int, FlatForest, np.ndarray]]:
    """Each fold, a learner's forest without it, and the rows (n, T) that its trees grew from.

    `rows.codes` are class codes (n,), labels (n, L) of 0 and 1, or numbers (n,). For labels the
    forest's distribution has L + 1 entries: the probability of each label, and what their sum lacks
    to L, all divided by L; of numbers, also of several (n, d), it has 1. `trees` are T, else the
    learner's. A piece of work is some trees of one forest.
    """
    n_classes = 1 if learner.regresses else len(learner.classes_)
    categorical = learner.categorical()
    rows = rows._replace(X=_narrow(rows.X))
    size = trees or learner.n_estimators
    batch = int(np.clip(_CELLS // max(rows.X.size, 1), 1, _MAX_BATCH))
    starts = range(0, size, batch)
    forests = []
    for fold in folds:
        model = forest_like(learner.seeded()).set_params(
            min_samples_leaf=min_samples_leaf
        )
        forests.append(_Forest(model, n_classes, categorical, fold))
    grown = Parallel(prefer="threads", return_as="generator")(
        delayed(_grow_trees)(forest, *rows, start, min(batch, size - start))
        for forest in forests
        for start in starts
    )
    done = 0
    count = len([fold for fold in folds if fold != ALL])
    for number, fold in enumerate(folds):
        stage = stage_name(number, count) if count else "growing trees"
        parts, roots, bags = [], [], []
        orders = Orders()
        # All pieces of a forest have the same order of categories.
        for nodes, distributions, bag, orders in islice(grown, len(starts)):  # noqa: B007
            parts.append(nodes)
            roots.append(distributions)
            bags.append(bag)
            done += len(distributions)
            report(done / (size * len(folds)), stage)
        prior = np.concatenate(roots).mean(axis=0)
        flat = FlatForest(beside(parts, prior / prior.sum()), rows.X.shape[1], orders)
        yield fold, flat, np.hstack(bags)


def best_leaf(
    learner: Any,
    leaves: Sequence[int],
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    trees: int,
) -> int:
    """Of `leaves` the `min_samples_leaf` of the forest with the least log loss out of bag.

    Ties go to the first. A share of 0 counts as one row in n + 2 would. Time: a forest of so many
    `trees` for each. With blocks, whose rows are in nearly every bag, three forests for each, and
    the rows that these did not see.
    """
    if learner.blocks is not None:
        fold = stratified_folds(codes, _FOLDS_OF_LEAF, 0, learner.blocks)
        folded = FoldedRows(X, codes, weights, fold.astype(np.int8))
        return min(leaves, key=lambda leaf: _unseen_loss(learner, leaf, folded, trees))
    rows = _narrow(X)
    model = forest_like(learner.seeded())
    orders = order_categories(
        rows, codes, weights, len(learner.classes_), learner.categorical()
    )
    X = orders.apply(rows)
    model.set_params(n_estimators=trees, oob_score=True, warm_start=False)
    losses = Parallel(prefer="threads")(
        delayed(_out_of_bag)(model, leaf, X, codes, weights) for leaf in leaves
    )
    return leaves[int(np.argmin(losses))]


def _out_of_bag(
    model: RandomForestClassifier,
    leaf: int,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
) -> float:
    """The log loss of a forest with this size of leaves, of the rows that are out of some bag."""
    grown = clone(model).set_params(min_samples_leaf=leaf)
    # It warns where rows are in the bags of all trees, as happens with few trees.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        grown.fit(X, codes, sample_weight=_sample_weight(weights))
    rows = np.isfinite(grown.oob_decision_function_).all(axis=1)
    P = np.maximum(grown.oob_decision_function_[rows], 1 / (len(X) + 2))
    return float(weights[rows] @ log_losses(P, codes[rows]))


def _unseen_loss(learner: Any, leaf: int, rows: FoldedRows, trees: int) -> float:
    """The log loss of forests with this size of leaves, of the rows of the folds they lack."""
    P = np.ones((len(rows.X), len(learner.classes_)))
    numbers = range(int(rows.fold.max()) + 1)
    for number, forest, _ in grow_forests(learner, rows, numbers, leaf, trees):
        P[rows.fold == number] = forest.posterior(
            np.ascontiguousarray(rows.only(number))
        )
    P = np.maximum(P, 1 / (len(rows.X) + 2))
    return float(rows.weights @ log_losses(P, rows.codes))


def _narrow(X: np.ndarray) -> np.ndarray:
    """Rows in the single precision of scikit-learn's trees; Invalid for too large numbers."""
    check_sizes(X, range(X.shape[1]))
    return X.astype(np.float32)


def _sample_weight(weights: np.ndarray) -> np.ndarray | None:
    """The weights, or None where they are equal.

    scikit-learn draws its rows in another way once there are weights.
    """
    return None if (weights == weights[0]).all() else weights


def _grow_trees(
    forest: _Forest,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    fold: np.ndarray,
    start: int,
    count: int,
) -> tuple[Nodes, np.ndarray, np.ndarray, Orders]:
    """`count` trees of a forest, from number `start`.

    Returns them flat, the distributions at their roots (count, K), whether they grew from each of
    these rows (n, count), and the order of the categories.
    """
    rows, truth, weight = FoldedRows(X, codes, weights, fold).without(forest.without)
    numbers = truth.dtype.kind == "f"
    ranked = truth
    if numbers:
        standard = (truth - truth.mean(axis=0)) / (truth.std() or 1.0)
        ranked = standard.reshape(len(truth), -1)
    outputs = ranked.shape[1] if numbers else forest.n_classes
    orders = order_categories(rows, ranked, weight, outputs, forest.categorical)
    grown = clone(forest.model).set_params(n_estimators=start + count)
    # A warm start skips the trees that exist, and their seeds.
    grown.estimators_ = [None] * start
    target = truth.ravel() if outputs == 1 else truth
    grown.fit(orders.apply(rows), target, sample_weight=_sample_weight(weight))
    grown.estimators_ = grown.estimators_[start:]
    trees = [converted(tree.tree_) for tree in grown.estimators_]
    if numbers:
        trees = [
            tree._replace(counts=np.ones((len(tree.feature), 1))) for tree in trees
        ]
    elif codes.ndim == 2:
        always = np.asarray(truth.all(axis=0))
        values = [tree.tree_.value for tree in grown.estimators_]
        trees = [
            _of_labels(tree, value, always)
            for tree, value in zip(trees, values, strict=True)
        ]
    roots = np.array([tree.counts[0] for tree in trees])
    bags = np.zeros((len(rows), count), dtype=bool)
    for t, drawn in enumerate(grown.estimators_samples_):
        bags[drawn, t] = True
    return flatten(trees, roots[0]), roots, bags, orders


def _of_labels(tree: Tree, value: np.ndarray, always: np.ndarray) -> Tree:
    """The tree with distributions of labels, from `value` (N, L, 2) and the labels that `always`
    (L,) apply.

    A label that does not vary has one column, the first. Inner nodes get the root's distribution:
    no row ends there, and equal distributions are stored once.
    """
    share = value[:, :, -1] if value.shape[2] > 1 else np.zeros(value.shape[:2])
    share = np.where(always, 1.0, share / value.sum(axis=2))
    counts = np.column_stack(
        (share, np.maximum(share.shape[1] - share.sum(axis=1), 0.0))
    )
    return tree._replace(counts=np.where(tree.feature[:, None] < 0, counts, counts[0]))
