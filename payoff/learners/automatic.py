"""The sensible learners compared by what they earn on rows that they did not see; the best of them answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field

from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.folds import UNJUDGED, stratified_folds
from payoff.errors import Invalid
from payoff.learners import loading
from payoff.learners.base import FoldedRows, Learner
from payoff.learners.budget_forest import BudgetForest
from payoff.learners.cost_naive_bayes import CostNaiveBayes
from payoff.learners.forest_chain import ForestChain
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic
from payoff.learners.parameters import Task
from payoff.learners.random_forest import FreeForest, RandomForest
from payoff.learners.stepwise import Stepwise, drawn, prices_of, while_worth
from payoff.learners.unseen import log_losses, mean_and_error, near_best, unseen
from payoff.progress import part
from payoff.stored import Stored

_FOLDS = 3
_OVER = "max_seconds were over"
_BREAKDOWNS = (
    Invalid,
    np.linalg.LinAlgError,
    ArithmeticError,
)  # what a learner cannot do with some rows


CANDIDATES: dict[type[Learner], float] = {
    CostNaiveBayes: 1e-6,
    Logistic: 2e-6,
    RandomForest: 2e-5,
    GradientBoosting: 2e-5,
    KernelLogistic: 3e-5,
}
"""In the order in which they are tried, the quick ones first: the seconds of work for each number of the table and fit,
an estimate, so that a busy machine tries what an idle one does.
"""
REGRESSORS: dict[type[Learner], float] = {RandomForest: 2e-5, GradientBoosting: 4e-5}
"""The same where labels are numbers."""
PRICED_CANDIDATES: dict[str, tuple[Learner, float]] = {
    one.name: (one, seconds)
    for one, seconds in (
        (ForestChain(), 6e-5),
        (RandomForest(n_estimators=40, max_features=None), 6e-5),
        (BudgetForest(), 4e-5),
        (FreeForest(n_estimators=40), 3e-5),
    )
}
"""The same where features have prices. Of those that are not worse than the best the first is taken: the chain, which
was the best, or as good, in nearly all cells of benchmarks/acquisition.md.
"""
PRICED_NUMBERS = 100_000
"""The size of the table, in numbers, that is enough to compare these: they take seconds for each fit."""
_KERNEL_ROWS = 3000
"""Rows above which the kernel of all rows is cut to landmarks, and time grows with every class."""


@dataclass(frozen=True)
class Tried(Stored):
    """What a candidate earned: `score` and its standard error per row, or None with the `reason`."""

    kind: str
    score: float | None
    standard_error: float | None
    reason: str | None = None


class Automatic(Learner):
    """The best of naive Bayes, logistic regression, random forest, gradient boosting and kernel logistic regression, by
    cross-validation: with benefits by what their decisions earn, else by log loss. Of numbers the better of random
    forest and gradient boosting, by squared error. With `feature_costs` the best of a forest chain, a random forest, a
    budget forest, and a forest of the free features alone, which answer `/acquire`, by what they earn less the price of
    what they ask for. The card has the table.

    There are three folds. The score is the mean realised benefit of the decisions with `benefits` (K, A), or (n, K, A)
    for the rows that `fit` gets, and without them minus the log loss. A candidate that is not worse than the best by a
    standard error of their paired difference and has the smaller log loss is preferred: benefits of few rows are noisy.
    After `max_seconds` of work, estimated from the size of the table and the same on every machine, no further
    candidate is begun; the first has no limit, nor has the final fit. A candidate that refuses the rows or breaks down
    on them is left out; where none is left, the first error is raised. Fitted: `chosen_` (a kind), `tried_` (`Tried`,
    one per candidate), and `model_`, the winner fitted on all rows.

    With `feature_costs` (Prices, or one price >= 0 for each column), every candidate asks each unseen row for one
    feature after the other, with benefits as long as that is worth its price, and pays for them. Of those that are not
    worse than the best the chain is preferred with benefits, and without them what asks for the cheapest features. At
    most 100,000 numbers of the table are compared.
    """

    name: ClassVar = "auto"
    tasks: ClassVar = ("classification", "regression")

    task: Task = None
    max_seconds: Annotated[
        float,
        Field(gt=0, le=1e6),
        "Seconds of work, estimated from the size of the table, after which no further candidate is tried; the first is"
        " always tried. `warnings` of the job name the others.",
    ] = 60.0
    benefits: np.ndarray | Sequence[Sequence[float]] | None = None
    feature_costs: Prices | Sequence[float] | None = None

    any_actions: ClassVar = True
    by_case: ClassVar = True
    model_: Learner = field(init=False, repr=False)
    prices_: Prices | None = field(default=None, init=False, repr=False)

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit the chosen learner again; nothing is compared."""
        self.model_.refit(X, y if self.regresses else np.searchsorted(self.classes_, y))
        return self

    @property
    def asker(self) -> Learner:
        """The chosen learner."""
        return self.model_

    @property
    def acquires(self) -> bool:
        """Whether it was chosen to ask for features that have prices."""
        return self.prices_ is not None and self.model_.acquires

    def ranks(self) -> bool:
        """Whether those of the chosen learner do."""
        return self.model_.ranks()

    def untried(self) -> list[str]:
        """The candidates that were not tried for lack of time."""
        return [one.kind for one in self.tried_ if one.reason == _OVER]

    def findings(self, names: Sequence[str]) -> dict[str, Any]:
        """The comparison, and the calibration and findings of the winner, ready for JSON."""
        candidates = [vars(one) for one in self.tried_]
        calibration = {} if self.regresses else {"calibration": self.model_.calibration_}
        return {
            **calibration,
            **self.model_.findings(names),
            "chosen": self.chosen_,
            "candidates": candidates,
        }

    def _check(self) -> None:
        if self.feature_costs is not None and not self.regresses:
            self.prices_ = prices_of(self.feature_costs, self.n_features_in_)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Learner:
        rows = self._compared_rows(X, codes)
        strata = np.zeros(len(X), dtype=np.intp) if self.regresses else codes[rows]
        fold = stratified_folds(strata, _FOLDS, 0)
        dealt = FoldedRows(X[rows], codes[rows], weights[rows], fold)
        benefits = None
        if self.benefits is not None:
            benefits = np.asarray(self.benefits, dtype=np.float64)
            benefits = benefits if benefits.ndim == 2 else benefits[rows]
        able = self._able(len(X))
        self.chosen_ = self._compare(able, dealt, benefits)
        with part(0.8, 1.0, f"fitting {self.chosen_}"):
            return self._fitted(able[self.chosen_][0], X, codes, weights)

    def _compared_rows(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray | slice:
        """The rows of a comparison: all, or with prices some of a large table."""
        if self.prices_ is None:
            return slice(None)
        random = loading.scikit.check_random_state(0)
        return drawn(np.arange(len(X)), codes, PRICED_NUMBERS // X.shape[1], random)

    def _able(self, n: int) -> dict[str, tuple[Learner, float]]:
        """The candidates for n rows."""
        if self.prices_ is not None:
            return PRICED_CANDIDATES
        return {
            kind.name: (kind(), seconds)
            for kind, seconds in (REGRESSORS if self.regresses else CANDIDATES).items()
            if kind is not KernelLogistic or n <= _KERNEL_ROWS
        }

    def _compare(
        self,
        able: Mapping[str, tuple[Learner, float]],
        dealt: FoldedRows,
        benefits: np.ndarray | None,
    ) -> str:
        """The name of the best candidate; `tried_` has all of them."""
        judged = dealt.fold != UNJUDGED
        work, fits = 0.0, len(np.unique(dealt.fold[judged]))
        values: dict[str, np.ndarray] = {}
        preferences: dict[str, np.ndarray] = {}
        errors: list[Exception] = []
        self.tried_ = []
        for number, (name, (learner, seconds)) in enumerate(able.items()):
            if not judged.any() or (values and work > self.max_seconds):
                reason = _OVER if judged.any() else "no class has two rows"
                self.tried_.append(Tried(name, None, None, reason))
                continue
            work += seconds * dealt.X.size * fits
            try:
                with part(
                    0.8 * number / len(able), 0.8 * (number + 1) / len(able), f"trying {name}"
                ):
                    P, paid = self._unseen(learner, dealt, benefits)
            except _BREAKDOWNS as error:
                errors.append(error)
                self.tried_.append(Tried(name, None, None, str(error)))
                continue
            gains, preference = self._judged(P, paid, dealt, benefits)
            values[name], preferences[name] = gains[judged], preference[judged]
            self.tried_.append(Tried(name, *mean_and_error(values[name], dealt.weights[judged])))
        if errors and not values:
            raise errors[0]
        if not values:
            return "logistic" if self.prices_ is None else ForestChain.name
        return best_of(values, preferences, dealt.weights[judged])

    def _judged(
        self, P: np.ndarray, paid: np.ndarray, dealt: FoldedRows, benefits: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What each row's answer earns (n,), and what tells candidates apart that are not worse than the best."""
        if self.regresses:
            squares = np.square(dealt.codes - P[:, 0])
            return -squares, squares
        losses = log_losses(P, dealt.codes)
        gains = -losses
        if benefits is not None:
            gains = row_benefits(dealt.codes, decide(P, benefits).choice, benefits) - paid
        if self.prices_ is None:
            return gains, losses
        return gains, paid if benefits is None else np.zeros(len(paid))

    def _fitted(
        self, learner: Learner, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> Learner:
        shared: dict[str, Any] = {
            "categorical_features": self.categorical_features,
            "random_state": self.random_state,
        }
        if self.regresses:
            shared["task"] = "regression"
        if "feature_costs" in learner.get_params():
            shared["feature_costs"] = self.prices_
        fitted = replace(learner, **shared).fit(X, codes, weights)
        if self.prices_ is not None and isinstance(fitted, Stepwise):
            fitted.learn_stops(X, codes, self.prices_)
        return fitted

    def _unseen(
        self, learner: Learner, dealt: FoldedRows, benefits: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Each row's probabilities (n, K), or number (n, 1), from a candidate that did not see it, and what it pays."""
        K = 1 if self.regresses else len(self.classes_)
        mean = benefits if benefits is None or benefits.ndim == 2 else benefits.mean(axis=0)

        def answered(number: int, _: np.ndarray, outside: np.ndarray) -> np.ndarray:
            with part(number / _FOLDS, (number + 1) / _FOLDS):
                model = self._fitted(learner, *dealt.without(number))
            rows = np.ascontiguousarray(dealt.X[outside])
            paid = np.zeros(len(rows))
            if self.regresses:
                P = model.values(rows)
            elif self.prices_ is None:
                P = model.posterior(rows)
            else:
                P, paid = while_worth(model, rows, self.prices_, mean)
            return np.column_stack((P, paid))

        answers = unseen(dealt.fold, K + 1, answered)
        return answers[:, :K], answers[:, K]


def best_of(
    values: dict[str, np.ndarray], preferences: dict[str, np.ndarray], weights: np.ndarray
) -> str:
    """Of those within a standard error of the best value, the first of those with the smallest mean preference."""
    return min(
        near_best(values, weights), key=lambda name: mean_and_error(preferences[name], weights)[0]
    )
