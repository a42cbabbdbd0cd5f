"""The sensible learners compared by what they earn on rows that they did not see; the best of them answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field

from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.folds import UNJUDGED, stratified_folds
from payoff.errors import Invalid
from payoff.learners.base import Learner
from payoff.learners.cost_naive_bayes import CostNaiveBayes
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic
from payoff.learners.parameters import Task
from payoff.learners.random_forest import RandomForest
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
_KERNEL_ROWS = (
    3000  # above, the kernel of all rows is cut to landmarks, and time grows with every class
)


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
    forest and gradient boosting, by squared error. The card has the table.

    There are three folds. The score is the mean realised benefit of the decisions with `benefits` (K, A), or (n, K, A)
    for the rows that `fit` gets, and without them minus the log loss. A candidate that is not worse than the best by a
    standard error of their paired difference and has the smaller log loss is preferred: benefits of few rows are noisy.
    After `max_seconds` of work, estimated from the size of the table and the same on every machine, no further
    candidate is begun; the first has no limit, nor has the final fit. A candidate that refuses the rows or breaks down
    on them is left out; where none is left, the first error is raised. Fitted: `chosen_` (a kind), `tried_` (`Tried`,
    one per candidate), and `model_`, the winner fitted on all rows.
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

    any_actions: ClassVar = True
    by_case: ClassVar = True
    model_: Learner = field(init=False, repr=False)

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit the chosen learner again; nothing is compared."""
        self.model_.refit(X, y if self.regresses else np.searchsorted(self.classes_, y))
        return self

    def ranks(self) -> bool:
        """Whether those of the chosen learner do."""
        return self.model_.ranks()

    def untried(self) -> list[str]:
        """The candidates that were not tried for lack of time."""
        return [one.kind for one in self.tried_ if one.reason == _OVER]

    def findings(self, _names: Sequence[str]) -> dict[str, Any]:
        """The comparison and the calibration of the winner, ready for JSON."""
        candidates = [vars(one) for one in self.tried_]
        calibration = {} if self.regresses else {"calibration": self.model_.calibration_}
        return {**calibration, "chosen": self.chosen_, "candidates": candidates}

    def _fit_numbers(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Learner:
        """The regressor with the least squared error on rows that it did not see."""
        fold = stratified_folds(np.zeros(len(y), dtype=np.intp), _FOLDS, 0)
        values: dict[str, np.ndarray] = {}
        errors: list[Exception] = []
        work, self.tried_ = 0.0, []
        for number, (kind, seconds) in enumerate(REGRESSORS.items()):
            if values and work > self.max_seconds:
                self.tried_.append(Tried(kind.name, None, None, _OVER))
                continue
            work += seconds * X.size * _FOLDS
            try:
                with part(0.4 * number, 0.4 * (number + 1), f"trying {kind.name}"):
                    residuals = y - self._unseen(kind, X, y, weights, fold)[:, 0]
            except _BREAKDOWNS as error:
                errors.append(error)
                self.tried_.append(Tried(kind.name, None, None, str(error)))
                continue
            values[kind.name] = -np.square(residuals)
            self.tried_.append(Tried(kind.name, *mean_and_error(values[kind.name], weights)))
        if not values:
            raise errors[0]
        self.chosen_ = max(values, key=lambda name: mean_and_error(values[name], weights)[0])
        with part(0.8, 1.0, f"fitting {self.chosen_}"):
            (kind,) = (one for one in REGRESSORS if one.name == self.chosen_)
            return self._fitted(kind, X, y, weights)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Learner:
        if self.regresses:
            return self._fit_numbers(X, codes, weights)
        fold = stratified_folds(codes, _FOLDS, 0)
        judged = fold != UNJUDGED
        able = {
            kind.name: kind
            for kind in CANDIDATES
            if kind is not KernelLogistic or len(X) <= _KERNEL_ROWS
        }
        work, fits = 0.0, len(np.unique(fold[judged]))
        values: dict[str, np.ndarray] = {}
        losses: dict[str, np.ndarray] = {}
        errors: list[Exception] = []
        self.tried_ = []
        for number, (name, kind) in enumerate(able.items()):
            if not judged.any() or (values and work > self.max_seconds):
                reason = _OVER if judged.any() else "no class has two rows"
                self.tried_.append(Tried(name, None, None, reason))
                continue
            work += CANDIDATES[kind] * X.size * fits
            try:
                with part(
                    0.8 * number / len(able), 0.8 * (number + 1) / len(able), f"trying {name}"
                ):
                    P = self._unseen(kind, X, codes, weights, fold)[judged]
            except _BREAKDOWNS as error:
                errors.append(error)
                self.tried_.append(Tried(name, None, None, str(error)))
                continue
            losses[name] = log_losses(P, codes[judged])
            values[name] = (
                -losses[name] if self.benefits is None else self._earned(P, codes[judged], judged)
            )
            self.tried_.append(Tried(name, *mean_and_error(values[name], weights[judged])))
        if errors and not values:
            raise errors[0]
        self.chosen_ = best_of(values, losses, weights[judged]) if values else "logistic"
        with part(0.8, 1.0, f"fitting {self.chosen_}"):
            return self._fitted(able[self.chosen_], X, codes, weights)

    def _fitted(
        self, kind: type[Learner], X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> Learner:
        own = kind(categorical_features=self.categorical_features, random_state=self.random_state)
        if self.regresses:
            own.set_params(task="regression")
        return own.fit(X, codes, weights)

    def _unseen(
        self,
        kind: type[Learner],
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        fold: np.ndarray,
    ) -> np.ndarray:
        """Each row's probabilities (n, K), or number (n, 1), from a candidate that did not see it."""

        def answered(number: int, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
            with part(number / _FOLDS, (number + 1) / _FOLDS):
                model = self._fitted(kind, X[inside], codes[inside], weights[inside])
            rows = np.ascontiguousarray(X[outside])
            return model.values(rows)[:, None] if self.regresses else model.posterior(rows)

        return unseen(fold, 1 if self.regresses else len(self.classes_), answered)

    def _earned(self, P: np.ndarray, codes: np.ndarray, judged: np.ndarray) -> np.ndarray:
        B = np.asarray(self.benefits, dtype=np.float64)
        B = B if B.ndim == 2 else B[judged]
        return row_benefits(codes, decide(P, B).choice, B)


def best_of(
    values: dict[str, np.ndarray], losses: dict[str, np.ndarray], weights: np.ndarray
) -> str:
    """Of those within a standard error of the best value, the one with the smallest mean loss."""
    return min(
        near_best(values, weights), key=lambda name: mean_and_error(losses[name], weights)[0]
    )
