"""Multinomial kernel logistic regression with the majority class as reference."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from payoff.errors import Invalid, unknown
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.design import Design
from payoff.learners.linear import LARGEST_NUMBER, LinearScorer, softmax
from payoff.learners.logistic import choose_transform
from payoff.learners.parameters import Calibration, Majority, Strength
from payoff.progress import part
from payoff.stored import Stored

# Up to so many rows every row is a landmark, and the fit exact. Measured on two cores (cover
# types, 7 classes): 2000 rows 1.9 s, 3000 rows 4.6 s, 4000 rows 9.3 s: the cube begins to rule.
EXACT_ROWS = 3000
# Landmarks of more rows. Cover types, 16,000 rows, held-out log loss: 300 landmarks .699 (3 s),
# 1000 .666 (8 s), 2000 .661 (17 s); thyroid .155, .155, .153. Drawing them evenly over the classes
# instead changed none by more than 1 %.
LANDMARKS = 1000
# Numbers in the map of rows to landmarks (400 MB). With more than 50,000 rows there are fewer
# landmarks, down to a tenth.
CELLS = 50_000_000
# Rows mapped at a time, so that a map of 20,000 x 1000 needs no second array of its size.
BLOCK = 2048
# Kernel values of a larger magnitude are cut to it, as their sums must stay finite.
_LARGEST_VALUE = 1e200


@dataclass(frozen=True)
class Kernel(Stored):
    """k(a, b) = exp(-gamma |a-b|^2), <a, b>, or (gamma <a, b> + 1)^degree."""

    name: str
    gamma: float
    degree: int

    def __call__(
        self, A: np.ndarray, B: np.ndarray, squares: np.ndarray | None = None
    ) -> np.ndarray:
        """The matrix of k(a, b), (n, m) C-contiguous, for A (n, d) and B (m, d); O(n m d).

        `squares` (m,): |b|^2.
        """
        K: np.ndarray = A @ B.T
        if self.name == "linear":
            return K
        if self.name == "polynomial":
            K *= self.gamma
            K += 1.0
            limit = _LARGEST_VALUE ** (1.0 / self.degree)
            np.clip(K, -limit, limit, out=K)
            np.power(K, self.degree, out=K)
            return K
        K *= 2.0
        K -= np.einsum("ij,ij->i", A, A)[:, None]
        K -= np.einsum("ij,ij->i", B, B) if squares is None else squares
        np.minimum(K, 0.0, out=K)  # a squared distance that rounding made negative
        K *= self.gamma
        np.exp(K, out=K)
        return K


@dataclass(frozen=True)
class KernelScorer(Stored):
    """Probabilities from raw rows: softmax of k(x, landmarks) alpha + intercept.

    `landmarks` (m, width) are prepared. `alpha` (m, K), `intercept` (K,): zero for the reference
    class.
    """

    design: Design
    kernel: Kernel
    landmarks: np.ndarray
    alpha: np.ndarray
    intercept: np.ndarray

    @cached_property
    def _squares(self) -> np.ndarray:
        return np.asarray(np.einsum("ij,ij->i", self.landmarks, self.landmarks))

    def posterior(self, X: np.ndarray) -> np.ndarray:
        if len(X) > BLOCK:
            starts = range(0, len(X), BLOCK)
            return np.concatenate(
                [self.posterior(X[start : start + BLOCK]) for start in starts]
            )
        with np.errstate(over="ignore"):
            Z = np.clip(self.design.dense(X), -LARGEST_NUMBER, LARGEST_NUMBER)
        similarities = self.kernel(Z, self.landmarks, self._squares)
        return softmax(similarities.dot(self.alpha) + self.intercept)


class KernelLogistic(Learner):
    """Multinomial logistic regression with a kernel, cost-blind: smooth, curved boundaries.

    f_H = 0 for the majority class H, which changes no probability. Rows are prepared as in
    `design.Design`; default `gamma` is scikit-learn's `scale` (on glass, ecoli and image
    segmentation it was ahead of the median distance rule). `C` has scikit-learn's meaning;
    intercepts are free. `numeric_transform`: as for `logistic.Logistic`. Landmarks are rows drawn
    at random: every row (exact) up to EXACT_ROWS, else LANDMARKS or fewer. The linear kernel is
    always exact and ignores `gamma`, `degree` and `n_components`.

    Fitted, besides `Learner`'s: `majority_`; `gamma_`; `n_components_` (0 for linear);
    `converged_`, `n_iter_` and `gradient_norm_` (largest entry, see `kernel_solver.solve`). Without
    convergence `fit` warns, too.

    Time O(n m^2 + iterations n m K) for each of up to six fits, memory O(n m) for m landmarks; a
    row O(m (features + K)).
    Benefit-based classification, section on HCSKLR (the cost-blind model by Zhu and Hastie).
    """

    name: ClassVar = "kernel_logistic"
    kernel: Annotated[
        Literal["rbf", "linear", "polynomial"], "The similarity of two rows."
    ] = "rbf"
    gamma: Annotated[
        float | None,
        Field(ge=1e-10, le=1e10),
        "Scale of rbf, exp(-gamma distance^2), and of polynomial, (gamma a.b + 1)^degree; null is"
        " one over the summed variance of the scaled features.",
    ] = None
    degree: Annotated[int, Field(ge=1, le=20), "Degree of the polynomial kernel."] = 3
    C: Strength = 1.0
    majority: Majority = None
    n_components: Annotated[
        int | None,
        Field(ge=1, le=5000),
        "Nystroem landmarks: rows that span the functions; null is all rows of a small table, 1000"
        " of a large one.",
    ] = None
    calibration: Calibration = "auto"
    numeric_transform: str = "auto"
    max_iter: int = 1000
    tol: float = 1e-6

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.numeric_transform_ = choose_transform(self, X, codes, weights, 1.0)

    def _fit_raw(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> KernelScorer | LinearScorer:
        solver = loading.scikit.kernel_solver
        K = len(self.classes_)
        reference = most_common(self.classes_, self.majority, codes, weights)
        self.majority_ = self.classes_[reference]
        design = Design.fit(X, weights, self.categorical(), self.numeric_transform_)
        self.gamma_ = self.gamma or solver.default_gamma(design.matrix(X), weights)
        classes = np.delete(np.arange(K), reference)
        Y = (codes[:, None] == classes).astype(np.float64)
        if self.kernel == "linear":
            self.n_components_ = 0
            Phi = np.hstack([design.dense(X), np.ones((len(Y), 1))])
            W = self._solve(Phi, Y, weights, classes)
            return LinearScorer(
                design.fold(W[:-1].T, W[-1]).recorded(X, weights), self.converged_
            )
        kernel = Kernel(self.kernel, self.gamma_, int(self.degree))
        landmarks = design.dense(self._landmarks(X))
        factor = solver.landmark_factor(kernel, landmarks)
        with part(0.0, 0.2, "kernel"):
            Phi = solver.landmark_features(kernel, landmarks, factor, design, X)
        W = self._solve(Phi, Y, weights, classes)
        alpha = solver.landmark_weights(factor, W[:-1])
        return KernelScorer(design, kernel, landmarks, alpha, W[-1])

    def _landmarks(self, X: np.ndarray) -> np.ndarray:
        """Rows (m, features): all, or a draw without replacement."""
        n = len(X)
        automatic = (
            n if n <= EXACT_ROWS else max(LANDMARKS // 10, min(LANDMARKS, CELLS // n))
        )
        self.n_components_ = min(int(self.n_components or automatic), n)
        if self.n_components_ < n:
            random = loading.scikit.check_random_state(self.random_state)
            X = X[np.sort(random.choice(n, self.n_components_, replace=False))]
        return X

    def _solve(
        self, Phi: np.ndarray, Y: np.ndarray, weights: np.ndarray, classes: np.ndarray
    ) -> np.ndarray:
        """Coefficients (r, K) of features (n, r); zero for the reference class.

        `classes` (K - 1,) are those of the columns of Y.
        """
        W = np.zeros((Phi.shape[1], len(classes) + 1))
        with part(0.3, 1.0, "solver"):
            solver = loading.scikit.kernel_solver
            objective = solver.Objective(Phi, Y, weights, self.C)
            W[:, classes], self.n_iter_, self.gradient_norm_ = solver.solve(
                objective, max_iter=self.max_iter, tol=self.tol
            )
        self.converged_ = self.gradient_norm_ <= self.tol
        if not self.converged_:
            warnings.warn(
                f"kernel_logistic stopped after {self.n_iter_} steps at gradient"
                f" {self.gradient_norm_:.1e}; reduce C or gamma",
                loading.scikit.ConvergenceWarning,
                stacklevel=2,
            )
        return W


def most_common(
    classes: np.ndarray, majority: Any, codes: np.ndarray, weights: np.ndarray
) -> int:
    """The position of the `majority` class, or of the class of the largest weight.

    1 and "1" are the same class. Ties go to the first. Raises Invalid at `/majority`.
    """
    if majority is None:
        return int(np.bincount(codes, weights).argmax())
    names = [str(label) for label in classes]
    if str(majority) not in names:
        raise Invalid.at("/majority", unknown("class", majority, names))
    return names.index(str(majority))
