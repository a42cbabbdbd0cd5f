"""The learner of rewards: which action earns most, from the rewards of those that were taken."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field

from payoff.decisions.folds import Blocks
from payoff.errors import MAX_NAME, Invalid, pointer, unknown
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.rewards.log import RewardLog, complete
from payoff.probabilities import are_shares

LEAST_CHANCE = 1e-30  # of an action that was taken: squares of 1 / chance are finite
_LARGEST_REWARD = 1e30  # squares of sums stay finite in single precision


class Rewards(Learner):
    """The expected reward of each action, learned from a log that has only the reward of the action
    that was taken; it decides without a benefit matrix.

    One stack of models of each action (forest, ridge, boosting) and of contrasts between actions
    (constant, linear, doubly robust forest), with weights of at least 0; where its contrasts do not
    gain over one action for all, these are constant. Actions with fewer than 10 rows are left out.

    Fitted, besides `Learner`'s: `classes_` are the actions that may be chosen, `posterior` their
    expected rewards (n, A); `estimated_` is whether the chances of the log were estimated.
    """

    name: ClassVar = "rewards"
    labels: ClassVar = "reward"
    action: Annotated[
        str, Field(max_length=MAX_NAME), "The column of the action that was taken."
    ] = "action"
    propensity: Annotated[
        Annotated[str, Field(max_length=MAX_NAME)] | None,
        "The column of the chance that this action had, or the beginning of those of all actions"
        " (`p` of `p:call`); null: chances are estimated, which is right only if the features have"
        " everything that decided the action.",
    ] = None
    baseline: Annotated[
        Annotated[str, Field(max_length=MAX_NAME)] | None,
        "The action of doing nothing, such as `none`: the card has uplift curves over it.",
    ] = None

    def fit(  # type: ignore[override]  # rewards say nothing without their actions
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
        *,
        actions: Sequence[Any],
        propensities: np.ndarray | None = None,
    ) -> Self:
        """Fit on rows (n, m), NaN where missing, rewards (n,) and the names of actions (n,).

        `propensities` are the chances of the actions that were taken (n,), or of all actions (n, A)
        in the order of their sorted names; without them they are estimated, which is right only if
        the features have everything that decided the action. Inner folds follow `blocks` where
        these leave rows of every action. Raises Invalid at /actions for fewer
        than two actions with 10 rows, at /rewards and /propensities for wrong numbers. Time: per
        action six fits of boosting, of at most 100 rounds each.
        """
        check_rewards(np.asarray(y))
        names = np.asarray(actions)
        chances = None
        if propensities is not None:
            chances = np.asarray(propensities, dtype=np.float64)
            check_chances(chances)
        if sample_weight is not None:
            weighty = np.asarray(sample_weight) > 0
            names = names[weighty]
            chances = None if chances is None else chances[weighty]
            blocks = None if blocks is None else blocks.take(weighty)
        X, rewards, weights = loading.scikit.checked(
            self, X, y, sample_weight, y_numeric=True
        )
        seed = self._seed()
        categorical = self.categorical()
        eligible = complete(X, names, chances, weights, categorical, seed, blocks)
        self.classes_ = eligible.names
        self.estimated_ = chances is None
        rows = eligible.rows
        log = RewardLog(
            np.ascontiguousarray(X[rows]),
            eligible.actions,
            rewards[rows],
            weights[rows],
            eligible.fold,
            eligible.chances,
            categorical,
            seed,
        )
        self.model_ = loading.compiled.rewards.fit(log)
        self._keep_background(log.X, log.weights)
        return self

    def complete_posterior(self, X: np.ndarray) -> np.ndarray:
        """Expected rewards (n, A) in the order of `classes_`: what decisions take without a matrix.

        For float64 C-contiguous rows (n, m), NaN where missing; checks nothing.
        """
        return np.asarray(self.model_.expected(X))

    def findings(self, _names: Sequence[str]) -> dict[str, Any]:
        """Where chances come from, and the weights of the parts in the level and the contrasts."""
        model = self.model_
        names = ("forest", "ridge", "boosting", "constant", "linear", "robust_forest")
        return {
            "chances": "estimated" if self.estimated_ else "stated",
            "levels": dict(zip(names[:3], model.levels.tolist(), strict=False)),
            "contrasts": dict(zip(names, model.contrasts.tolist(), strict=True)),
        }

    def uplift(self, X: np.ndarray, baseline: Any) -> np.ndarray:
        """What each action is expected to earn more than the `baseline`, (n, A), for rows (n, m).

        Raises Invalid at /baseline for an action that may not be chosen.
        """
        names = self.classes_.tolist()
        if baseline not in names:
            raise Invalid.at("/baseline", unknown("action", baseline, names))
        expected = self.posterior(self._validated(X))
        return expected - expected[:, [names.index(baseline)]]


def check_rewards(rewards: np.ndarray) -> None:
    """Raise Invalid at the first reward that is not finite, or too large."""
    wrong = np.flatnonzero(~(np.abs(rewards) <= _LARGEST_REWARD))
    if len(wrong):
        message = (
            f"a reward is a finite number of at most {_LARGEST_REWARD:.0g} in magnitude"
        )
        raise Invalid.at(pointer("rewards", wrong[0]), message)


def check_chances(chances: np.ndarray) -> None:
    """Raise Invalid at the first row whose chances (n,), or (n, A), cannot be right."""
    if chances.ndim == 1:
        wrong = ~((chances >= LEAST_CHANCE) & (chances <= 1))
        message = (
            f"the chance of the action that was taken is above 0 (at least {LEAST_CHANCE:g}) and at"
            " most 1"
        )
    else:
        wrong = ~((chances >= 0).all(axis=1) & are_shares(chances))
        message = "the chances of all actions are at least 0 and sum to 1"
    if wrong.any():
        raise Invalid.at(pointer("propensities", np.flatnonzero(wrong)[0]), message)
