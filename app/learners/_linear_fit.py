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

TRANSFORMS = ("auto", "none", *SHAPES)
_FEWEST = 200  # rows; on fewer the standard error hides what another transform gains
_JUDGED = 3000  # rows that the choice of a transform looks at
_SUREST = 1e-6  # probability below which a miss counts as no worse: one row must not decide the choice
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
    losses = {shape: np.empty(len(X)) for shape in SHAPES}
    for number in range(3):
        inside, outside = fold != number, fold == number
        for shape, loss in losses.items():
            P = _posterior(shape, X[inside], codes[inside], weights[inside], categorical, C, X[outside])
            loss[outside] = -np.log(np.maximum(P[np.arange(len(P)), codes[outside]], _SUREST))
    w = weights[judged] / weights[judged].sum()
    best = min(losses, key=lambda shape: float(w @ losses[shape][judged]))
    gain = losses["clip"][judged] - losses[best][judged]
    mean = float(w @ gain)
    error = float(np.sqrt((w**2) @ (gain - mean) ** 2))
    return best if mean > error else "clip"


def _posterior(
    shape: str, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, categorical: Sequence[int], C: float,
    rows: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Probabilities of `rows` by a model of the others; of a class that these lack it is 0."""
    design = Design.fit(X, weights, categorical, shape)
    model, _ = fit_linear(design.matrix(X), codes, weights, C)
    P = np.zeros((len(rows), codes.max() + 1))
    P[:, model.classes_] = model.predict_proba(design.matrix(rows))
    return P
