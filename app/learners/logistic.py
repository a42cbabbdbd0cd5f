"""Multinomial logistic regression on raw rows, cost-blind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.learners._design import Design
from app.learners._linear import Linear, Logit, Softmax
from app.learners._linear_fit import chosen_transform, fit_linear
from app.learners.base import Learner
from app.learners.plain_kinds import LOGISTIC


class Logistic(Learner):
    """Multinomial logistic regression with its preparation of rows inside (see `_design.Design`).

    `C`: inverse strength of the L2 penalty. `numeric_transform`: what becomes of numeric features, see `_hinges` and
    `chosen_transform`. The other parameters are `Learner`'s. Fitted, besides `Learner`'s: `numeric_transform_`, the one
    used, and `converged_`, False if the last fit reached its maximum number of steps. A row costs one product.
    """

    parameters = LOGISTIC.parameters

    def __init__(
        self,
        *,
        C: float = 1.0,
        numeric_transform: str = "auto",
        calibration: str = "auto",
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.numeric_transform = numeric_transform
        self.calibration = calibration
        self.categorical_features = categorical_features
        self.random_state = random_state

    model_: Logit | Softmax
    numeric_transform_: str

    @property
    def converged_(self) -> bool:
        return self.model_.converged

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.numeric_transform_ = chosen_transform(
            self.numeric_transform, X, codes, weights, self._categorical(), self.C
        )

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Logit | Softmax:
        design = Design.fit(X, weights, self._categorical(), self.numeric_transform_)
        model, converged = fit_linear(design.matrix(X), codes, weights, self.C)
        linear = Linear.fold(design, model.coef_, model.intercept_).recorded(X, weights)
        return Logit(linear, converged) if len(self.classes_) == 2 else Softmax(linear, converged)
