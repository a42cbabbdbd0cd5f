"""Probabilities from the scores or probabilities of another system, by a calibration alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit

from app.decisions.calibration import fit_calibrator
from app.learners._scores import softmax
from app.learners.base import Learner
from app.learners.kinds import Kind
from app.learners.parameters import CALIBRATION, Parameter

SUM_TOLERANCE = 1e-6  # of a row of probabilities
_TAIL = 1.0  # per cent of the scores at each end that do not decide about the unit


@dataclass(frozen=True)
class Standardised:
    """Scores in another unit, as probabilities: of two classes from one score (n, 1) or from the difference of two
    (n, 2), of K classes from K scores. A calibration by a sigmoid does not depend on `centres` and `unit`.
    """

    centres: np.ndarray
    unit: float

    def posterior(self, X: np.ndarray) -> np.ndarray:
        Z = (_differences(X) - self.centres) / self.unit
        return expit(np.concatenate((-Z, Z), axis=1)) if Z.shape[1] == 1 else softmax(Z)


@dataclass(frozen=True)
class Given:
    """Probabilities (n, K) as they come; NaN in rows that are none."""

    def posterior(self, X: np.ndarray) -> np.ndarray:
        good = (X >= 0).all(axis=1) & (np.abs(X.sum(axis=1) - 1) <= SUM_TOLERANCE)
        return np.where(good[:, None], X, np.nan)


class ScoreCalibrator(Learner):
    """A calibration of rows that are scores, (n, 1) for two classes or (n, K), or probabilities (n, K) (`input`).

    There is nothing else to fit, so the rows themselves are calibrated on, without folds. `auto` is `isotonic` from
    1,000 rows of the rarest class, else `sigmoid`; probabilities with fewer than 20 rows outside the most common class
    stay as they are.
    """

    parameters = (
        CALIBRATION,
        Parameter("input", "choice", "scores", "What the rows are.", choices=("scores", "probabilities")),
    )

    def __init__(
        self,
        *,
        input: str = "scores",  # noqa: A002 - the parameter's name in requests and cards
        calibration: str = "auto",
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.input = input
        self.calibration = calibration
        self.categorical_features = categorical_features
        self.random_state = random_state

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Calibrate again on rows (n, m) and labels (n,) of the same classes, by the same method."""
        self._calibrate_on(np.ascontiguousarray(X), np.searchsorted(self.classes_, y), np.ones(len(X)))
        return self

    def _fit_calibrated(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.calibration_ = self._method(np.bincount(codes))
        self._calibrate_on(X, codes, weights)

    def _method(self, counts: np.ndarray) -> str:
        method = self._automatic(counts) if self.calibration == "auto" else self.calibration
        return "sigmoid" if method == "none" and self.input == "scores" else method  # scores have no probabilities

    def _calibrate_on(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.model_, self.calibrator_ = self._fit_raw(X, codes, weights), None
        if self.calibration_ != "none":
            self.calibrator_ = fit_calibrator(self.calibration_, self.model_.posterior(X), codes, weights)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Standardised | Given:  # noqa: ARG002
        if self.input == "probabilities":
            return Given()
        D = _differences(X)
        D = D - (centres := np.median(D, axis=0))
        unit = float(np.clip(D, *np.percentile(D, (_TAIL, 100 - _TAIL))).std()) or float(D.std())
        return Standardised(centres, unit or 1.0)


def _differences(X: np.ndarray) -> np.ndarray:
    """Of two classes one score, the greater the more probable the second."""
    return X[:, 1:] - X[:, :1] if X.shape[1] == 2 else X


SCORE_CALIBRATOR = Kind(
    "score_calibrator",
    ScoreCalibrator,
    ScoreCalibrator.parameters,
    "Turns the scores of another system into probabilities; see `POST /calibrate`.",
)
