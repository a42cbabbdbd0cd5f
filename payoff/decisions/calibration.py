"""Calibrators: maps from a model's probabilities to probabilities that match observed frequencies.

`sigmoid` is Platt's curve for two classes. For more classes it is its multinomial form: one slope
for all classes and an offset for each, so that a class of three rows is calibrated with the slope
of all. `isotonic` is a monotone curve per class, one-vs-rest; a row is divided by its sum. A
calibrator fitted on n rows stays within [1/(n+2), (n+1)/(n+2)]: n cases cannot prove that an event
is impossible.

How they are fitted: `calibration_fits`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, logit, softmax

from payoff.stored import Stored

MIN_ROWS_OF_CURVE = 20  # rows of a class that has an isotonic curve of its own


class Calibrator(Protocol):
    """A fitted calibrator."""

    def apply(self, P: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (n, K) from those of the model (n, K); rows sum to 1.

        Nothing is checked. O(n K).
        """


@dataclass(frozen=True)
class Sigmoid(Stored):
    """Platt's curve `1/(1 + exp(-(slope log-odds + offset)))`, slope >= 0, for class 1 of two.

    Probabilities closer to 0 or 1 than `limit` count as `limit`; calibrated ones are from `lowest`
    to `1 - lowest`.
    """

    slopes: np.ndarray
    offsets: np.ndarray
    lowest: float
    limit: float = 1e-15

    def apply(self, P: np.ndarray) -> np.ndarray:
        Q = P[:, 1:]
        odds = logit(np.minimum(np.maximum(Q, self.limit), 1.0 - self.limit))
        odds *= self.slopes
        odds += self.offsets
        return _joined(
            np.minimum(np.maximum(expit(odds), self.lowest), 1.0 - self.lowest)
        )


@dataclass(frozen=True)
class Multinomial(Stored):
    """Probabilities proportional to `exp(slope log p_k + offset_k)`, slope >= 0, for K >= 3
    classes.

    Probabilities below `limit` count as `limit`; calibrated ones are at least about `lowest`.
    """

    slope: float
    offsets: np.ndarray
    lowest: float
    limit: float

    def apply(self, P: np.ndarray) -> np.ndarray:
        Z = np.log(np.maximum(P, self.limit))
        Z *= self.slope
        Z += self.offsets
        return _joined(np.maximum(softmax(Z, axis=1), self.lowest))


def are_constant(P: np.ndarray, models: int) -> bool:
    """Whether each of the models that predicted probabilities P (n, K), on different rows, predicts
    the same for all rows.
    """
    return len(np.unique(P, axis=0)) <= models


@dataclass(frozen=True)
class Isotonic(Stored):
    """Rising piecewise linear curves through knots, constant outside of them.

    There is one curve for each class, or a single one for class 1 of two.
    """

    knots: tuple[np.ndarray, ...]
    heights: tuple[np.ndarray, ...]

    def apply(self, P: np.ndarray) -> np.ndarray:
        if len(self.knots) == 1:
            out = np.empty_like(P)
            np.subtract(
                1.0, np.interp(P[:, 1], self.knots[0], self.heights[0]), out[:, 0]
            )
            np.subtract(1.0, out[:, 0], out[:, 1])
            return out
        curves = zip(self.knots, self.heights, strict=True)
        return _joined(
            np.column_stack(
                [np.interp(P[:, k], *curve) for k, curve in enumerate(curves)]
            )
        )


def is_flat(calibrator: Calibrator | None) -> bool:
    """Whether a calibrator gives all rows the same probabilities, because those that it was fitted
    on did not rank the rows.
    """
    if isinstance(calibrator, Multinomial):
        return calibrator.slope == 0
    if isinstance(calibrator, Isotonic):
        return not any(np.ptp(heights) for heights in calibrator.heights)
    return isinstance(calibrator, Sigmoid) and not calibrator.slopes.any()


def _joined(Q: np.ndarray) -> np.ndarray:
    """Curve values (n, 1) or (n, K), all positive, as rows that sum to 1."""
    if Q.shape[1] == 1:
        return np.concatenate((1.0 - Q, Q), axis=1)
    Q /= Q.sum(axis=1, keepdims=True)
    return Q
