"""Probabilities from the scores or probabilities of another system, by a calibration alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

import numpy as np

from payoff.decisions.folds import Blocks
from payoff.decisions.metrics import rank_area
from payoff.decisions.row_weights import effective_rows
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.linear import probabilities
from payoff.learners.parameters import Calibration
from payoff.learners.rows import weights_or_ones
from payoff.learners.unseen import best_calibration
from payoff.probabilities import are_shares, clipped
from payoff.stored import Stored

_TINY = 1e-300  # added to scores, so that a row of zeros has a sum
# Units from the centre. Scores that are farther away, such as -1e30 for minus infinity, count as
# that far.
_FARTHEST = 30.0


@dataclass(frozen=True)
class Standardised(Stored):
    """Scores in another unit, as probabilities.

    Of two classes from one score (n, 1) or from the difference of two (n, 2), of K classes from K
    scores.
    """

    centres: np.ndarray
    unit: float

    def posterior(self, X: np.ndarray) -> np.ndarray:
        Z = np.clip((_differences(X) - self.centres) / self.unit, -_FARTHEST, _FARTHEST)
        return probabilities(Z)


@dataclass(frozen=True)
class Given(Stored):
    """Probabilities (n, K) as they come; NaN in rows that are no probabilities."""

    def posterior(self, X: np.ndarray) -> np.ndarray:
        P = clipped(X)
        good = (P >= 0.0).all(axis=1) & are_shares(P)
        return np.where(good[:, None], P, np.nan)


@dataclass(frozen=True)
class Shares(Stored):
    """Scores from 0 to 1 as probabilities: of the second class (n, 1), or (n, K) over their sum."""

    def posterior(self, X: np.ndarray) -> np.ndarray:
        P = np.concatenate((1.0 - X, X), axis=1) if X.shape[1] == 1 else X + _TINY
        return np.asarray(P / P.sum(axis=1, keepdims=True))


class ScoreCalibrator(Learner):
    """Turns the scores of another system into probabilities; see `POST /calibrate`.

    A calibration of rows that are scores, (n, 1) for two classes or (n, K), or probabilities (n, K)
    (`input`).

    There is nothing else to fit, so the rows themselves are calibrated on, without folds. `auto` is
    `sigmoid`, or from 20 rows of the rarest class `isotonic` where its log loss is clearly better
    (`best_calibration`); probabilities with fewer than 10 rows outside the most common class stay
    as they are. Three scores or more have one unit; scores that all lie in [0, 1] count by their
    log-odds. `doubts_` are sentences about what such rows can tell.
    """

    name: ClassVar = "score_calibrator"
    _knows_gaps: ClassVar = True  # a row without its score is refused
    _min_rows_to_calibrate: ClassVar = 10

    calibration: Calibration = "auto"
    input: Annotated[Literal["scores", "probabilities"], "What the rows are."] = (
        "scores"
    )

    def refit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,  # noqa: ARG002 - nothing is split
    ) -> Self:
        """Calibrate again by the same method on rows (n, m) and labels (n,) of the same classes."""
        codes = np.searchsorted(self.classes_, y)
        weights = weights_or_ones(sample_weight, len(X))
        self._calibrate_on(np.ascontiguousarray(X), codes, weights)
        return self

    def _fit_calibrated(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> None:
        self.calibration_ = self._method(effective_rows(weights, codes))
        if self.calibration == "auto" and self.calibration_ != "none":
            P = self._model(X).posterior(X)
            self.calibration_ = best_calibration(
                P, codes, weights, may_leave=False, blocks=self.blocks
            )
        self._calibrate_on(X, codes, weights)

    def _calibrate_on(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> None:
        self.model_ = self._model(X)
        self.calibrator_ = None
        if self.calibration_ != "none":
            P = self.model_.posterior(X)
            self.calibrator_ = loading.scikit.fit_calibrator(
                self.calibration_, P, codes, weights
            )
        self.doubts_ = list(self._doubts(X, codes, weights))

    def _model(self, X: np.ndarray) -> Standardised | Given | Shares:
        if self.input == "probabilities":
            return Given()
        return Shares() if X.min() >= 0 and X.max() <= 1 else _standardised(X)

    def _method(self, counts: np.ndarray) -> str:
        method = (
            self._automatic(counts) if self.calibration == "auto" else self.calibration
        )
        # Scores are no probabilities without a calibration.
        return "sigmoid" if method == "none" and self.input == "scores" else method

    def _doubts(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> Iterator[str]:
        if self.input == "probabilities":
            if self.calibration == "auto" and self.calibration_ == "none":
                yield (
                    f"left uncalibrated: fewer than {self._min_rows_to_calibrate} rows are outside"
                    " of the most common class"
                )
            return
        if X.shape[1] <= 2:
            area, error = rank_area(_differences(X)[:, 0], codes == 1, weights)
            if area < 0.5 + error:
                yield (
                    f"the scores hardly rank the classes: the area under the ROC curve is"
                    f" {area:.2f}, give or take {error:.2f}; greater scores must mean the second"
                    f" class"
                )


def _standardised(X: np.ndarray) -> Standardised:
    """Units that a mark such as -1e30 in some rows does not change, nor does a score that many rows
    share.
    """
    D = _differences(X)
    centres = np.array([np.median(np.unique(column)) for column in D.T])
    values = (D - centres).ravel()
    # The interquartile range of the values, or of the distinct ones where that is smaller or the
    # first is 0.
    ranges = [
        float(np.subtract(*np.percentile(numbers, (75, 25))))
        for numbers in (values, np.unique(values))
    ]
    return Standardised(
        centres, min((spread for spread in ranges if spread > 0), default=1.0)
    )


def _differences(X: np.ndarray) -> np.ndarray:
    """Of two classes one score, the greater the more probable the second."""
    return X[:, 1:] - X[:, :1] if X.shape[1] == 2 else X
