"""The penalised fit of a linear model, and the transform of numeric features that suits it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.decisions.folds import UNJUDGED, stratified_folds
from app.learners._design import Design
from app.learners._hinges import SHAPES
from app.learners._unseen import log_losses, near_best, unseen

_CANDIDATES = (*SHAPES, "none")  # the simplest first; the one that a tail can break, last
_MIN_ROWS = 200  # rows; on fewer the standard error hides what another transform gains
_JUDGED = 3000  # rows that the choice of a transform looks at
_MAX_STEPS = 500
_TOLERANCE = 1e-6  # at scikit-learn's 1e-4 probabilities are still up to 0.07 from the optimum's (Covertype)


def fit_linear(columns: np.ndarray, codes: np.ndarray, weights: np.ndarray, C: float) -> tuple[Any, bool]:
    """scikit-learn's L2-penalised logistic regression on prepared columns, and whether it converged.

    Newton's method with conjugate gradients: some ten steps, no Hessian in memory, sparse columns as they are.
    """
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - see `estimator`
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

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
    transform: str,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    categorical: Sequence[int],
    C: float,
    candidates: Sequence[str] = _CANDIDATES,
) -> str:
    """What `auto` stands for on these rows: the shape of the smallest cross-validated log loss, else `transform`.

    `codes` are classes (n,), or labels (n, L) whose losses are added up. The first of the candidates that is not worse
    than the best by a standard error of the paired difference; `clip` on fewer than `_MIN_ROWS` rows. Three fits for
    each candidate and label on two thirds of at most `_JUDGED` rows.
    """
    if transform != "auto":
        return transform
    if len(categorical) == X.shape[1]:
        return "none"
    if len(X) < _MIN_ROWS:
        return "clip"
    some = np.sort(np.random.default_rng(0).permutation(len(X))[:_JUDGED])
    X, w = X[some], weights[some]
    labels = codes[some].reshape(len(some), -1).T
    gains = {shape: -np.sum([_losses(shape, X, y, w, categorical, C) for y in labels], axis=0) for shape in candidates}
    return near_best(gains, w)[0]


def _losses(
    shape: str, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, categorical: Sequence[int], C: float
) -> np.ndarray:
    """Each row's log loss (n,) by a model that did not see it; 0 where there is none."""
    classes, codes = np.unique(codes, return_inverse=True)
    fold = stratified_folds(codes, 3, 0)
    judged = fold != UNJUDGED
    losses = np.zeros(len(X))
    if len(classes) < 2 or not judged.any():
        return losses

    def fitted(_: int, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        design = Design.fit(X[inside], weights[inside], categorical, shape)
        model, _ = fit_linear(design.matrix(X[inside]), codes[inside], weights[inside], C)
        return model.classes_, model.predict_proba(design.matrix(X[outside]))

    losses[judged] = log_losses(unseen(fold, len(classes), fitted)[judged], codes[judged])
    return losses
