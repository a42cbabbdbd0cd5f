"""Models that were trained elsewhere, behind the interface of a learner: of joblib files, and of
ONNX files.

Loading a joblib file runs the code that it names. onnxruntime runs ONNX files, the way in for other
libraries than scikit-learn.
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
from payoff.learners.base import Learner, Scorer
from payoff.learners.unseen import calibrated_unseen
from payoff.stored import Stored

FOLDS = 5
_WORDS = 300  # characters of a foreign error
_TOLERANCE = 1e-4  # of the sum of a row: some formats have float32
_SHOWN = 5
_ROWS_ALONE = 10  # rows that are answered once more, each alone
_WHOLE = 2.0**24  # numbers beyond it are rounded to whole ones, or more, in single precision
CHANGE = 0.05
"""Of a probability: what a change of rounding may not exceed."""
_NUMBERS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}
_PLAIN = re.compile(r"\W")  # what converters to ONNX replace in names


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
    """The model's columns: `order` (w,) are their positions in the rows, `words` the categories of
    each and NaN for a missing one, or None for numbers.
    """

    order: np.ndarray
    words: tuple[np.ndarray | None, ...]

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str] | None, count: int | None) -> Self:
        """The columns of a model that knows their `names`, or only their number; Invalid where the
        data set differs.
        """
        if names is None and count is not None and count != len(schema.names):
            what = f"the model takes {count} columns, and the data set has {len(schema.names)} features"
            raise Invalid.at("/dataset", what)
        if names is not None and set(names) != set(schema.names):
            absent, extra = sorted({*names} - {*schema.names}), sorted({*schema.names} - {*names})
            what = f"the data set lacks {absent[:_SHOWN]}, and the model does not take {extra[:_SHOWN]}"
            raise Invalid.at("/dataset", f"the columns of model and data set differ: {what}")
        position = {name: j for j, name in enumerate(schema.names)}
        order = [position[name] for name in names] if names else list(range(len(schema.names)))
        found = [schema.features[j] for j in order]
        words = [
            np.array([*one.categories, np.nan], dtype=object) if one.type == "categorical" else None
            for one in found
        ]
        return cls(np.array(order, dtype=np.intp), tuple(words))

    def of_rows(self, X: np.ndarray) -> np.ndarray:
        """Rows X (n, m) as float64 (n, w), or as objects where a column has categories."""
        ordered = X.take(self.order, axis=1)
        if all(words is None for words in self.words):
            return ordered
        mixed = ordered.astype(object)
        for j, words in enumerate(self.words):
            if words is not None:
                mixed[:, j] = words[
                    np.where(np.isnan(ordered[:, j]), -1, ordered[:, j]).astype(np.intp)
                ]
        return mixed


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
        self.model_, self.calibrator_, self.calibration_ = self.scorer, None, "none"

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) of rows (n, m), NaN where missing; Invalid at /instances where the
        model raises.
        """
        P = np.full((len(X), self.n_classes), np.nan)
        rows = np.flatnonzero(~(np.isnan(X) & ~self.takes_missing).any(axis=1))
        if len(rows):
            try:
                P[rows] = self.scorer.posterior(X[rows])
            except (MemoryError, PayoffError):
                raise
            except Exception as error:  # ValueError, too, where the shape is another
                what = f"the model does not answer these instances: {type(error).__name__}: {str(error)[:_WORDS]}"
                raise Invalid.at("/instances", what) from error
        return P if self.calibrator_ is None else self.calibrator_.apply(P)

    def calibrate(self, method: str, P: np.ndarray, codes: np.ndarray, seed: int) -> np.ndarray:
        """Calibrate by `isotonic` or `sigmoid` on the model's P (n, K) of all rows with codes (n,),
        two of each class.

        Returns probabilities (n, K) of the same rows, each by a calibration that was fitted without
        it.
        """
        weights = np.ones(len(P))
        self.calibration_, self.calibrator_ = (
            method,
            loading.scikit.fit_calibrator(method, P, codes, weights),
        )
        fold = stratified_folds(codes, min(FOLDS, int(np.bincount(codes).min())), seed)
        return calibrated_unseen(method, P, codes, weights, fold)


def class_order(
    names: Sequence[Any], classes: Sequence[int | str], place: str = "/dataset"
) -> np.ndarray | None:
    """The position of each of the data set's `classes` among the model's `names`, None where they
    are the same list.

    Invalid with both. What is equal or written alike is one class: 1, 1.0 and "1"; true, "true" and
    "True".
    """
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    order = [next((j for j, name in enumerate(plain) if _alike(name, one)), -1) for one in classes]
    if sorted(order) == list(range(len(plain))):
        return None if order == sorted(order) else np.array(order, dtype=np.intp)
    ours, theirs = (", ".join(map(repr, list(each)[:20])) for each in (classes, plain))
    raise Invalid.at(
        place, f"the classes differ: the model has {theirs}, the labels of the data set are {ours}"
    )


def _alike(name: Any, one: int | str) -> bool:
    written = (
        str(name).lower() == str(one).lower() if isinstance(name, bool) else str(name) == str(one)
    )
    return bool(name == one) or written


def checked_rows(P: np.ndarray, n_classes: int) -> np.ndarray:
    """A model's answers as probabilities (n, K); Invalid where they are none."""
    P = np.asarray(P, dtype=np.float64)
    if P.ndim != 2 or P.shape[1] != n_classes:
        raise Invalid.at(
            "/file", f"the model answers an array of shape {P.shape}; expected {n_classes} columns"
        )
    good = (np.abs(P.sum(axis=1) - 1) <= _TOLERANCE) & (P >= -_TOLERANCE).all(axis=1)
    if not good.all():
        row = np.round(P[~good][0], 6).tolist()
        raise Invalid.at(
            "/file", f"the model's answers are not probabilities that sum to 1, such as {row[:10]}"
        )
    return P


def check_alone(scorer: "Foreign", X: np.ndarray, among: np.ndarray) -> None:
    """Invalid where a model answers some row of X (n, m) alone otherwise than `among` the others
    (n, K).
    """
    for i in np.linspace(0, len(X) - 1, min(len(X), _ROWS_ALONE)).astype(np.intp):
        alone = scorer.answers(X[i : i + 1])
        if not np.allclose(alone, among[i], rtol=0, atol=_TOLERANCE):
            shown = [np.round(P.ravel(), 6).tolist()[:_SHOWN] for P in (alone, among[i])]
            raise Invalid.at(
                "/file",
                f"the model's answer about row {i} depends on the other rows: it is {shown[0]} alone, and"
                f" {shown[1]} among {len(X)}; a model has to standardise by its training rows, not by the"
                " batch: export it in evaluation mode",
            )


def rounded_columns(scorer: Scorer, X: np.ndarray) -> tuple[np.ndarray, float]:
    """The columns of X (n, m) with numbers that single precision rounds by 1 or more, if the model
    rounds them so; and for which share of the rows the next single number changes a probability by
    more than `CHANGE`.

    A model rounds them that answers rounded numbers with the very same probabilities. Half of the
    next numbers are greater, half are smaller, at random, as differences of columns matter.
    """
    with np.errstate(over="ignore"):
        single = X.astype(np.float32)
    rounded = (single != X) & (np.abs(X) > _WHOLE) & np.isfinite(single)
    columns = np.flatnonzero(rounded.any(axis=0))
    if not columns.size:
        return columns, 0.0
    P = scorer.posterior(X)
    if (scorer.posterior(np.where(rounded, single, X)) != P).any():
        return columns[:0], 0.0
    ends = np.random.default_rng(0).choice(np.array([-np.inf, np.inf], dtype=np.float32), X.shape)
    following = scorer.posterior(np.where(rounded, np.nextafter(single, ends), X))
    return columns, float((np.abs(following - P) > CHANGE).any(axis=1).mean())


@dataclass(frozen=True, eq=False, kw_only=True)
class Foreign(Stored):
    """A model of another library; `order` (K,): the data set's classes among its own, None where
    they agree.
    """

    columns: Columns
    order: np.ndarray | None = None

    def answers(self, X: np.ndarray) -> np.ndarray:
        """The probabilities (n, K) of rows (n, m) as the model gives them, in its own order."""
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
            warnings.filterwarnings(
                "ignore", "X does not have valid feature names"
            )  # it was fitted on a frame
            return np.asarray(self.model.predict_proba(self.columns.of_rows(X)), dtype=np.float64)


def load_joblib(
    content: bytes, schema: Schema, classes: Sequence[int | str], *, version_skew: bool
) -> JoblibScorer:
    """The object in a joblib file as a scorer of the data set's rows; Invalid where they do not
    fit.

    With `version_skew` it may be of another version of scikit-learn, and answer otherwise than
    there; without, that library's warning about it is raised.
    """
    with warnings.catch_warnings():
        if not version_skew:
            warnings.simplefilter("error", loading.scikit.InconsistentVersionWarning)
        model = joblib.load(io.BytesIO(content))
    if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        what = f"{type(model).__name__!r} gives no class probabilities (predict_proba), or is not fitted"
        raise Invalid.at("/file", f"{what}; expected a fitted classifier")
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else [str(name) for name in names]
    columns = Columns.of(schema, known, getattr(model, "n_features_in_", None))
    return JoblibScorer(
        columns=columns, order=class_order(list(model.classes_), classes), model=model
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class OnnxScorer(Foreign):
    """The bytes of an ONNX file. The session is not pickled: it is opened with the first rows, in
    one thread.
    """

    content: bytes

    @cached_property
    def session(self) -> Any:
        """The session; MissingPackage where onnxruntime is not installed."""
        return _session(self.content)

    def answers(self, X: np.ndarray) -> np.ndarray:
        found = self.run(X)
        if isinstance(found, list):
            return np.array([list(row.values()) for row in found], dtype=np.float64)
        P = np.asarray(found, dtype=np.float64).reshape(len(X), -1)
        return np.column_stack((1.0 - P, P)) if P.shape[1] == 1 else P

    def run(self, X: np.ndarray) -> Any:
        """The output that holds the probabilities: a map by class for each row, or an array."""
        inputs, rows = self.session.get_inputs(), self.columns.of_rows(X)
        parts = [rows] if len(inputs) == 1 else [rows[:, j : j + 1] for j in range(len(inputs))]
        sent = {one.name: _typed(part, one.type) for one, part in zip(inputs, parts, strict=True)}
        return self.session.run([_probabilities(self.session)], sent)[0]


def load_onnx(
    content: bytes, schema: Schema, classes: Sequence[int | str], named: Sequence[str] | None
) -> OnnxScorer:
    """A scorer of the data set's rows; `named` are the columns of the probabilities, where the
    model has no maps.

    Invalid where columns or classes do not fit; MissingPackage where onnxruntime is not installed.
    """
    scorer, place = (
        OnnxScorer(columns=_columns(_session(content).get_inputs(), schema), content=content),
        "/classes",
    )
    if named is None:
        first, place = scorer.run(np.zeros((1, len(schema.names)))), "/dataset"
        if not isinstance(first, list):
            raise Invalid.at(
                "/classes",
                "the file does not name its classes: send them in the order of its columns",
            )
        named = list(first[0])
    return replace(scorer, order=class_order(named, classes, place))


def _session(content: bytes) -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra, and 80 MB
    except ImportError as error:
        raise MissingPackage("ONNX models need onnxruntime: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # what a large batch took is given back
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _columns(inputs: Sequence[Any], schema: Schema) -> Columns:
    """Which features the inputs take: all in one matrix, or one each by their names."""
    if (
        len(inputs) == 1
        and len(inputs[0].shape) == 2
        and (len(schema.names) > 1 or inputs[0].name not in schema.names)
    ):
        width = inputs[0].shape[1]
        return Columns.of(schema, None, width if isinstance(width, int) else None)
    plain = {_PLAIN.sub("_", name): name for name in schema.names}
    return Columns.of(
        schema, [plain.get(_PLAIN.sub("_", one.name), one.name) for one in inputs], None
    )


def _typed(values: np.ndarray, kind: str) -> np.ndarray:
    """Values as an input takes them; ValueError for those that it cannot, such as a missing word."""
    if kind == "tensor(string)":
        if not all(isinstance(value, str) for value in values.flat):
            raise ValueError("the model takes strings, and one is missing or a number")
        return values
    numbers = np.ascontiguousarray(values, dtype=_NUMBERS.get(kind, np.float64))
    if kind == "tensor(int64)" and not (numbers == values).all():
        raise ValueError("a number is not an integer")
    return numbers


def _probabilities(session: Any) -> str:
    """The output that holds the probabilities: maps by class, or the numbers whose name says so, or
    the last ones.
    """
    outputs = session.get_outputs()
    found = [one for one in outputs if one.type.startswith("seq(map")]
    found = found or [one for one in outputs if one.type in ("tensor(float)", "tensor(double)")]
    if not found:
        raise Invalid.at(
            "/file",
            "the model has no output of probabilities, only labels: export it with probabilities",
        )
    return next((one for one in found if "prob" in one.name.lower()), found[-1]).name
