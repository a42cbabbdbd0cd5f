"""An imported model with a calibration on top: what the registry keeps, and what requests ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from app.decisions.calibration import Calibrator, fit_calibrator, is_flat
from app.decisions.folds import stratified_folds
from app.errors import Invalid, PayoffError
from app.learners.base import Scorer

FOLDS = 5
_WORDS = 300  # characters of a foreign error
_TOLERANCE = 1e-4  # of the sum of a row: some formats have float32


class Imported:
    """A model that was trained elsewhere.

    `scorer` answers rows as the data set has them. `takes_missing` (m,): the features whose missing values it answers;
    a row with others missing has probabilities NaN.
    """

    inline: ClassVar[bool] = False
    """Whether a small request may be answered on the event loop: this depends on the model, so no."""
    stepwise = False
    calibrator_: Calibrator | None = None
    calibration_ = "none"

    def __init__(self, model: Scorer, n_classes: int, sample: np.ndarray, facts: dict[str, Any]) -> None:
        """`sample` (1, m) is a row without missing values, if there is one; `facts` are for the card."""
        self.scorer = model
        self.model_: Any = model
        self.classes_ = np.arange(n_classes)
        self.n_features_in_ = sample.shape[1]
        self.facts = facts
        self.takes_missing = self._taken(sample)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) of rows (n, m), NaN where missing; Invalid at /instances where the model raises."""
        P = self.raw(X)
        return P if self.calibrator_ is None else self.calibrator_.apply(P)

    def raw(self, X: np.ndarray) -> np.ndarray:
        """The same before the calibration."""
        P = np.full((len(X), len(self.classes_)), np.nan)
        rows = np.flatnonzero(~(np.isnan(X) & ~self.takes_missing).any(axis=1))
        if len(rows):
            P[rows] = self._answered(X[rows])
        return P

    def calibrate(self, method: str, P: np.ndarray, codes: np.ndarray, seed: int) -> np.ndarray:
        """Calibrate by `isotonic` or `sigmoid` on the model's P (n, K) of all rows with codes (n,).

        Returns probabilities (n, K) of the same rows, each by a calibration that was fitted without it.
        """
        counts = np.bincount(codes, minlength=len(self.classes_))
        if counts.min() < 2:
            raise Invalid.at("/calibration", "a calibration needs two rows of each class; send calibration none")
        weights, apart = np.ones(len(P)), np.empty_like(P)
        fold = stratified_folds(codes, min(FOLDS, int(counts.min())), seed)
        for number in np.unique(fold):
            inside = fold != number
            apart[~inside] = fit_calibrator(method, P[inside], codes[inside], weights[inside]).apply(P[~inside])
        self.calibrator_ = fit_calibrator(method, P, codes, weights)
        self.calibration_ = method
        return apart

    def contributions(self, _X: np.ndarray, _chosen: np.ndarray) -> None:
        """None: what is inside of the model is its own."""
        return

    def ranks(self) -> bool:
        """Whether the probabilities differ from row to row, as far as the calibration knows."""
        return not is_flat(self.calibrator_)

    def findings(self) -> dict[str, Any]:
        """What the card says about the model."""
        return self.facts

    def _answered(self, X: np.ndarray) -> np.ndarray:
        """The model's probabilities of rows (n, m); Invalid where it raises, or their shape is another."""
        try:
            P = self.scorer.posterior(X)
        except (MemoryError, PayoffError):
            raise
        except Exception as error:
            what = f"the model does not answer these instances: {type(error).__name__}: {str(error)[:_WORDS]}"
            raise Invalid.at("/instances", what) from error
        if P.shape != (len(X), len(self.classes_)):
            raise Invalid.at("/instances", f"the model answers {P.shape} numbers for {len(X)} instances")
        return P

    def _taken(self, sample: np.ndarray) -> np.ndarray:
        """The features (m,) that may be missing in the row `sample` (1, m)."""
        m = sample.shape[1]
        if self._answers(np.full_like(sample, np.nan)):
            return np.ones(m, dtype=bool)
        each = np.repeat(sample, m, axis=0)
        np.fill_diagonal(each, np.nan)
        return np.array([self._answers(each[j : j + 1]) for j in range(m)])

    def _answers(self, row: np.ndarray) -> bool:
        try:
            return bool(np.isfinite(self.scorer.posterior(row)).all())
        except PayoffError:
            raise
        except Exception:  # noqa: BLE001 - whatever a foreign model raises, it does not answer
            return False


def class_order(names: Sequence[Any], classes: Sequence[int | str]) -> np.ndarray | None:
    """The position of each of the data set's `classes` among the model's `names`, None where they are the same list.

    Invalid at /dataset with the difference. 1, 1.0 and true are one class, and "1" is another; true is also "True".
    """
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    if all(isinstance(name, bool) for name in plain) and all(isinstance(name, str) for name in classes):
        plain = [next((one for one in classes if str(one).lower() == str(name).lower()), name) for name in plain]
    if len(plain) == len(classes) and all(name in plain for name in classes):
        order = [plain.index(name) for name in classes]
        return None if order == list(range(len(classes))) else np.array(order, dtype=np.intp)
    ours, theirs = (", ".join(map(repr, list(each)[:20])) for each in (classes, plain))
    hint = ""
    if {str(name) for name in plain} == {str(name) for name in classes}:
        words = any(isinstance(name, str) for name in plain)
        hint = "; upload the data set with " + ("the label a category in 'types'" if words else "numbers as labels")
    message = f"the classes differ: the model has {theirs}, the labels of the data set are {ours}{hint}"
    raise Invalid.at("/dataset", message)


def checked_rows(P: np.ndarray, n_classes: int) -> np.ndarray:
    """A model's answers as probabilities (n, K); Invalid where they are none."""
    P = np.asarray(P, dtype=np.float64)
    if P.ndim != 2 or P.shape[1] != n_classes:
        raise Invalid.at("/file", f"the model answers an array of shape {P.shape}; expected {n_classes} columns")
    known = P[np.isfinite(P).all(axis=1)]
    off = (np.abs(known.sum(axis=1) - 1) > _TOLERANCE) | (known < -_TOLERANCE).any(axis=1)
    if off.any():
        row = np.round(known[off][0], 6).tolist()
        raise Invalid.at("/file", f"the model's answers are not probabilities that sum to 1, such as {row[:10]}")
    return P
