"""What each feature contributes to a model's score of one class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from app.decisions.calibration import Calibrator, Multinomial, Sigmoid

_AGREES = 1e-9  # of a score


@dataclass(frozen=True)
class Contributions:
    """Of n rows, `values` (n, m) and `base` (n,), which add up to a score of the class `chosen` int (n,).

    `log_odds`: of the class against the others; `log_ratio`: the log of its probability less the mean log of all
    classes; `probability`. On rows that are `calibrated`, bool or bool (n,), the score is that of the answer's
    probabilities, on others that of the model before its calibration.
    """

    values: np.ndarray
    base: np.ndarray
    chosen: np.ndarray
    score: Literal["log_odds", "log_ratio", "probability"]
    calibrated: np.ndarray | bool = True

    def after(self, calibrator: Calibrator | None, P: np.ndarray) -> Contributions:
        """The same of the calibrated probabilities P (n, K), on the rows where these add up to their score."""
        folded = self if calibrator is None else self._folded(calibrator)
        score = self._score_of(P)
        with np.errstate(invalid="ignore"):
            gap = np.abs(folded.base + folded.values.sum(axis=1) - score)
            same = folded.calibrated & np.isfinite(score) & (gap <= _AGREES * np.maximum(1.0, np.abs(score)))
        values = np.where(same[:, None], folded.values, self.values)
        return replace(self, values=values, base=np.where(same, folded.base, self.base), calibrated=same)

    def _folded(self, calibrator: Calibrator) -> Contributions:
        """With the calibration inside: sigmoids are linear in log-odds, away from their limits; others stay outside."""
        if self.score == "log_odds" and isinstance(calibrator, Sigmoid):
            slope, offset = calibrator.slopes[0], calibrator.offsets[0]
            return replace(self, values=self.values * slope, base=self.base * slope + offset)
        if self.score == "log_ratio" and isinstance(calibrator, Multinomial):
            shift = (calibrator.offsets - calibrator.offsets.mean())[self.chosen]
            return replace(self, values=self.values * calibrator.slope, base=self.base * calibrator.slope + shift)
        return replace(self, calibrated=False)

    def _score_of(self, P: np.ndarray) -> np.ndarray:
        """The score (n,) of probabilities (n, K); infinite or NaN where they are 0 or 1."""
        p: np.ndarray = P[np.arange(len(P)), self.chosen]
        if self.score == "probability":
            return p
        with np.errstate(divide="ignore", invalid="ignore"):
            others = P.sum(axis=1) - p if P.shape[1] > 2 else P[np.arange(len(P)), 1 - self.chosen]
            score: np.ndarray = np.log(p) - (np.log(others) if self.score == "log_odds" else np.log(P).mean(axis=1))
        return score


def of_terms(T: np.ndarray, base: np.ndarray, chosen: np.ndarray) -> Contributions:
    """From the terms T (n, m, L) that add up, with `base` (L,), to log probabilities except for a constant of each row.

    One score is the log-odds of the second of two classes. Of two classes the second is explained, of more the chosen.
    """
    n, _, L = T.shape
    rows = np.arange(n)
    if L <= 2:
        difference = T[:, :, -1] - T[:, :, 0] if L == 2 else T[:, :, 0]
        start = base[-1] - base[0] if L == 2 else base[0]
        return Contributions(difference, np.full(n, start), np.ones(n, dtype=np.intp), "log_odds")
    values = T[rows, :, chosen] - T.mean(axis=2)
    return Contributions(values, (base - base.mean())[chosen], chosen, "log_ratio")
