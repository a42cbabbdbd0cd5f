"""Multinomial logistic regression in a reproducing kernel Hilbert space.

The model has a reference class H with f_H = 0 and, for every other class k, f_k(x) = b_k + <w_k,
phi(x)> (Zhu and Hastie's form, quoted in the benefit paper's section on HCSKLR). It minimises

    mean of -log p(y | x)  +  tr(M W'W) / (2 C n),       M = I - 11'/K    (M = 1 for K = 2),

with row weights in the mean and n their sum. M makes the choice of the reference immaterial: a
symmetric model with K functions and the penalty sum_k |w_k|^2 / 2 has the same minimum, because of
all functions with given differences those that sum to zero are the shortest. Two classes take
scikit-learn's binary penalty |w|^2 / 2. So with the linear kernel this is scikit-learn's
LogisticRegression for any K, and C means the same.
"""

from math import log
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from payoff.learners.design import Design
from payoff.learners.kernel_logistic import BLOCK, Kernel
from payoff.progress import report

# Added to the diagonal of the landmarks' kernel matrix, relative to its largest entry: rows that
# repeat make the matrix singular. It stands far above the rounding of a 3000 x 3000 factorisation
# (about 1e-13).
JITTER = 1e-10
MEMORY = 20  # L-BFGS pairs kept


def default_gamma(Z: Any, weights: np.ndarray) -> float:
    """One over the summed weighted variance of the columns of Z (n, d); 1 where none varies.

    Z is dense or sparse.
    """
    shares = weights / weights.sum()
    squares = Z.multiply(Z) if sparse.issparse(Z) else Z * Z
    spread = float((squares.T @ shares - (Z.T @ shares) ** 2).sum())
    return 1.0 / spread if spread > 1e-12 else 1.0


def landmark_factor(kernel: Kernel, landmarks: np.ndarray) -> np.ndarray:
    """Lower triangular L (m, m) with L L' = k(landmarks, landmarks), lifted by `JITTER`; O(m^3)."""
    K = kernel(landmarks, landmarks)
    K[np.diag_indices_from(K)] += JITTER * float(K.diagonal().max())
    return cholesky(K, lower=True, overwrite_a=True, check_finite=False)


def landmark_weights(factor: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The weights (m, L) of the landmarks' kernel functions, from coefficients W of features."""
    return solve_triangular(factor, W, lower=True, trans="T", check_finite=False)


def landmark_features(
    kernel: Kernel,
    landmarks: np.ndarray,
    factor: np.ndarray,
    design: Design,
    X: np.ndarray,
) -> np.ndarray:
    """Phi (n, m + 1) of rows X (n, features): inner products of its rows are the Nystroem kernel.

    Where the landmarks are all rows, that is the kernel itself. The last column is ones. O(n m^2)
    time, one array of the result's size.
    """
    n, m = len(X), len(landmarks)
    Phi = np.ones((n, m + 1))
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        K = kernel(design.dense(X[rows]), landmarks)
        Phi[rows, :m] = solve_triangular(
            factor, K.T, lower=True, overwrite_b=True, check_finite=False
        ).T
        report(min(start + BLOCK, n) / n)
    return Phi


class Objective:
    """The penalised mean deviance and its gradient, in preconditioned coefficients.

    `Phi` (n, r) features, the last column ones; `Y` (n, K-1) indicators of the classes but the
    reference; `weight` (n,), of positive sum. The Hessian never exceeds M (x) (Phi' diag(weight)
    Phi / 2 + penalty) (Boehning, Annals of the Institute of Statistical Mathematics 44, 1992); in
    coordinates where this bound is the identity the problem is well conditioned whatever the
    kernel's spectrum. Setting up is O(n r^2), an evaluation O(n r K).
    """

    def __init__(
        self, Phi: np.ndarray, Y: np.ndarray, weight: np.ndarray, C: float
    ) -> None:
        r = Phi.shape[1]
        functions = Y.shape[1]
        total = float(weight.sum())
        self.Phi = Phi
        self.Y = Y
        self.weight = weight / total
        self.penalty = np.full((r, 1), 1.0 / (C * total))
        self.penalty[-1] = 0.0  # intercepts are not penalised
        self.M = np.eye(functions)
        if functions > 1:
            self.M -= 1.0 / (functions + 1.0)
        self.T = np.linalg.cholesky(self.M)
        self.R = cholesky(self._bound(), overwrite_a=True, check_finite=False)

    def _bound(self) -> np.ndarray:
        r = self.Phi.shape[1]
        bound = np.zeros((r, r))
        for start in range(0, len(self.Phi), BLOCK):
            rows = slice(start, start + BLOCK)
            bound += (self.Phi[rows] * (0.5 * self.weight[rows, None])).T @ self.Phi[
                rows
            ]
        bound[np.diag_indices(r)] += self.penalty[:, 0]
        return bound

    def value_and_gradient(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """At coefficients W (r, K-1), the intercepts last."""
        F = self.Phi @ W
        top = np.maximum(F.max(axis=1), 0.0)
        E = np.exp(F - top[:, None])
        norm = np.exp(-top) + E.sum(axis=1)
        deviance = top + np.log(norm) - np.einsum("ij,ij->i", self.Y, F)
        E /= norm[:, None]
        E -= self.Y
        E *= self.weight[:, None]
        shrink = (self.penalty * W) @ self.M
        value = float(self.weight @ deviance + 0.5 * np.einsum("ij,ij->", shrink, W))
        return value, self.Phi.T @ E + shrink

    def coefficients(self, v: np.ndarray) -> np.ndarray:
        """W (r, K-1) of the flat preconditioned coefficients `v`."""
        V = solve_triangular(self.R, v.reshape(len(self.R), -1), check_finite=False)
        return solve_triangular(
            self.T, V.T, lower=True, trans="T", check_finite=False
        ).T

    def __call__(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and flat gradient in the preconditioned coefficients."""
        value, G = self.value_and_gradient(self.coefficients(v))
        G = solve_triangular(self.R, G, trans="T", check_finite=False)
        return value, solve_triangular(
            self.T, G.T, lower=True, check_finite=False
        ).T.ravel()


def solve(
    objective: Objective, *, max_iter: int, tol: float
) -> tuple[np.ndarray, int, float]:
    """Minimise by L-BFGS from zero until no entry of the preconditioned gradient exceeds `tol`.

    Returns W (r, K-1), the intercepts last, the number of steps, and the largest entry of the
    gradient there. Progress is how far the gradient has come down to `tol`, on a logarithmic scale.
    """
    norms: list[float] = []

    def reported(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(v)
        norms.append(max(float(np.abs(gradient).max()), tol))
        first = norms[0]
        report(log(first / min(norms)) / log(first / tol) if first > tol else 1.0)
        return value, gradient

    start = np.zeros(objective.R.shape[0] * objective.T.shape[0])
    options = {
        "maxiter": max_iter,
        "maxfun": 10 * max_iter,
        "gtol": tol,
        "ftol": 0.0,
        "maxcor": MEMORY,
        "maxls": 50,
    }
    minimum = minimize(reported, start, jac=True, method="L-BFGS-B", options=options)
    return (
        objective.coefficients(minimum.x),
        int(minimum.nit),
        float(np.abs(minimum.jac).max()),
    )
