"""Models that were trained elsewhere, in joblib or ONNX files, behind the interface of a learner.

Loading a joblib file runs the code that it names. onnxruntime runs ONNX files, the way in for
libraries other than scikit-learn.
"""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import joblib
import numpy as np

from payoff.decisions.folds import stratified_folds
from payoff.errors import Invalid, MissingPackage, PayoffError
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.fitted import Scorer
from payoff.learners.unseen import calibrated_unseen
from payoff.stored import Stored

FOLDS = 5
_MAX_ERROR = 300  # characters of a foreign error in a message
_TOLERANCE = 1e-4  # error of the sum of a row: some formats have float32
_SHOWN = 5  # names, or probabilities, in a message
_MAX_CLASSES_SHOWN = 20  # classes in a message
_ROWS_ALONE = 10  # rows that are predicted once more, each alone
_LARGEST_EXACT = 2.0**24  # single precision rounds larger numbers to integers, or more
CHANGE = 0.05
"""The largest change of a probability that rounding of inputs may cause."""
_NUMBERS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
}
_REPLACED = re.compile(r"\W")  # the characters that converters to ONNX replace in names


class Feature(Protocol):
    """A column of a data set; `categories` are those of a categorical one."""

    @property
    def type(self) -> str: ...

    @property
    def categories(self) -> tuple[str, ...]: ...


class Schema(Protocol):
    """The features of a data set, in order, and their names."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def features(self) -> Sequence[Feature]: ...


@dataclass(frozen=True)
class Columns(Stored):
    """The model's columns: `order` (w,) are their positions in the rows.

    `words` has for each column its categories, NaN last for a missing one, or None for numbers.
    """

    order: np.ndarray
    words: tuple[np.ndarray | None, ...]

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str] | None, count: int | None) -> Self:
        """The columns of a model that knows their `names`, or only their number.

        Invalid where the data set differs.
        """
        m = len(schema.names)
        if names is None and count is not None and count != m:
            message = (
                f"the model takes {count} columns, and the data set has {m} features"
            )
            raise Invalid.at("/dataset", message)
        if names is not None and set(names) != set(schema.names):
            missing = sorted({*names} - {*schema.names})[:_SHOWN]
            extra = sorted({*schema.names} - {*names})[:_SHOWN]
            raise Invalid.at(
                "/dataset",
                "the columns of model and data set differ: the data set lacks"
                f" {missing}, and the model does not take {extra}",
            )
        position = {name: j for j, name in enumerate(schema.names)}
        order = [position[name] for name in names] if names else list(range(m))
        words = [_words(schema.features[j]) for j in order]
        return cls(np.array(order, dtype=np.intp), tuple(words))

    def of_rows(self, X: np.ndarray) -> np.ndarray:
        """Rows X (n, m) as float64 (n, w), or as objects where a column has categories."""
        ordered = X.take(self.order, axis=1)
        if all(words is None for words in self.words):
            return ordered
        mixed = ordered.astype(object)
        for j, words in enumerate(self.words):
            if words is not None:
                codes = np.where(np.isnan(ordered[:, j]), -1, ordered[:, j]).astype(
                    np.intp
                )
                mixed[:, j] = words[codes]
        return mixed


def _words(feature: Feature) -> np.ndarray | None:
    """The categories of a feature, NaN last; None for a number."""
    if feature.type != "categorical":
        return None
    return np.array([*feature.categories, np.nan], dtype=object)


class Imported(Learner):
    """A model that was trained elsewhere.

    `scorer` answers rows as the data set has them. `takes_missing` (m,): the features whose missing
    values it answers; a row with others missing has probabilities NaN.
    """

    name: ClassVar = "imported"
    scorer: Scorer
    n_classes: int
    takes_missing: np.ndarray

    def __post_init__(self) -> None:
        self.classes_ = np.arange(self.n_classes)
        self.model_ = self.scorer
        self.calibrator_ = None
        self.calibration_ = "none"

    def complete_posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) of rows (n, m), NaN where missing.

        Invalid at /instances where the model raises an error.
        """
        P = np.full((len(X), self.n_classes), np.nan)
        rows = np.flatnonzero(~(np.isnan(X) & ~self.takes_missing).any(axis=1))
        if len(rows):
            try:
                P[rows] = self.scorer.posterior(X[rows])
            except (MemoryError, PayoffError):
                raise
            except (
                Exception
            ) as error:  # any error of the model, and of an answer of another shape
                text = f"{type(error).__name__}: {str(error)[:_MAX_ERROR]}"
                message = f"the model does not answer these instances: {text}"
                raise Invalid.at("/instances", message) from error
        return P if self.calibrator_ is None else self.calibrator_.apply(P)

    def calibrate(
        self,
        method: str,
        P: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        seed: int,
    ) -> np.ndarray:
        """Calibrate by `isotonic` or `sigmoid` on the model's P (n, K) of all rows, codes (n,).

        Each class has two rows or more. Returns probabilities (n, K) of the same rows, each by a
        calibration that was fitted without it.
        """
        self.calibration_ = method
        self.calibrator_ = loading.scikit.fit_calibrator(method, P, codes, weights)
        fold = stratified_folds(codes, min(FOLDS, int(np.bincount(codes).min())), seed)
        return calibrated_unseen(method, P, codes, weights, fold)


def class_order(
    names: Sequence[Any], classes: Sequence[int | str], place: str = "/dataset"
) -> np.ndarray | None:
    """The position of each of the data set's `classes` among the model's `names`.

    None where they are the same list. Names that are equal or written alike are one class: 1, 1.0
    and "1"; true, "true" and "True". Raises Invalid at `place`, with both lists.
    """
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    order = [
        next((j for j, name in enumerate(plain) if _alike(name, label)), -1)
        for label in classes
    ]
    if sorted(order) == list(range(len(plain))):
        return None if order == sorted(order) else np.array(order, dtype=np.intp)
    ours = ", ".join(map(repr, classes[:_MAX_CLASSES_SHOWN]))
    theirs = ", ".join(map(repr, plain[:_MAX_CLASSES_SHOWN]))
    message = f"the classes differ: the model has {theirs}, the labels of the data set are {ours}"
    raise Invalid.at(place, message)


def _alike(name: Any, label: int | str) -> bool:
    if name == label:
        return True
    if isinstance(name, bool):
        return str(name).lower() == str(label).lower()
    return str(name) == str(label)


def checked_rows(P: np.ndarray, n_classes: int) -> np.ndarray:
    """A model's answers as probabilities (n, K); Invalid where they are no probabilities."""
    P = np.asarray(P, dtype=np.float64)
    if P.ndim != 2 or P.shape[1] != n_classes:
        message = f"the model answers an array of shape {P.shape}; expected {n_classes} columns"
        raise Invalid.at("/file", message)
    good = (np.abs(P.sum(axis=1) - 1) <= _TOLERANCE) & (P >= -_TOLERANCE).all(axis=1)
    if not good.all():
        row = np.round(P[~good][0], 6).tolist()
        message = f"the model's answers are not probabilities that sum to 1, such as {row[:10]}"
        raise Invalid.at("/file", message)
    return P


def check_alone(scorer: "Foreign", X: np.ndarray, among: np.ndarray) -> None:
    """Raise Invalid where a model's answer for a row of X (n, m) depends on the other rows.

    `among` (n, K) are its answers for all rows together; a few rows are predicted alone.
    """
    for i in np.linspace(0, len(X) - 1, min(len(X), _ROWS_ALONE)).astype(np.intp):
        alone = scorer.answers(X[i : i + 1])
        if not np.allclose(alone, among[i], rtol=0, atol=_TOLERANCE):
            shown = [
                np.round(P.ravel(), 6).tolist()[:_SHOWN] for P in (alone, among[i])
            ]
            raise Invalid.at(
                "/file",
                f"the model's answer about row {i} depends on the other rows: it is {shown[0]}"
                f" alone, and {shown[1]} among {len(X)}; a model has to standardise by its training"
                " rows, not by the batch: export it in evaluation mode",
            )


def rounded_columns(scorer: Scorer, X: np.ndarray) -> tuple[np.ndarray, float]:
    """The columns of X (n, m) whose large numbers the model rounds, and how much that matters.

    The columns have numbers that single precision rounds to integers or more, and the model answers
    rounded numbers with the very same probabilities. The second value is the share of rows in which
    the next number of single precision changes a probability by more than `CHANGE`. Half of these
    next numbers are greater, half are smaller, at random, as differences of columns matter.
    """
    with np.errstate(over="ignore"):
        single = X.astype(np.float32)
    rounded = (single != X) & (np.abs(X) > _LARGEST_EXACT) & np.isfinite(single)
    columns = np.flatnonzero(rounded.any(axis=0))
    if not columns.size:
        return columns, 0.0
    P = scorer.posterior(X)
    if (scorer.posterior(np.where(rounded, single, X)) != P).any():
        return columns[:0], 0.0
    ends = np.random.default_rng(0).choice(
        np.array([-np.inf, np.inf], dtype=np.float32), X.shape
    )
    following = scorer.posterior(np.where(rounded, np.nextafter(single, ends), X))
    return columns, float((np.abs(following - P) > CHANGE).any(axis=1).mean())


@dataclass(frozen=True, eq=False, kw_only=True)
class Foreign(Stored):
    """A model of another library.

    `order` (K,) are the positions of the data set's classes among the model's; None where they
    agree.
    """

    columns: Columns
    order: np.ndarray | None = None

    def answers(self, X: np.ndarray) -> np.ndarray:
        """The probabilities (n, K) of rows (n, m) as the model gives them, in its order."""
        raise NotImplementedError

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K), divided by their sum: most ONNX files compute in float32."""
        P: np.ndarray = np.maximum(self.answers(X), 0.0)
        P /= P.sum(axis=1, keepdims=True)
        return P if self.order is None else P[:, self.order]


@dataclass(frozen=True, eq=False, kw_only=True)
class JoblibScorer(Foreign):
    """A classifier with `predict_proba`."""

    model: Any

    def answers(self, X: np.ndarray) -> np.ndarray:
        with joblib.parallel_config(backend="sequential"), warnings.catch_warnings():
            # A model that was fitted on a frame of pandas warns of rows without names.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return np.asarray(
                self.model.predict_proba(self.columns.of_rows(X)), dtype=np.float64
            )


def load_joblib(
    content: bytes, schema: Schema, classes: Sequence[int | str], *, version_skew: bool
) -> JoblibScorer:
    """The object in a joblib file as a scorer of the data set's rows.

    Invalid where the object does not fit the data set.
    With `version_skew` it may be of another version of scikit-learn, and answer otherwise than
    there; without, that library's warning about it is raised.
    """
    with warnings.catch_warnings():
        if not version_skew:
            warnings.simplefilter("error", loading.scikit.InconsistentVersionWarning)
        model = joblib.load(io.BytesIO(content))
    if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        raise Invalid.at(
            "/file",
            f"{type(model).__name__!r} gives no class probabilities (predict_proba), or is not"
            " fitted; expected a fitted classifier",
        )
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else [str(name) for name in names]
    columns = Columns.of(schema, known, getattr(model, "n_features_in_", None))
    order = class_order(list(model.classes_), classes)
    return JoblibScorer(columns=columns, order=order, model=model)


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxScorer(Foreign):
    """The bytes of an ONNX file.

    The session is not pickled: it is opened with the first rows, in one thread.
    """

    content: bytes

    @cached_property
    def session(self) -> Any:
        """The session; MissingPackage where onnxruntime is not installed."""
        return _session(self.content)

    def answers(self, X: np.ndarray) -> np.ndarray:
        output = self.run(X)
        if isinstance(output, list):
            return np.array([list(row.values()) for row in output], dtype=np.float64)
        P = np.asarray(output, dtype=np.float64).reshape(len(X), -1)
        return np.column_stack((1.0 - P, P)) if P.shape[1] == 1 else P

    def run(self, X: np.ndarray) -> Any:
        """The output that holds the probabilities: a map by class for each row, or an array."""
        inputs = self.session.get_inputs()
        rows = self.columns.of_rows(X)
        parts = (
            [rows]
            if len(inputs) == 1
            else [rows[:, j : j + 1] for j in range(len(inputs))]
        )
        feed = {
            node.name: _typed(values, node.type)
            for node, values in zip(inputs, parts, strict=True)
        }
        return self.session.run([_probabilities(self.session)], feed)[0]


def load_onnx(
    content: bytes,
    schema: Schema,
    classes: Sequence[int | str],
    named: Sequence[str] | None,
) -> OnnxScorer:
    """A scorer of the data set's rows.

    `named` are the classes of the columns of probabilities, where the model has no maps by class.
    Invalid where columns or classes do not fit; MissingPackage where onnxruntime is not installed.
    """
    columns = _columns(_session(content).get_inputs(), schema)
    scorer = OnnxScorer(columns=columns, content=content)
    if named is not None:
        return replace(scorer, order=class_order(named, classes, "/classes"))
    maps = scorer.run(np.zeros((1, len(schema.names))))
    if not isinstance(maps, list):
        message = (
            "the file does not name its classes: send them in the order of its columns"
        )
        raise Invalid.at("/classes", message)
    return replace(scorer, order=class_order(list(maps[0]), classes, "/dataset"))


def _session(content: bytes) -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra, and 80 MB
    except ImportError as error:
        raise MissingPackage(
            "ONNX models need onnxruntime: pip install onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # the memory of a large batch is given back
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )


def _columns(inputs: Sequence[Any], schema: Schema) -> Columns:
    """The features that the inputs take: all in one matrix, or one for each input, by its name."""
    matrix = len(inputs) == 1 and len(inputs[0].shape) == 2
    if matrix and (len(schema.names) > 1 or inputs[0].name not in schema.names):
        width = inputs[0].shape[1]
        return Columns.of(schema, None, width if isinstance(width, int) else None)
    plain = {_REPLACED.sub("_", name): name for name in schema.names}
    names = [plain.get(_REPLACED.sub("_", node.name), node.name) for node in inputs]
    return Columns.of(schema, names, None)


def _typed(values: np.ndarray, kind: str) -> np.ndarray:
    """Values as an input takes them; ValueError for other values, such as a missing word."""
    if kind == "tensor(string)":
        if not all(isinstance(value, str) for value in values.flat):
            raise ValueError("the model takes strings, and one is missing or a number")
        return values
    numbers = np.ascontiguousarray(values, dtype=_NUMBERS.get(kind, np.float64))
    if kind == "tensor(int64)" and not (numbers == values).all():
        raise ValueError("a number is not an integer")
    return numbers


def _probabilities(session: Any) -> str:
    """The name of the output of probabilities: maps by class, else numbers.

    Of several outputs that with "prob" in its name, else the last.
    """
    outputs = session.get_outputs()
    maps = [node for node in outputs if node.type.startswith("seq(map")]
    numbers = [
        node for node in outputs if node.type in ("tensor(float)", "tensor(double)")
    ]
    candidates = maps or numbers
    if not candidates:
        message = (
            "the model has no output of probabilities, only labels: "
            "export it with probabilities"
        )
        raise Invalid.at("/file", message)
    return next(
        (node for node in candidates if "prob" in node.name.lower()), candidates[-1]
    ).name
