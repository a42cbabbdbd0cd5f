"""Multinomial kernel logistic regression with the majority class as reference."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from app.errors import Invalid, sent
from app.learners._design import Design
from app.learners._kernel_maths import Kernel, Objective, dense, landmark_factor, landmark_features, solve
from app.learners._kernel_scorer import KernelScorer
from app.learners._linear import Linear, Softmax
from app.learners._linear_fit import chosen_transform
from app.learners.base import Learner, Scorer
from app.learners.plain_kinds import KERNEL_LOGISTIC
from app.progress import part

# Up to so many rows every row is a landmark, and the fit exact. Measured on two cores (benchmarks/kernel_logistic.py,
# cover types, 7 classes): 2000 rows 1.9 s, 3000 rows 4.6 s, 4000 rows 9.3 s: the cube begins to rule.
EXACT_ROWS = 3000
# Landmarks beyond. Cover types, 16,000 rows, held-out log loss: 300 landmarks .699 (3 s), 1000 .666 (8 s), 2000 .661
# (17 s); thyroid .155, .155, .153. Drawing them evenly over the classes instead changed none by more than 1 %.
LANDMARKS = 1000
# Numbers in the map of rows to landmarks (400 MB). Beyond 50,000 rows there are fewer landmarks, down to a tenth.
CELLS = 50_000_000


class KernelLogistic(Learner):
    """Multinomial logistic regression in a kernel's space, f_H = 0 for the majority class H.

    `kernel`: `rbf` exp(-gamma |a-b|^2), `linear` <a, b>, or `polynomial` (gamma <a, b> + 1)^degree, on rows prepared
    as in `_design.Design`. `gamma`: None is one over the summed variance of the prepared columns (scikit-learn's
    `scale`; on glass, ecoli and image segmentation it was ahead of the median distance rule). `C`: inverse strength
    of the L2 penalty, with scikit-learn's meaning; intercepts are free. `numeric_transform`:
    as for `logistic.Logistic`. `majority`: the class with f = 0, None is the
    one that weighs most; it is what the functions refer to, and changes no probability. `n_components`:
    Nystroem landmarks, rows drawn at random; None is every row (exact) up to EXACT_ROWS, LANDMARKS or fewer beyond. The
    linear kernel is always exact and ignores gamma, degree and n_components.

    Fitted, besides `Learner`'s: `majority_`; `gamma_`; `n_components_` (0 for linear); `converged_`, `n_iter_` and
    `gradient_norm_` (largest entry, see `_kernel_maths.solve`). Without convergence `fit` warns, too. A likelihood
    fit needs no calibration, so none is offered.

    Time O(n m^2 + iterations n m K), memory O(n m) for m landmarks; a row O(m (features + K)).
    Benefit-based classification, section on HCSKLR (the cost-blind model by Zhu and Hastie).
    """

    parameters = KERNEL_LOGISTIC.parameters
    calibration = "none"

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        C: float = 1.0,
        numeric_transform: str = "auto",
        majority: Any = None,
        n_components: int | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.C = C
        self.numeric_transform = numeric_transform
        self.majority = majority
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.categorical_features = categorical_features
        self.random_state = random_state

    def _check(self) -> None:
        if self.majority is not None:
            majority_code(self.classes_, self.majority)

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.numeric_transform_ = chosen_transform(self.numeric_transform, X, codes, weights, self._categorical(), 1.0)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Scorer:
        K = len(self.classes_)
        reference = most_common(self.classes_, self.majority, codes, weights)
        self.majority_ = self.classes_[reference]
        design = Design.fit(X, weights, self._categorical(), self.numeric_transform_)
        Z = design.matrix(X)
        self.gamma_ = float(self.gamma) if self.gamma is not None else default_gamma(Z, weights)
        others = np.delete(np.arange(K), reference)
        Y = (codes[:, None] == others).astype(np.float64)
        if self.kernel == "linear":
            return self._fit_linear(design, X, Z, Y, weights, others)
        kernel = Kernel(self.kernel, self.gamma_, int(self.degree))
        landmarks = self._landmarks(Z)
        factor = landmark_factor(kernel, landmarks)
        with part(0.0, 0.2, "kernel"):
            Phi = landmark_features(kernel, landmarks, factor, Z)
        W = self._solved(Phi, Y, weights)
        alpha = np.zeros((len(landmarks), K))
        alpha[:, others] = solve_triangular(factor, W[:-1], lower=True, trans="T", check_finite=False)
        intercept = np.zeros(K)
        intercept[others] = W[-1]
        return KernelScorer.fold(design, kernel, landmarks, alpha, intercept)

    def _fit_linear(
        self, design: Design, X: np.ndarray, Z: Any, Y: np.ndarray, weights: np.ndarray, others: np.ndarray
    ) -> Softmax:
        W = self._solved(np.hstack([dense(Z), np.ones((len(Y), 1))]), Y, weights)
        self.n_components_ = 0
        full = np.zeros((len(others) + 1, len(W)))
        full[others] = W.T
        return Softmax(Linear.fold(design, full[:, :-1], full[:, -1]).recorded(X, weights), self.converged_)

    def _landmarks(self, Z: Any) -> np.ndarray:
        """Prepared rows (m, width), dense: all, or a draw without replacement."""
        n = Z.shape[0]
        automatic = n if n <= EXACT_ROWS else max(LANDMARKS // 10, min(LANDMARKS, CELLS // n))
        self.n_components_ = min(int(self.n_components or automatic), n)
        if self.n_components_ < n:
            Z = Z[np.sort(check_random_state(self.random_state).choice(n, self.n_components_, replace=False))]
        return dense(Z)

    def _solved(self, Phi: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        with part(0.3, 1.0, "solver"):
            found = solve(Objective(Phi, Y, weights, self.C), max_iter=self.max_iter, tol=self.tol)
        self.converged_, self.n_iter_, self.gradient_norm_ = found.converged, found.n_iter, found.gradient_norm
        if not found.converged:
            text = f"kernel_logistic stopped after {found.n_iter} steps at gradient {found.gradient_norm:.1e}"
            warnings.warn(f"{text}; reduce C or gamma", ConvergenceWarning, stacklevel=2)
        return found.W


def majority_code(classes: np.ndarray, majority: Any) -> int:
    """The position of the class that equals `majority`, or is written like it; raises Invalid at `/majority`."""
    for code, label in enumerate(classes):
        if label == majority or str(label) == str(majority):
            return code
    shown = ", ".join(str(label)[:40] for label in classes[:20])
    raise Invalid.at("/majority", f"unknown class {sent(majority)}; the classes are {shown}")


def most_common(classes: np.ndarray, majority: Any, codes: np.ndarray, weights: np.ndarray) -> int:
    """The position of the majority class: as given, or of the largest weight (ties to the first)."""
    return int(np.bincount(codes, weights).argmax()) if majority is None else majority_code(classes, majority)


def default_gamma(Z: Any, weights: np.ndarray) -> float:
    """One over the summed weighted variance of the columns of Z (n, d), dense or sparse; 1 where none varies."""
    shares = weights / weights.sum()
    squares = Z.multiply(Z) if sparse.issparse(Z) else Z * Z
    spread = float((squares.T @ shares - (Z.T @ shares) ** 2).sum())
    return 1.0 / spread if spread > 1e-12 else 1.0
