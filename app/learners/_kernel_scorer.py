"""A kernel model folded together with its preparation of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from app.learners._design import Design
from app.learners._hinges import Hinges
from app.learners._kernel_maths import BLOCK, Kernel
from app.learners._linear import Linear
from app.learners._scores import softmax

_FAR = 1e200  # kernel values beyond keep their sign and no more: their sums must stay finite


@dataclass(frozen=True)
class KernelScorer:
    """Probabilities from raw rows: softmax of k(x, landmarks) alpha + intercept.

    The kernels depend on inner products of prepared rows only. `products` gives those with the m landmarks straight
    from raw rows (`Linear`, its outputs the landmarks), and as its last output the number of a row's marks and
    categories: as these columns are 0 or 1, that is their part of |x|^2. For rbf the outputs are
    gamma (2 <x, z> - |z|^2). `alpha` (m, K), `intercept` (K,): zero for the reference class.
    """

    kernel: Kernel
    products: Linear
    numeric: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    alpha: np.ndarray
    intercept: np.ndarray
    hinges: Hinges | None = None

    @classmethod
    def fold(
        cls, design: Design, kernel: Kernel, landmarks: np.ndarray, alpha: np.ndarray, intercept: np.ndarray
    ) -> Self:
        """From prepared landmarks (m, width) and the coefficients of their kernel functions."""
        ones = np.ones((1, design.width))
        ones[0, : len(design.numeric)] = 0.0
        rows = np.concatenate((landmarks, ones))
        shift = np.zeros(len(rows))
        rows *= kernel.gamma
        if kernel.name == "rbf":
            rows[:-1] *= 2.0
            shift[:-1] = -kernel.gamma * np.einsum("ij,ij->i", landmarks, landmarks)
        products = Linear.fold(design, rows, shift)
        return cls(kernel, products, design.numeric, design.means, design.scales, alpha, intercept, design.hinges)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        if len(X) <= BLOCK:
            return self._block(X)
        return np.concatenate([self._block(X[start : start + BLOCK]) for start in range(0, len(X), BLOCK)])

    def _block(self, X: np.ndarray) -> np.ndarray:
        S = self.products.scores(X)
        G = S[:, :-1]
        if self.kernel.name == "rbf":
            G -= S[:, -1:] + self.kernel.gamma * self._squares(X)
            np.minimum(G, 0.0, out=G)  # a squared distance that rounding made negative
            np.exp(G, out=G)
        else:
            G += 1.0
            limit = _FAR ** (1.0 / self.kernel.degree)
            np.clip(G, -limit, limit, out=G)
            np.power(G, self.kernel.degree, out=G)
        return softmax(G.dot(self.alpha) + self.intercept)

    def _squares(self, X: np.ndarray) -> np.ndarray:
        """|x|^2 (n, 1) over the prepared numeric columns, a missing one being 0."""
        Q = X.take(self.numeric, axis=1) if self.hinges is None else self.hinges.curves(X)
        Q = (Q - self.means) / self.scales
        # fmin and fmax pass over NaN, which must become 0 and is no distance; 1e100 squared is still finite
        np.copyto(Q, 0.0, where=np.isnan(Q))
        np.clip(Q, -1e100, 1e100, out=Q)
        squares: np.ndarray = np.einsum("ij,ij->i", Q, Q)[:, None]
        return squares
