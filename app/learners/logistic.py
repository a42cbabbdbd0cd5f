"""Multinomial logistic regression on raw rows, cost-blind."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from app.learners._design import Design
from app.learners._linear import Linear, Logit, Softmax
from app.learners.base import Learner
from app.learners.kinds import Kind
from app.learners.parameters import CALIBRATION, STRENGTH

_MAX_STEPS = 500
_TOLERANCE = 1e-6  # at scikit-learn's 1e-4 probabilities are still up to 0.07 from the optimum's (Covertype)


def fit_linear(
    columns: np.ndarray, codes: np.ndarray, weights: np.ndarray, C: float
) -> tuple[LogisticRegression, bool]:
    """scikit-learn's L2-penalised logistic regression on prepared columns, and whether it converged.

    Newton's method with conjugate gradients: some ten steps, no Hessian in memory, sparse columns as they are.
    """
    model = LogisticRegression(C=C, solver="newton-cg", tol=_TOLERANCE, max_iter=_MAX_STEPS)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(columns, codes, sample_weight=weights)
    stuck = [w for w in heard if issubclass(w.category, ConvergenceWarning) or "Line Search" in str(w.message)]
    for warning in heard:
        if warning not in stuck:
            warnings.warn(warning.message, stacklevel=2)
    return model, not stuck


class Logistic(Learner):
    """Multinomial logistic regression with its preparation of rows inside (see `_design.Design`).

    `C`: inverse strength of the L2 penalty. The other parameters are `Learner`'s. Fitted, besides `Learner`'s:
    `converged_`, False if the last fit reached its maximum number of steps. A row costs one product.
    """

    parameters = (STRENGTH, CALIBRATION)
    _auto: ClassVar[tuple[float, float]] = (20, 1000)

    def __init__(
        self,
        *,
        C: float = 1.0,
        calibration: str = "auto",
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.calibration = calibration
        self.categorical_features = categorical_features
        self.random_state = random_state

    model_: Logit | Softmax

    @property
    def converged_(self) -> bool:
        return self.model_.converged

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Logit | Softmax:
        design = Design.fit(X, weights, self._categorical())
        model, converged = fit_linear(design.matrix(X), codes, weights, self.C)
        linear = Linear.fold(design, model.coef_, model.intercept_)
        return Logit(linear, converged) if len(self.classes_) == 2 else Softmax(linear, converged)


KIND = Kind(
    "logistic",
    Logistic,
    Logistic.parameters,
    "Multinomial logistic regression, cost-blind: benefits enter only when decisions are made.",
)
