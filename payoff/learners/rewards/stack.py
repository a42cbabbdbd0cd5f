"""One stack of models of each action and of contrasts between actions, all weights at least 0.

Models of each action suit bandits, regularised contrasts suit small effects beside a large level:
the stack, fitted on answers that did not see the row, finds out. Weights of inverse chances were
worse, and so was choosing one part.
"""

import numpy as np

from payoff.learners import loading
from payoff.learners.rewards.levels import Fitted, levels, mean_forest, ridge
from payoff.learners.rewards.log import RewardLog
from payoff.learners.rewards.model import Constant, RewardModel, Scores
from payoff.progress import part

_CONSTANT = 3  # the place of the constant contrast among the parts
_PSEUDO_ROWS = 5  # without a contrast, for each action
_LEAST_CHANCE = 0.01  # of doubly robust rewards: smaller ones count as this
_LEAF = 5  # rows of a leaf of the doubly robust forest
# rows times actions times columns of the regression of contrasts
_MAX_CELLS = 50_000_000


def fit(log: RewardLog) -> RewardModel:
    """The model of a log. Deterministic in its seed."""
    with part(0.0, 0.8):
        parts = levels(log)
    mean = float(np.average(log.rewards, weights=log.weights))
    rows = np.arange(len(log.X))
    answers = np.array([fitted.unseen for fitted in parts])
    centred = answers - mean
    of_level = non_negative(
        centred[:, rows, log.actions].T, log.rewards - mean, log.weights
    )
    level = mean + np.tensordot(of_level, centred, axes=1)
    residuals = log.rewards - (log.chances * level).sum(axis=1)
    robust = doubly_robust(log, level)
    with part(0.8, 1.0, "contrasts"):
        constant = _constant(log, residuals)
        parts += [constant, _regression(log, residuals), _forest(log, robust)]
    answers = np.array([fitted.unseen for fitted in parts])
    of_contrast = contrast_weights(log, answers, residuals, robust)
    shares = np.bincount(log.actions, log.weights) / log.weights.sum()
    return RewardModel(
        tuple(fitted.part for fitted in parts),
        mean,
        np.append(of_level, np.zeros(3)),
        of_contrast,
        shares,
    )


def non_negative(
    columns: np.ndarray, numbers: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The weights (k,), at least 0, of columns (n, k) with the least squared error."""
    root = np.sqrt(weights)
    solution, _ = loading.scikit.nnls(columns * root[:, None], numbers * root)
    return np.asarray(solution)


def contrast_weights(
    log: RewardLog, answers: np.ndarray, residuals: np.ndarray, robust: np.ndarray
) -> np.ndarray:
    """The weights (6,) of the contrasts in answers (6, n, A), of which the fourth is constant.

    They explain the residuals (n,) by what the action has more than was to be expected. The guard:
    where the chosen actions do not gain over the best constant contrast by the doubly robust
    rewards (n, A), the constant one alone counts.
    """
    rows = np.arange(len(residuals))
    averages = np.einsum("kna,na->kn", answers, log.chances)
    surprises = (answers[:, rows, log.actions] - averages).T
    weights = non_negative(surprises, residuals, log.weights)
    chosen = np.tensordot(weights, answers, axes=1).argmax(axis=1)
    single = answers[_CONSTANT].argmax(axis=1)
    gain = log.weights @ (robust[rows, chosen] - robust[rows, single])
    if gain <= 0 or not weights.any():
        weights = (np.arange(len(answers)) == _CONSTANT).astype(np.float64)
    return weights


def doubly_robust(log: RewardLog, level: np.ndarray) -> np.ndarray:
    """Each row's rewards (n, A) by the level (n, A), and its error where the action was taken."""
    rows = np.arange(len(log.X))
    robust = level.copy()
    errors = log.rewards - level[rows, log.actions]
    chances = np.maximum(log.chances[rows, log.actions], _LEAST_CHANCE)
    robust[rows, log.actions] += errors / chances
    return robust


def _constant(log: RewardLog, residuals: np.ndarray) -> Fitted:
    """Each action's mean residual, with some rows of 0 added."""

    def means(rows: np.ndarray) -> np.ndarray:
        weights = log.weights[rows]
        total = np.bincount(
            log.actions[rows], weights * residuals[rows], log.action_count
        )
        counts = np.bincount(log.actions[rows], weights, log.action_count)
        return total / (counts + _PSEUDO_ROWS)

    unseen = np.empty(log.chances.shape)
    for number in log.folds:
        unseen[log.fold == number] = means(log.fold != number)
    return Fitted(Constant(means(np.ones(len(log.X), dtype=bool))), unseen)


def _regression(log: RewardLog, residuals: np.ndarray) -> Fitted:
    """Linear contrasts: residuals on the columns of the action less those that were to be expected.

    Robinson's regression (Nie and Wager 2021) for several actions. Without a contrast where its
    table would be too large.
    """
    n, actions = log.chances.shape
    width = log.design.width + 1
    if n * actions * width > _MAX_CELLS:
        nothing = np.zeros(log.chances.shape)
        return Fitted(Constant(np.zeros(actions)), nothing)
    columns = np.column_stack((np.ones(n), log.design.dense(log.X)))
    surprise = (log.actions[:, None] == np.arange(actions)) - log.chances
    products = (surprise[:, :, None] * columns[:, None]).reshape(n, -1)

    def coefficients(rows: np.ndarray) -> np.ndarray:
        coef, _ = ridge(
            products[rows], residuals[rows], log.weights[rows], centred=False
        )
        return coef.reshape(actions, width)

    unseen = np.empty(log.chances.shape)
    for number in log.folds:
        outside = log.fold == number
        unseen[outside] = columns[outside] @ coefficients(~outside).T
    coef = coefficients(np.ones(n, dtype=bool))
    return Fitted(Scores(log.design.fold(coef[:, 1:], coef[:, 0])), unseen)


def _forest(log: RewardLog, robust: np.ndarray) -> Fitted:
    """One forest of the contrasts of doubly robust rewards (n, A)."""
    contrasts = robust - robust.mean(axis=1, keepdims=True)
    everywhere = np.ones(len(log.X), dtype=bool)
    forest, unseen = mean_forest(log, everywhere, contrasts, _LEAF)
    return Fitted(forest, unseen)
