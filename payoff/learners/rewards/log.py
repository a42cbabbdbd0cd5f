"""The rows of a log of rewards, and the chances of their actions where it does not state them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from payoff.decisions.folds import Blocks, stratified_folds
from payoff.errors import Invalid
from payoff.learners import loading
from payoff.learners.design import Design
from payoff.learners.unseen import unseen

MIN_ROWS_OF_ACTION = 10
"""Rows of an action that may be chosen."""
_FOLDS = 4
_MIN_ROWS_OUTSIDE = 5  # of each action and fold
_LEAST = 0.001  # chance of an action that is estimated
_PENALTY = 1.0  # C of the logistic regression


class EligibleLog(NamedTuple):
    """The names of the actions that may be chosen (A,), and the `rows` (n,) that took one of them.

    Of these rows: codes of their actions, folds, and the chances of all actions (rows, A).
    """

    names: np.ndarray
    rows: np.ndarray
    actions: np.ndarray
    fold: np.ndarray
    chances: np.ndarray


@dataclass(frozen=True, eq=False)
class RewardLog:
    """Rows to learn from: X (n, m), codes of actions, rewards, weights and folds (n,).

    `chances` (n, A) are those of each action. `categorical` are the columns of category codes,
    `seed` decides what is drawn.
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


def complete(
    X: np.ndarray,
    names: np.ndarray,
    stated: np.ndarray | None,
    weights: np.ndarray,
    categorical: Sequence[int],
    seed: int,
    blocks: Blocks | None = None,
) -> EligibleLog:
    """What may be learned from rows (n, m) with the `names` of their actions (n,), weights (n,).

    `stated` are the chances of all actions (n, A), in the order of their sorted names, or those of
    the actions that were taken (n,), or None: what is missing is estimated. Raises Invalid at
    /actions for fewer than two actions with `MIN_ROWS_OF_ACTION` rows.
    """
    names, codes, counts = np.unique(names, return_inverse=True, return_counts=True)
    eligible = np.flatnonzero(counts >= MIN_ROWS_OF_ACTION)
    if len(eligible) < 2:
        raise Invalid.at(
            "/actions",
            f"{len(eligible)} of {len(names)} actions have {MIN_ROWS_OF_ACTION} rows or more;"
            " learning from rewards needs two",
        )
    rows = np.isin(codes, eligible)
    codes = np.searchsorted(eligible, codes[rows])
    fold = _folds(codes, seed, None if blocks is None else blocks.take(rows))
    if stated is not None and stated.ndim == 2:
        kept = stated[rows][:, eligible]
        chances = kept / kept.sum(axis=1, keepdims=True)
        return EligibleLog(names[eligible], rows, codes, fold, chances)
    design = Design.fit(X[rows], weights[rows], categorical, "clip")
    columns = design.matrix(X[rows])
    chances = estimated(columns, codes, weights[rows], fold)
    if stated is not None:
        # Given that the action is an eligible one, which a share of the rows has.
        chances = with_taken(
            chances, codes, np.minimum(stated[rows] / rows.mean(), 1.0)
        )
    return EligibleLog(names[eligible], rows, codes, fold, chances)


def _folds(codes: np.ndarray, seed: int, blocks: Blocks | None) -> np.ndarray:
    """The fold (n,) of each row by its action and blocks; at random where these leave too few rows
    of an action outside of a fold.
    """
    fold = stratified_folds(codes, _FOLDS, seed, blocks)
    counts = np.bincount(codes)
    outside = [
        counts - np.bincount(codes[fold == number], minlength=len(counts))
        for number in range(int(fold.max()) + 1)
    ]
    if fold.min() >= 0 and len(outside) > 1 and np.min(outside) >= _MIN_ROWS_OUTSIDE:
        return fold
    return stratified_folds(codes, _FOLDS, seed)


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
