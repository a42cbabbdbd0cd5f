"""Linear regression of numbers."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from payoff.decisions.folds import Blocks, stratified_folds
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.design import Design
from payoff.learners.gradient_boosting import GradientBoosting, in_folds
from payoff.learners.linear import Linear
from payoff.learners.logistic import choose_transform
from payoff.learners.parameters import Strength
from payoff.learners.unseen import unseen
from payoff.progress import part
from payoff.stored import Stored


@dataclass(frozen=True)
class LinearValues(Stored):
    """A number from one score."""

    linear: Linear

    def values(self, X: np.ndarray) -> np.ndarray:
        """The numbers (n,) of rows X (n, m), NaN where missing."""
        return self.linear.scores(X)[:, 0]


class Ridge(Learner):
    """Linear regression of numbers with an L2 penalty; it knows the distribution.

    Its preparation of rows is inside, as that of `logistic.Logistic`, with `numeric_transform_`,
    which is chosen by squared errors. The distribution is that of `GradientBoosting.around`. A row
    costs one product, and the spread of its errors. A fit solves the normal equations up to 11
    times, and fits a boosted spread.
    """

    name: ClassVar = "linear"
    tasks: ClassVar = ("regression",)
    task: Annotated[Literal["regression"], "Labels are numbers."] = "regression"
    C: Strength = 1.0
    numeric_transform: str = "auto"

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.numeric_transform_ = choose_transform(
            self, X, codes, weights, self.C, losses=_squares
        )

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        """A refit keeps the distribution of the residuals."""
        return replace(self.model_, mean=self._mean(X, codes, weights))

    def _fit_calibrated(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> None:
        self._cross_fit(X, codes, weights)

    def _cross_fit(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        rows, folds = in_folds(X, codes, weights, self._seed(), self.blocks)

        def fit_and_predict(
            number: int, _: np.ndarray, outside: np.ndarray
        ) -> np.ndarray:
            mean = self._mean(*rows.without(number))
            return mean.values(np.ascontiguousarray(X[outside]))[:, None]

        with part(0.0, 0.3, "mean"):
            values = unseen(rows.fold, 1, fit_and_predict)
            mean = self._mean(X, codes, weights)
        spread = GradientBoosting(
            task="regression",
            categorical_features=self.categorical_features,
            random_state=self.random_state,
        )
        with part(0.3, 1.0, "spread"):
            self.model_ = spread.around(mean, values[:, 0], rows, folds)
        return values

    def _mean(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> LinearValues:
        design = Design.fit(X, weights, self.categorical(), self.numeric_transform_)
        return _fit(design, X, y, weights, self.C)


def _fit(
    design: Design, X: np.ndarray, y: np.ndarray, weights: np.ndarray, C: float
) -> LinearValues:
    coef, intercept = loading.scikit.fit_ridge(design.matrix(X), y, weights, C)
    return LinearValues(design.fold(coef, intercept))


def _squares(
    shape: str,
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    learner: Any,
    C: float,
    blocks: Blocks | None,
) -> np.ndarray:
    """Each row's squared error (n,) by a model that did not see it."""

    def fit_and_predict(_: int, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        design = Design.fit(X[inside], weights[inside], learner.categorical(), shape)
        model = _fit(design, X[inside], y[inside], weights[inside], C)
        return model.values(X[outside])[:, None]

    fold = stratified_folds(np.zeros(len(X), dtype=np.intp), 3, 0, blocks)
    return np.square(y - unseen(fold, 1, fit_and_predict)[:, 0])
