"""The training losses of a tree of linear classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Loss(Protocol):
    """A convex loss of scores (n, `outputs`) against targets (n,); `curvature` bounds its second derivative."""

    @property
    def outputs(self) -> int: ...

    @property
    def curvature(self) -> float: ...

    def __call__(self, S: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The loss of each row (n,) and its derivative by each score (n, outputs)."""
        ...


@dataclass(frozen=True)
class Squared:
    """`(s - y)^2` for numbers."""

    outputs: int = 1
    curvature: float = 2.0

    def __call__(self, S: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        difference = S - y[:, None]
        return np.square(difference[:, 0]), 2.0 * difference


@dataclass(frozen=True)
class TwoClasses:
    """`log(1 + exp(-s))` for class 1 and `log(1 + exp(s))` for class 0."""

    outputs: int = 1
    curvature: float = 0.25

    def __call__(self, S: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sign = 1.0 - 2.0 * y
        margin = sign * S[:, 0]
        small = np.exp(-np.abs(margin))
        wrong = np.where(margin >= 0, 1.0, small) / (1.0 + small)
        return np.maximum(margin, 0.0) + np.log1p(small), (sign * wrong)[:, None]


@dataclass(frozen=True)
class Classes:
    """Cross-entropy of a softmax over `outputs` scores, one for each class."""

    outputs: int
    curvature: float = 0.5

    def __call__(self, S: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = np.arange(len(S))
        P = S - S.max(axis=1, keepdims=True)
        own = P[rows, y]
        np.exp(P, out=P)
        total = P.sum(axis=1)
        P /= total[:, None]
        P[rows, y] -= 1.0
        return np.log(total) - own, P


def loss_of(n_classes: int) -> Loss:
    """The loss for a number of classes; 0 is regression."""
    if n_classes == 0:
        return Squared()
    return TwoClasses() if n_classes == 2 else Classes(n_classes)
