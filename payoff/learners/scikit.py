"""The parts of scikit-learn and SciPy that fits need: 60 MB and 0.7 s that predictions do without.

So learners reach this module, and its imports, through `loading.scikit`, at their first fit.
"""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, minimize, minimize_scalar, nnls
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning, InconsistentVersionWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import (
    ClassifierTags,
    InputTags,
    RegressorTags,
    Tags,
    TargetTags,
    check_random_state,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from payoff.acquisition.learning import learn
from payoff.decisions.calibration_fits import fit_calibrator
from payoff.learners import boosted_trees, kernel_solver

__all__ = [
    "ConvergenceWarning",
    "InconsistentVersionWarning",
    "RidgeCV",
    "StratifiedKFold",
    "accuracy_score",
    "boosted_trees",
    "check_classification_targets",
    "check_random_state",
    "checked",
    "checked_rows",
    "fit_calibrator",
    "fit_linear",
    "fit_ridge",
    "kernel_solver",
    "learn",
    "minimize_scalar",
    "nnls",
    "r2_score",
    "sparse",
    "tags",
]

MAX_STEPS = 500
# At scikit-learn's 1e-4 probabilities are still up to 0.07 from those of the optimum (Covertype).
_TOLERANCE = 1e-6


def checked(
    estimator: Any, X: Any, y: Any, sample_weight: Any, **options: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arguments of `fit` as arrays, without rows of weight 0.

    These must not change anything, not even the folds.
    """
    X, y = validate_data(
        estimator,
        X,
        y,
        dtype=np.float64,
        order="C",
        ensure_all_finite="allow-nan",
        **options,
    )
    weights = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    positive = weights > 0
    return (
        (X, y, weights)
        if positive.all()
        else (X[positive], y[positive], weights[positive])
    )


def checked_rows(estimator: Any, X: Any) -> np.ndarray:
    """Rows (n, m) for a fitted estimator, NaN where missing."""
    check_is_fitted(estimator)
    return validate_data(
        estimator,
        X,
        dtype=np.float64,
        order="C",
        ensure_all_finite="allow-nan",
        reset=False,
    )


def tags(*, several: bool = False, numbers: bool = False) -> Tags:
    """The tags of a classifier, of a classifier for several labels, or of a regressor."""
    classifier_tags = ClassifierTags(multi_label=several, multi_class=not several)
    return Tags(
        estimator_type="regressor" if numbers else "classifier",
        target_tags=TargetTags(
            required=True, multi_output=several, single_output=not several
        ),
        classifier_tags=None if numbers else classifier_tags,
        regressor_tags=RegressorTags() if numbers else None,
        input_tags=InputTags(allow_nan=True),
    )


def fit_linear(
    columns: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    C: float,
    slopes: tuple[np.ndarray, Any] | None = None,
) -> tuple[Any, bool]:
    """scikit-learn's L2-penalised logistic regression on columns, and whether it converged.

    Newton's method with conjugate gradients: some ten steps, no Hessian in memory, sparse columns
    as they are. With `slopes` (see `design.Slopes`), for two classes, it is `_fit_slopes`.
    """
    model = LogisticRegression(
        C=C, solver="newton-cg", tol=_TOLERANCE, max_iter=MAX_STEPS
    )
    if slopes is not None:
        return _fit_slopes(model, columns, codes, weights, *slopes)
    with warnings.catch_warnings(record=True) as failures:
        warnings.simplefilter("always")
        model.fit(columns, codes, sample_weight=weights)
    # It warns of too many steps, and of a search along a line that failed.
    return model, not failures


def _fit_slopes(
    model: Any,
    columns: Any,
    codes: np.ndarray,
    weights: np.ndarray,
    signs: np.ndarray,
    coefficients: Any,
) -> tuple[Any, bool]:
    """The model with the least penalised loss of those whose slopes have the signs, by L-BFGS-B on
    the slopes (Byrd, Lu, Nocedal, Zhu 1995).
    """
    model.classes_, positions = np.unique(codes, return_inverse=True)
    y = 2.0 * positions - 1.0
    scaled = columns @ coefficients
    shares = weights / weights.sum()
    penalty = 1.0 / (model.C * weights.sum())

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        coef = coefficients @ point[:-1]
        margins = y * (scaled @ point[:-1] + point[-1])
        pulls = -shares * y * expit(-margins)
        gradient = scaled.T @ pulls + penalty * (coefficients.T @ coef)
        value = shares @ np.logaddexp(0.0, -margins) + penalty / 2 * coef @ coef
        return float(value), np.append(gradient, pulls.sum())

    lower = np.append(np.where(signs > 0, 0.0, -np.inf), -np.inf)
    upper = np.append(np.where(signs < 0, 0.0, np.inf), np.inf)
    minimum = minimize(
        loss,
        np.zeros(len(lower)),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lower, upper),
        options={"maxiter": MAX_STEPS, "gtol": _TOLERANCE, "ftol": 0.0},
    )
    model.coef_ = (coefficients @ minimum.x[:-1])[None]
    model.intercept_ = minimum.x[-1:]
    return model, bool(minimum.success)


def fit_ridge(
    columns: Any, y: np.ndarray, weights: np.ndarray, C: float
) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's ridge regression on columns: coefficients (1, width), intercept (1,)."""
    model = Ridge(1.0 / C, tol=_TOLERANCE, max_iter=MAX_STEPS)
    model.fit(columns, y, sample_weight=weights)
    return model.coef_[None], np.array([model.intercept_])
