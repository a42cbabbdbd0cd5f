"""A learner that compares the usual learners on rows that they did not see, and keeps the best."""

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
from payoff.learners.stepwise import Stepwise, prices_of, stratified_sample, while_worth
from payoff.learners.unseen import log_losses, mean_and_error, near_best, unseen
from payoff.progress import part
from payoff.stored import Stored

_FOLDS = 3
_OUT_OF_TIME = "max_seconds were over"
# The errors of a learner that cannot be fitted on the rows.
_BREAKDOWNS = (Invalid, np.linalg.LinAlgError, ArithmeticError)

CANDIDATES: dict[type[Learner], float] = {
    CostNaiveBayes: 1e-6,
    Logistic: 2e-6,
    RandomForest: 2e-5,
    GradientBoosting: 2e-5,
    KernelLogistic: 3e-5,
}
"""The candidates in the order in which they are tried, the quick ones first.

With the seconds of work for each number of the table and fit: an estimate, so that a busy machine
tries the same candidates as an idle one.
"""
REGRESSORS: dict[type[Learner], float] = {RandomForest: 2e-5, GradientBoosting: 4e-5}
"""The candidates where labels are numbers."""
PRICED_CANDIDATES: dict[str, tuple[Learner, float]] = {
    learner.name: (learner, seconds)
    for learner, seconds in (
        (ForestChain(), 6e-5),
        (RandomForest(n_estimators=40, max_features=None), 6e-5),
        (BudgetForest(), 4e-5),
        (FreeForest(n_estimators=40), 3e-5),
    )
}
"""The candidates where features have prices.

Of those that are not worse than the best the first is chosen: the chain, which was the best, or as
good, in nearly all cells of benchmarks/acquisition.md.
"""
PRICED_NUMBERS = 100_000
"""The numbers of a table that are enough to compare these: each fit takes seconds."""
_KERNEL_ROWS = 3000
"""Rows above which the kernel of all rows is cut to landmarks, and time grows with every class."""


@dataclass(frozen=True)
class Tried(Stored):
    """A candidate's `score` per row and its standard error, or None with the `reason`."""

    kind: str
    score: float | None
    standard_error: float | None
    reason: str | None = None


class Automatic(Learner):
    """The best of naive Bayes, logistic regression, random forest, gradient boosting and kernel
    logistic regression, by cross-validation: with benefits by what their decisions earn, else by
    log loss. Of numbers the better of random forest and gradient boosting, by squared error. With
    `feature_costs` the best of a forest chain, a random forest, a budget forest, and a forest of
    the free features alone, which answer `/acquire`, by what they earn less the price of what they
    ask for. The card has the table.

    There are three folds. The score is the mean realised benefit of the decisions with `benefits`
    (K, A), or (n, K, A) for the rows that `fit` gets, and without them minus the log loss. A
    candidate that is not worse than the best by a standard error of their paired difference and has
    the smaller log loss is preferred: benefits of few rows are noisy. After `max_seconds` of work,
    estimated from the size of the table and the same on every machine, no further candidate is
    begun; the first has no limit, nor has the final fit. A candidate that refuses the rows or
    breaks down on them is left out; where none is left, the first error is raised. Fitted:
    `chosen_` (a kind), `tried_` (`Tried`, one per candidate), and `model_`, the winner fitted on
    all rows.

    With `feature_costs` (Prices, or one price >= 0 for each column), every candidate asks each
    unseen row for one feature after the other, with benefits as long as that is worth its price,
    and pays for them. Of those that are not worse than the best the chain is preferred with
    benefits, and without them what asks for the cheapest features. At most 100,000 numbers of the
    table are compared.
    """

    name: ClassVar = "auto"
    tasks: ClassVar = ("classification", "regression")

    task: Task = None
    max_seconds: Annotated[
        float,
        Field(gt=0, le=1e6),
        "Seconds of work, estimated from the size of the table, after which no further candidate"
        " is tried; the first is always tried. `warnings` of the job name the others.",
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
        """Whether features have prices and the chosen learner asks for them."""
        return self.prices_ is not None and self.model_.acquires

    def ranks(self) -> bool:
        """Whether the probabilities of the chosen learner differ from row to row."""
        return self.model_.ranks()

    def untried(self) -> list[str]:
        """The candidates that were not tried for lack of time."""
        return [
            candidate.kind
            for candidate in self.tried_
            if candidate.reason == _OUT_OF_TIME
        ]

    def findings(self, names: Sequence[str]) -> dict[str, Any]:
        """The comparison, and the calibration and findings of the winner, ready for JSON."""
        candidates = [vars(candidate) for candidate in self.tried_]
        calibration = (
            {} if self.regresses else {"calibration": self.model_.calibration_}
        )
        return {
            **calibration,
            **self.model_.findings(names),
            "chosen": self.chosen_,
            "candidates": candidates,
        }

    def _check(self) -> None:
        if self.feature_costs is not None and not self.regresses:
            self.prices_ = prices_of(self.feature_costs, self.n_features_in_)

    def _fit_raw(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> Learner:
        numbers = self._compared_rows(X, codes)
        strata = np.zeros(len(X), dtype=np.intp) if self.regresses else codes[numbers]
        fold = stratified_folds(strata, _FOLDS, 0)
        rows = FoldedRows(X[numbers], codes[numbers], weights[numbers], fold)
        benefits = None
        if self.benefits is not None:
            benefits = np.asarray(self.benefits, dtype=np.float64)
            benefits = benefits if benefits.ndim == 2 else benefits[numbers]
        candidates = self._candidates(len(X))
        self.chosen_ = self._compare(candidates, rows, benefits)
        with part(0.8, 1.0, f"fitting {self.chosen_}"):
            return self._fit_candidate(candidates[self.chosen_][0], X, codes, weights)

    def _compared_rows(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray | slice:
        """The numbers of the rows to compare on: all, or with prices a sample of a large table."""
        if self.prices_ is None:
            return slice(None)
        random = loading.scikit.check_random_state(0)
        return stratified_sample(
            np.arange(len(X)), codes, PRICED_NUMBERS // X.shape[1], random
        )

    def _candidates(self, n: int) -> dict[str, tuple[Learner, float]]:
        """The candidates for n rows, by name."""
        if self.prices_ is not None:
            return PRICED_CANDIDATES
        return {
            kind.name: (kind(), seconds)
            for kind, seconds in (REGRESSORS if self.regresses else CANDIDATES).items()
            if kind is not KernelLogistic or n <= _KERNEL_ROWS
        }

    def _compare(
        self,
        candidates: Mapping[str, tuple[Learner, float]],
        rows: FoldedRows,
        benefits: np.ndarray | None,
    ) -> str:
        """The name of the best candidate; sets `tried_` for all of them."""
        held_out = rows.fold != UNJUDGED
        fits = len(np.unique(rows.fold[held_out]))
        weights = rows.weights[held_out]
        values: dict[str, np.ndarray] = {}
        preferences: dict[str, np.ndarray] = {}
        errors: list[Exception] = []
        self.tried_ = []
        work = 0.0
        count = len(candidates)
        for number, (name, (learner, seconds)) in enumerate(candidates.items()):
            if not held_out.any() or (values and work > self.max_seconds):
                reason = _OUT_OF_TIME if held_out.any() else "no class has two rows"
                self.tried_.append(Tried(name, None, None, reason))
                continue
            work += seconds * rows.X.size * fits
            try:
                with part(
                    0.8 * number / count, 0.8 * (number + 1) / count, f"trying {name}"
                ):
                    P, paid = self._unseen(learner, rows, benefits)
            except _BREAKDOWNS as error:
                errors.append(error)
                self.tried_.append(Tried(name, None, None, str(error)))
                continue
            value, preference = self._values(P, paid, rows, benefits)
            values[name] = value[held_out]
            preferences[name] = preference[held_out]
            self.tried_.append(Tried(name, *mean_and_error(values[name], weights)))
        if errors and not values:
            raise errors[0]
        if not values:
            return "logistic" if self.prices_ is None else ForestChain.name
        return best_of(values, preferences, weights)

    def _values(
        self,
        P: np.ndarray,
        paid: np.ndarray,
        rows: FoldedRows,
        benefits: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The value (n,) of each row's answer, and the preference (n,): see `best_of`."""
        if self.regresses:
            squares = np.square(rows.codes - P[:, 0])
            return -squares, squares
        losses = log_losses(P, rows.codes)
        values = -losses
        if benefits is not None:
            values = (
                row_benefits(rows.codes, decide(P, benefits).choice, benefits) - paid
            )
        if self.prices_ is None:
            return values, losses
        return values, paid if benefits is None else np.zeros(len(paid))

    def _fit_candidate(
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
        self, learner: Learner, rows: FoldedRows, benefits: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Each row's answer by a candidate that did not see it, and the prices (n,) that it pays.

        Answers are probabilities (n, K), or numbers (n, 1).
        """
        K = 1 if self.regresses else len(self.classes_)
        mean = (
            benefits
            if benefits is None or benefits.ndim == 2
            else benefits.mean(axis=0)
        )

        def fit_and_predict(
            number: int, _: np.ndarray, outside: np.ndarray
        ) -> np.ndarray:
            with part(number / _FOLDS, (number + 1) / _FOLDS):
                model = self._fit_candidate(learner, *rows.without(number))
            X = np.ascontiguousarray(rows.X[outside])
            paid = np.zeros(len(X))
            if self.regresses:
                P = model.values(X)
            elif self.prices_ is None:
                P = model.posterior(X)
            else:
                P, paid = while_worth(model, X, self.prices_, mean)
            return np.column_stack((P, paid))

        answers = unseen(rows.fold, K + 1, fit_and_predict)
        return answers[:, :K], answers[:, K]


def best_of(
    values: dict[str, np.ndarray],
    preferences: dict[str, np.ndarray],
    weights: np.ndarray,
) -> str:
    """The name with the least mean preference, of those within a standard error of the best value.

    Ties go to the first.
    """
    names = near_best(values, weights)
    return min(names, key=lambda name: mean_and_error(preferences[name], weights)[0])
