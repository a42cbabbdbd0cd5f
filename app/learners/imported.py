"""Models that were trained elsewhere, behind the interface of a learner, and those that joblib files hold.

Loading a joblib file runs the code that it names. ONNX files: `onnx_model`.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import joblib
import numpy as np

from app.decisions.calibration import Calibrator, is_flat
from app.decisions.folds import stratified_folds
from app.errors import Invalid, PayoffError
from app.features import Schema
from app.learners.base import Scorer
from app.learners.loading import scikit
from app.text import some_of

FOLDS = 5
_WORDS = 300  # characters of a foreign error
_TOLERANCE = 1e-4  # of the sum of a row: some formats have float32
_SHOWN = 5


@dataclass(frozen=True)
class Columns:
    """The model's columns: `order` (w,) are their positions in the rows, `words` the categories of each, or None for
    numbers. A missing category becomes `absent`, NaN or None, whichever the model's encoders know.
    """

    order: np.ndarray
    words: tuple[np.ndarray | None, ...]
    absent: float | None = np.nan
    named: bool = True

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str] | None, count: int | None, absent: float | None = np.nan) -> Self:
        """The columns of a model that knows their `names`, or only their number; Invalid where the data set differs."""
        _check(schema.names, names, count)
        position = {name: j for j, name in enumerate(schema.names)}
        order = [position[name] for name in names] if names else list(range(len(schema.names)))
        found = [schema.features[j] for j in order]
        words = [
            np.array([*one.categories, absent], dtype=object) if one.type == "categorical" else None for one in found
        ]
        return cls(np.array(order, dtype=np.intp), tuple(words), absent, bool(names))

    def of_rows(self, X: np.ndarray) -> np.ndarray:
        """Rows X (n, m) as float64 (n, w), or as objects where a column has categories."""
        ordered = X.take(self.order, axis=1)
        if all(words is None for words in self.words):
            return ordered
        mixed = ordered.astype(object)
        for j, words in enumerate(self.words):
            if words is not None:
                mixed[:, j] = words[np.where(np.isnan(ordered[:, j]), -1, ordered[:, j]).astype(np.intp)]
        return mixed


def _check(there: Sequence[str], names: Sequence[str] | None, count: int | None) -> None:
    if names is None:
        if count is not None and count != len(there):
            raise Invalid.at("/dataset", f"the model takes {count} columns, and the data set has {len(there)} features")
        return
    absent, extra = [name for name in names if name not in there], [name for name in there if name not in names]
    parts = []
    if absent:
        parts.append(f"the data set lacks {some_of([repr(name) for name in absent], _SHOWN)}")
    if extra:
        parts.append(f"the model does not take {some_of([repr(name) for name in extra], _SHOWN)}")
    if parts:
        raise Invalid.at("/dataset", f"the columns of model and data set differ: {', and '.join(parts)}")


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
        """Probabilities (n, K) before the calibration."""
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
            apart[~inside] = (
                scikit().fit_calibrator(method, P[inside], codes[inside], weights[inside]).apply(P[~inside])
            )
        self.calibrator_ = scikit().fit_calibrator(method, P, codes, weights)
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


@dataclass(frozen=True, eq=False)
class JoblibScorer:
    """A classifier with `predict_proba`; `order` (K,): the data set's classes among its own, None where they agree."""

    model: Any
    columns: Columns
    order: np.ndarray | None

    @property
    def made_by(self) -> str:
        """The name of its class."""
        return type(self.model).__name__

    def answers(self, X: np.ndarray) -> np.ndarray:
        """The probabilities (n, K) as the model gives them, in its own order."""
        with joblib.parallel_config(backend="sequential"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # it was fitted on a frame
            return np.asarray(self.model.predict_proba(self.columns.of_rows(X)), dtype=np.float64)

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) of rows (n, m) in the order of the data set's classes."""
        P = self.answers(X)
        return P if self.order is None else P[:, self.order]


def load_joblib(content: bytes, schema: Schema, classes: Sequence[int | str], *, version_skew: bool) -> JoblibScorer:
    """The object in a joblib file as a scorer of the data set's rows; Invalid where they do not fit.

    `version_skew`: whether an estimator of another version of scikit-learn is taken.
    """
    model = _loaded(content, version_skew=version_skew)
    if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        what = f"{type(model).__name__!r} gives no class probabilities (predict_proba), or is not fitted"
        raise Invalid.at("/file", f"{what}; expected a fitted classifier")
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else [str(name) for name in names]
    columns = Columns.of(schema, known, getattr(model, "n_features_in_", None))
    return JoblibScorer(model, columns, class_order(list(model.classes_), classes))


def _loaded(content: bytes, *, version_skew: bool) -> Any:
    skew = scikit().InconsistentVersionWarning
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("ignore" if version_skew else "error", skew)
            return joblib.load(io.BytesIO(content))
    except skew as error:
        made, here = error.original_sklearn_version, error.current_sklearn_version
        what = f"{error.estimator_name} was made with scikit-learn {made}, and {here} is installed"
        raise Invalid.at("/file", f"{what}: save it with {here}, or set PAYOFF_ALLOW_VERSION_SKEW") from error
    except Exception as error:
        raise Invalid.at("/file", f"the file cannot be loaded: {type(error).__name__}: {str(error)[:300]}") from error
