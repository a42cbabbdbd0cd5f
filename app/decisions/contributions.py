"""What each feature contributes to a model's score of one class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from app.decisions.calibration import Calibrator, Multinomial, Sigmoid


@dataclass(frozen=True)
class Contributions:
    """Of n rows, `values` (n, m) and `base` (n,), which add up to a score of the class `chosen` int (n,).

    `log_odds`: of the class against the others; `log_ratio`: the log of its probability less the mean log of all
    classes; `probability`. With `calibrated` the score is that of the calibrated probabilities, where these do not
    touch the calibration's limits, else that of the model before its calibration.
    """

    values: np.ndarray
    base: np.ndarray
    chosen: np.ndarray
    score: Literal["log_odds", "log_ratio", "probability"]
    calibrated: bool = True

    def after(self, calibrator: Calibrator | None) -> Contributions:
        """The same of calibrated probabilities; sigmoids are linear in log-odds, other calibrations stay outside."""
        if calibrator is None:
            return self
        if self.calibrated and self.score == "log_odds" and isinstance(calibrator, Sigmoid):
            slope, offset = calibrator.slopes, calibrator.offsets
            if len(slope) == 1:
                return replace(self, values=self.values * slope[0], base=self.base * slope[0] + offset[0])
        if self.calibrated and self.score == "log_ratio" and isinstance(calibrator, Multinomial):
            shift = (calibrator.offsets - calibrator.offsets.mean())[self.chosen]
            return replace(self, values=self.values * calibrator.slope, base=self.base * calibrator.slope + shift)
        return replace(self, calibrated=False)


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
