"""The rows of a log of rewards, and the chances of their actions where it does not state them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from payoff.learners import loading
from payoff.learners.design import Design
from payoff.learners.unseen import unseen

_LEAST = 0.001  # chance of an action that is estimated
_PENALTY = 1.0  # C of the logistic regression


@dataclass(frozen=True, eq=False)
class RewardLog:
    """Rows to learn from: X (n, m), codes of actions, rewards, weights and folds (n,).

    `chances` (n, A) are those of each action, once `completed`. `categorical` are the columns of
    category codes, `seed` decides what is drawn.
    """

    X: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    weights: np.ndarray
    fold: np.ndarray
    chances: np.ndarray
    categorical: Sequence[int]
    seed: int

    @property
    def action_count(self) -> int:
        """The number of actions, A."""
        return self.chances.shape[1]

    @property
    def folds(self) -> range:
        """The numbers of the folds."""
        return range(int(self.fold.max()) + 1)

    @cached_property
    def design(self) -> Design:
        """The preparation of rows for linear models: it sees no reward."""
        return Design.fit(self.X, self.weights, self.categorical, "clip")

    @cached_property
    def columns(self) -> Any:
        """The rows (n, width) by `design`, sparse where that takes less memory."""
        return self.design.matrix(self.X)

    def completed(self, stated: np.ndarray | None) -> Self:
        """With the chances of all actions.

        `stated` are those of all actions (n, A), of the taken ones (n,) or None: what is missing is
        estimated.
        """
        if stated is not None and stated.ndim == 2:
            return replace(self, chances=stated)
        P = estimated(self.columns, self.actions, self.weights, self.fold)
        if stated is not None:
            P = with_taken(P, self.actions, stated)
        return replace(self, chances=P)


def estimated(
    columns: np.ndarray, actions: np.ndarray, weights: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """Chances (n, A) by cross-fitted logistic regression on columns (n, width), at least .001.

    `actions` (n,) are codes, each of which occurs outside each `fold` (n,). Right only if the
    columns have everything that decided the action.
    """

    def fit_and_predict(_: int, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        model, _ = loading.scikit.fit_linear(
            columns[inside], actions[inside], weights[inside], _PENALTY
        )
        return np.asarray(model.predict_proba(columns[outside]))

    P = np.maximum(unseen(fold, int(actions.max()) + 1, fit_and_predict), _LEAST)
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def with_taken(P: np.ndarray, actions: np.ndarray, stated: np.ndarray) -> np.ndarray:
    """Chances P (n, A) with the `stated` one (n,) of the taken action; the rest is rescaled."""
    was_taken = actions[:, None] == np.arange(P.shape[1])
    remaining = np.where(was_taken, 0.0, P)
    remaining *= ((1 - stated) / np.maximum(remaining.sum(axis=1), 1e-300))[:, None]
    return np.where(was_taken, stated[:, None], remaining)
