"""Shared by the learners of several labels: the form of the labels, and their calibration curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import expit, logit

from app.decisions.calibration import Calibrator, Isotonic, Sigmoid
from app.errors import Invalid
from app.learners.base import Learner, scikit

if TYPE_CHECKING:  # see `base`
    from sklearn.utils import Tags

_FARTHEST = float(logit(1 - 1e-15))  # log-odds whose probability still differs from 1


class Multilabel(Learner):
    """Base of the learners whose y is an indicator (n, L) of 0 and 1. A subclass has `_fit_labels` and `_odds`.

    Fitted: `classes_` (0 … L-1), `curves_`, `calibrations_` (the method used for each label) and `calibration_` (all of
    them in one string). `predict_proba` and `posterior` return the marginals (n, L), not one array per label.
    """

    labels: ClassVar = "several"
    curves_: Curves = field(init=False, repr=False)
    calibrations_: list[str] = field(init=False, repr=False)

    def _fit_labels(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        """Fit on rows (n, m), labels (n, L) and positive weights; sets `curves_` and `calibrations_`."""
        raise NotImplementedError

    def _odds(self, X: np.ndarray) -> np.ndarray:
        """Log-odds (n, L) before calibration for rows (n, m)."""
        raise NotImplementedError

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit on rows (n, m), NaN where missing, and labels (n, L) of 0 and 1; weights (n,) count as repeated rows.

        Raises Invalid for a wrong parameter or labels of another form.
        """
        X, y, weights = scikit().checked(self, X, y, sample_weight, multi_output=True)
        scikit().check_classification_targets(y)
        Y = as_indicator(y)
        self._check_all(X)
        self.classes_ = np.arange(Y.shape[1])
        self._fit_labels(X, Y, weights)
        self.calibration_ = ", ".join(sorted(set(self.calibrations_)))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The labels (n, L) whose probability is above 1/2, as 1, the others as 0."""
        return (self.predict_proba(X) > 0.5).astype(np.intp)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """`predict_proba` without any check, for float64 C-contiguous rows (n, m)."""
        return self.curves_.apply(self._odds(X))

    def __sklearn_tags__(self) -> Tags:
        found: Tags = scikit().tags(several=True)
        return found


def constant_share(ones: float, rows: int) -> float:
    """The probability of a label that is the same in all rows."""
    return (ones + 1) / (rows + 2)


@dataclass(frozen=True)
class Curves:
    """The calibration curves of L labels, applied together: a sigmoid each, and steps for the `stepped` ones."""

    slopes: np.ndarray
    offsets: np.ndarray
    lowest: np.ndarray
    stepped: tuple[tuple[int, np.ndarray, np.ndarray], ...]
    farthest: np.ndarray

    @classmethod
    def of(cls, calibrators: Sequence[Calibrator | None]) -> Self:
        """From calibrators of two classes; None leaves the label's probability as it is."""
        slopes, offsets, lowest = np.ones(len(calibrators)), np.zeros(len(calibrators)), np.zeros(len(calibrators))
        farthest = np.full(len(calibrators), _FARTHEST)
        stepped = []
        for position, curve in enumerate(calibrators):
            if isinstance(curve, Sigmoid):
                slopes[position], offsets[position], lowest[position] = curve.slopes[0], curve.offsets[0], curve.lowest
                farthest[position] = logit(1 - curve.limit)
            elif isinstance(curve, Isotonic):
                stepped.append((position, curve.knots[0], curve.heights[0]))
        return cls(slopes, offsets, lowest, tuple(stepped), farthest)

    def apply(self, Z: np.ndarray) -> np.ndarray:
        """Probabilities (n, L), never 0 or 1, for log-odds (n, L)."""
        odds = np.minimum(np.maximum(Z, -self.farthest), self.farthest)
        odds *= self.slopes
        odds += self.offsets
        P: np.ndarray = np.minimum(np.maximum(expit(odds), self.lowest), 1.0 - self.lowest)
        for position, knots, heights in self.stepped:
            P[:, position] = np.interp(P[:, position], knots, heights)
        return P


def as_indicator(y: Any) -> np.ndarray:
    """The labels as integers (n, L); Invalid where they are no table of 0 and 1."""
    table = y.toarray() if scikit().sparse.issparse(y) else np.asarray(y)
    if table.ndim != 2 or not np.isin(table, (0, 1)).all():
        raise Invalid.at("", "labels take a table of 0 and 1: a row per instance, a column per label")
    return table.astype(np.int64)
