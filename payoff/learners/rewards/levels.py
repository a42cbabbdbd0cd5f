"""Models of each action's reward, with the answers of models that did not see the row."""

from typing import Any, NamedTuple

import numpy as np

from payoff.learners import loading
from payoff.learners.random_forest import RandomForest
from payoff.learners.rewards.log import RewardLog
from payoff.learners.rewards.model import (
    ByAction,
    Constant,
    MeanForest,
    Part,
    Scores,
)
from payoff.learners.rows import ALL, FoldedRows
from payoff.progress import part, report

_TREES = 50
_LEAF = 3  # rows of a leaf of the forest of an action
_ROUNDS = 100  # of boosting, at most
_STAGE = 5  # rounds after which it may end
_BOOSTING = {"learning_rate": 0.1, "min_samples_leaf": 10, "l2_regularization": 1.0}
_LEAVES = ((1500, 8), (10_000, 16))
_LARGE_LEAVES = 31
# Penalties of ridge regressions; with the last one the coefficients vanish.
_PENALTIES = np.append(np.logspace(-1, 6, 15), 1e12)


class Fitted(NamedTuple):
    """A part of the model, and its answers (n, A) by models that did not see the row."""

    part: Part
    unseen: np.ndarray


def levels(log: RewardLog) -> list[Fitted]:
    """A forest, a ridge regression and boosting for each action. O(rows features rounds)."""
    with part(0.0, 0.15, "forests"):
        fits = [_forests(log)]
    with part(0.15, 0.25, "ridge regressions"):
        fits.append(_ridges(log))
    with part(0.25, 1.0, "boosting"):
        fits.append(_boosts(log))
    return fits


def mean_forest(
    log: RewardLog, rows: np.ndarray, Y: np.ndarray, leaf: int
) -> tuple[MeanForest, np.ndarray]:
    """A forest of numbers Y (r,) or (r, d) in these rows of the log, and its unseen answers (r, d).

    A third of the features is tried for a split. Unseen is out of bag.
    """
    m = log.X.shape[1]
    forest = RandomForest(
        task="regression",
        n_estimators=_TREES,
        max_features=max(round(m / 3), 1),
        categorical_features=log.categorical,
        random_state=log.seed,
    )
    forest.n_features_in_ = m
    X, weights = log.X[rows], log.weights[rows]
    training = FoldedRows.in_no_fold(X, Y, weights)
    ((_, flat, bags),) = loading.compiled.forests.grow_forests(
        forest, training, [ALL], leaf
    )
    model = MeanForest.of(flat, bags, X, Y.reshape(len(Y), -1), weights)
    return model, model.unseen(X, bags)


def ridge(
    columns: Any, numbers: np.ndarray, weights: np.ndarray, *, centred: bool = True
) -> tuple[np.ndarray, float]:
    """Coefficients (width,) and intercept of a ridge regression, its penalty by leave-one-out.

    Not `centred` has no intercept.
    """
    model = loading.scikit.RidgeCV(alphas=_PENALTIES, fit_intercept=centred)
    model.fit(columns, numbers, sample_weight=weights)
    return model.coef_, float(model.intercept_)


def _forests(log: RewardLog) -> Fitted:
    forests = []
    unseen = np.empty(log.chances.shape)
    for action in range(log.action_count):
        rows = log.actions == action
        forest, out_of_bag = mean_forest(log, rows, log.rewards[rows], _LEAF)
        unseen[:, action] = forest.values(log.X)[:, 0]
        unseen[rows, action] = out_of_bag[:, 0]
        forests.append(forest)
        report((action + 1) / log.action_count)
    return Fitted(ByAction(forests), unseen)


def _ridges(log: RewardLog) -> Fitted:
    def fit(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (A, width) and intercepts (A,) of these rows."""
        models = []
        for action in range(log.action_count):
            inside = rows & (log.actions == action)
            numbers, weights = log.rewards[inside], log.weights[inside]
            models.append(ridge(log.columns[inside], numbers, weights))
        coefficients, intercepts = zip(*models, strict=True)
        return np.array(coefficients), np.array(intercepts)

    unseen = np.empty(log.chances.shape)
    for number in log.folds:
        outside = log.fold == number
        coef, intercept = fit(~outside)
        unseen[outside] = log.columns[outside] @ coef.T + intercept
    everywhere = np.ones(len(log.X), dtype=bool)
    return Fitted(Scores(log.design.fold(*fit(everywhere))), unseen)


def _boosts(log: RewardLog) -> Fitted:
    models = []
    unseen = np.empty(log.chances.shape)
    for action in range(log.action_count):
        low, high = action / log.action_count, (action + 1) / log.action_count
        with part(low, high):
            model, unseen[:, action] = _boost(log, action)
        models.append(model)
    return Fitted(ByAction(models), unseen)


def _boost(log: RewardLog, action: int) -> tuple[Any, np.ndarray]:
    """Boosting of an action's rewards, with the rounds of the least unseen squared error.

    No rounds are the mean, which also is the model of too few rows for a split.
    """
    rows = log.actions == action
    stages = np.empty((_ROUNDS // _STAGE + 1, len(log.X)))
    for number in log.folds:
        outside = log.fold == number
        inside = rows & ~outside
        stages[:, outside] = _mean(log, inside)
        if inside.sum() >= 2 * _BOOSTING["min_samples_leaf"]:
            model = _grown(log, inside, _ROUNDS)
            stages[1:, outside] = model.staged_values(log.X[outside], _STAGE)
    errors = np.square(stages[:, rows] - log.rewards[rows]) @ log.weights[rows]
    best = int(np.argmin(errors))
    if not best:
        return Constant(np.array([_mean(log, rows)])), stages[0]
    return _grown(log, rows, best * _STAGE), stages[best]


def _mean(log: RewardLog, rows: np.ndarray) -> float:
    return float(np.average(log.rewards[rows], weights=log.weights[rows]))


def _grown(log: RewardLog, rows: np.ndarray, rounds: int) -> Any:
    """The boosted trees of these rows."""
    count = int(rows.sum())
    leaves = next((size for limit, size in _LEAVES if count <= limit), _LARGE_LEAVES)
    parameters = {**_BOOSTING, "max_leaf_nodes": leaves, "random_state": log.seed}
    (model,) = loading.scikit.boosted_trees.grow(
        parameters,
        log.categorical,
        np.ascontiguousarray(log.X[rows]),
        log.rewards[rows],
        log.weights[rows],
        [rounds],
    )
    return model
