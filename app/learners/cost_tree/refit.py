"""A linear classifier on a few given columns, without costs: the start of a tree, and its final refit."""

from __future__ import annotations

import numpy as np

from app.learners.cost_tree.losses import Loss, Squared


def fit_columns(
    columns: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    ridge: float,
    start: tuple[np.ndarray, np.ndarray],
    steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (T, L) and offsets (L,) with the least `sum_i w_i loss_i + ridge/2 |weights|^2`, by L-BFGS;
    least squares at once.

    columns (n, T), targets (n,), weights (n,) >= 0, `start` the same shapes as the answer. O(steps n T L).
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - 30 MB that predictions can spare

    if isinstance(loss, Squared):
        return _least_squares(columns, targets, weights, ridge)
    T, L = columns.shape[1], loss.outputs
    total = weights.sum()
    curve = loss.curvature * (weights @ np.square(columns)) + ridge
    scale = 1.0 / np.sqrt(np.concatenate((np.repeat(curve, L), np.full(L, loss.curvature * total))) / total + 1e-12)
    origin = np.concatenate((start[0].ravel(), start[1]))

    def scaled(u: np.ndarray) -> tuple[float, np.ndarray]:
        x = origin + u * scale
        W, b = x[: T * L].reshape(T, L), x[T * L :]
        losses, dS = loss(columns @ W + b, targets)
        value = weights @ losses + 0.5 * ridge * np.square(W).sum()
        dS *= weights[:, None]
        gradient = np.concatenate(((columns.T @ dS + ridge * W).ravel(), dS.sum(axis=0)))
        return float(value / total), gradient * scale / total

    options = {"maxiter": steps, "gtol": 1e-8, "ftol": 1e-13}
    found = minimize(scaled, np.zeros_like(origin), jac=True, method="L-BFGS-B", options=options)
    x = origin + found.x * scale
    return x[: T * L].reshape(T, L), x[T * L :]


def _least_squares(
    columns: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    total = weights.sum()
    means, mean = weights @ columns / total, weights @ targets / total
    centred = columns - means
    gram = (centred * weights[:, None]).T @ centred
    gram[np.diag_indices_from(gram)] += 0.5 * ridge
    W = np.linalg.lstsq(gram, centred.T @ (weights * (targets - mean)), rcond=None)[0]
    return W[:, None], np.array([mean - means @ W])
