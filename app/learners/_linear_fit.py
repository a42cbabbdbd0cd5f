"""The penalised fit of a linear model, and the transform of numeric features that suits it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from app.decisions.folds import UNJUDGED, stratified_folds
from app.errors import Invalid
from app.learners._design import Design
from app.learners._hinges import SHAPES
from app.learners._unseen import log_losses, mean_and_error, unseen

TRANSFORMS = ("auto", "none", *SHAPES)
_FEWEST = 200  # rows; on fewer the standard error hides what another transform gains
_JUDGED = 3000  # rows that the choice of a transform looks at
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


def chosen_transform(
    transform: str, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, categorical: Sequence[int], C: float
) -> str:
    """What `auto` stands for on these rows: the shape of the smallest cross-validated log loss, else `transform`.

    `clip` keeps its place unless another is better by a standard error of the paired difference, and on fewer than
    `_FEWEST` rows. Nine fits on two thirds of at most `_JUDGED` rows.
    """
    if transform not in TRANSFORMS:
        raise Invalid.at("/numeric_transform", f"numeric_transform is one of {', '.join(TRANSFORMS)}")
    if transform != "auto":
        return transform
    if len(categorical) == X.shape[1]:
        return "none"
    if len(X) < _FEWEST:
        return "clip"
    some = np.sort(np.random.default_rng(0).permutation(len(X))[:_JUDGED])
    X, codes, weights = X[some], codes[some], weights[some]
    fold = stratified_folds(codes, 3, 0)
    judged = fold != UNJUDGED
    if not judged.any() or len(np.unique(codes)) < 2:
        return "clip"
    codes = np.unique(codes, return_inverse=True)[1]
    K = int(codes.max()) + 1

    def losses(shape: str) -> np.ndarray:
        def fitted(_: int, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            design = Design.fit(X[inside], weights[inside], categorical, shape)
            model, _ = fit_linear(design.matrix(X[inside]), codes[inside], weights[inside], C)
            return model.classes_, model.predict_proba(design.matrix(X[outside]))

        return log_losses(unseen(fold, K, fitted)[judged], codes[judged])

    found, w = {shape: losses(shape) for shape in SHAPES}, weights[judged]
    best = min(found, key=lambda shape: mean_and_error(found[shape], w)[0])
    gain, error = mean_and_error(found["clip"] - found[best], w)
    return best if gain > error else "clip"
