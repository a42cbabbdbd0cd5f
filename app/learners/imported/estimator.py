"""An imported model with a calibration on top: what the registry keeps, and what requests ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from app.acquisition.prices import Prices
from app.acquisition.session import StepwiseModel
from app.acquisition.stopping import Experience, learn
from app.decisions.calibration import Calibrator, fit_calibrator, is_flat
from app.decisions.contributions import Contributions
from app.decisions.folds import stratified_folds
from app.errors import Invalid, PayoffError, TooLarge
from app.learners.base import Scorer
from app.learners.imported.measured import BATCH_ROWS, batch_rows
from app.learners.imported.turns import turns

_FAILURES = 64  # rows that a request may have refused one by one
FOLDS = 5
_EXPERIENCE = 2000  # rows
_SECONDS = 60.0  # that a request may take
_TOLERANCE = 1e-4  # of the sum of a row: some formats have float32


class Imported:
    """A model that was trained elsewhere.

    `scorer` answers rows as the data set has them. `takes_missing` (m,): the features whose missing values it answers.
    A row that it refuses has probabilities NaN. `stepwise`: whether it acquires features one at a time, as `model_`.
    """

    inline: ClassVar[bool] = False
    """Whether a small request may be answered on the event loop: this depends on the model, so no."""
    stepwise = False
    experience_: Experience | None = None
    calibrator_: Calibrator | None = None
    calibration_ = "none"
    batch = BATCH_ROWS
    """The rows that the model gets at once."""
    row_seconds = 0.0

    def __init__(self, model: Scorer, n_classes: int, sample: np.ndarray, facts: dict[str, Any]) -> None:
        """`sample` (1, m) is a row without missing values, if there is one; `facts` are for the card."""
        self.scorer = model
        self.model_: Any = model
        self.classes_ = np.arange(n_classes)
        self.n_features_in_ = sample.shape[1]
        self.sample = sample
        self.facts = facts
        self.takes_missing = self._taken(sample)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) of rows (n, m), NaN where missing; NaN for rows that the model refuses.

        TooLarge where they take too long, Busy where too many calls wait.
        """
        if len(X) * self.row_seconds > _SECONDS:
            most = int(_SECONDS / self.row_seconds)
            raise TooLarge(
                f"the model takes more than {_SECONDS:.0f} s for {len(X):,} instances; send at most {most:,}"
            )
        P = self.raw(X)
        return P if self.calibrator_ is None else self.calibrator_.apply(P)

    def raw(self, X: np.ndarray) -> np.ndarray:
        """The same before the calibration."""
        P = np.full((len(X), len(self.classes_)), np.nan)
        rows = np.flatnonzero(~(np.isnan(X) & ~self.takes_missing).any(axis=1))
        left = [_FAILURES]
        with turns.call() as turn:
            for start in range(0, len(rows), self.batch):
                some = rows[start : start + self.batch]
                with turn:
                    P[some] = self._careful(X[some], left)
        return P

    def bound(self, row_bytes: float, row_seconds: float) -> None:
        """Have the model get no more rows at once than its memory allows, and say in the card what a row takes."""
        self.batch, self.row_seconds = batch_rows(row_bytes), row_seconds
        self.facts["row"] = {"bytes": round(row_bytes), "seconds": float(f"{row_seconds:.2g}"), "batch": self.batch}

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

    def acquire_with(self, forest: StepwiseModel, X: np.ndarray, codes: np.ndarray, prices: Prices) -> None:
        """Acquire features with a forest of the same answers; rows X (n, m) and codes (n,) show when that stops to pay.

        The rows are taken for new ones, as in the metrics.
        """
        self.model_, self.stepwise, self.chosen_ = forest, True, "random_forest"
        rows = np.random.default_rng(0).permutation(len(X))[:_EXPERIENCE]
        if not len(forest.columns) or len(np.unique(codes[rows])) < len(self.classes_):
            return
        trajectories = forest.travel(X[rows], prices)
        if trajectories.length.any():
            finish = (lambda P: P) if self.calibrator_ is None else self.calibrator_.apply
            self.experience_ = learn(trajectories, codes[rows], X.shape[1], finish)

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions | None:
        """As of a learner: of forests that acquire features; None of other models."""
        found: Contributions | None = self.model_.contributions(X, chosen) if self.stepwise else None
        if found is None:
            return None
        P = self.model_.posterior(X)  # the scorer's up to rounding
        return found.after(self.calibrator_, P if self.calibrator_ is None else self.calibrator_.apply(P))

    def ranks(self) -> bool:
        """Whether the probabilities differ from row to row, as far as the calibration knows."""
        return not is_flat(self.calibrator_)

    def findings(self) -> dict[str, Any]:
        """What the card says about the model."""
        return self.facts

    def _careful(self, X: np.ndarray, left: list[int]) -> np.ndarray:
        """Probabilities of rows (n, m), halved until those that the model refuses are found: `left[0]` of them."""
        try:
            return self.scorer.posterior(X)
        except (MemoryError, PayoffError):
            raise
        except Exception:  # noqa: BLE001 - whatever a foreign model raises, these rows have no answer
            left[0] -= len(X) == 1
            if len(X) == 1 or left[0] <= 0:
                return np.full((len(X), len(self.classes_)), np.nan)
        half = len(X) // 2
        return np.concatenate((self._careful(X[:half], left), self._careful(X[half:], left)))

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
        except Exception:  # noqa: BLE001 - see above
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
