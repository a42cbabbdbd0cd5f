"""Models in ONNX files, run by onnxruntime: the way in for other libraries than scikit-learn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from app.errors import Conflict, Invalid
from app.features import Schema
from app.learners.imported import Columns, class_order
from app.text import some_of

_NUMBERS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}
_TEXT = "tensor(string)"
_LABELS = ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
_MAX_MESSAGE = 300
_INT64 = 7  # TensorProto.DataType
_OF_SPREAD = 1e-6  # a change of a value, in standard deviations of its column
_OF_GAP = 1e-3  # the same, of the distance to the next value
_SHOWN = 5
_PLAIN = re.compile(r"\W")  # what converters replace in names


class OnnxScorer:
    """The bytes of an ONNX file, and how rows become its inputs and its outputs probabilities.

    `order` (K,) are the data set's classes among the columns of the model, or None; `classes` the names of the columns.
    The session is opened with the first rows, in one thread, and is not pickled.
    """

    made_by = ""
    """What made the file, as far as it says."""

    def __init__(self, content: bytes, columns: Columns, session: Any = None) -> None:
        self.content = content
        self.columns = columns
        self.order: np.ndarray | None = None
        self._open = session
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content, "columns": self.columns, "order": self.order}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _open=None, _lock=Lock())

    @property
    def session(self) -> Any:
        """The session; Conflict where onnxruntime is not installed."""
        with self._lock:
            if self._open is None:
                self._open = _session(self.content)
            return self._open

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) of rows (n, m), divided by their sum: most files compute in float32."""
        P: np.ndarray = np.maximum(self.answers(X), 0.0)
        P /= P.sum(axis=1, keepdims=True)
        return P if self.order is None else P[:, self.order]

    def answers(self, X: np.ndarray) -> np.ndarray:
        """The probabilities (n, K) as the model gives them, in its own order."""
        session = self.session
        name = _probabilities(session).name
        found = session.run([name], self._inputs(session.get_inputs(), X))[0]
        if isinstance(found, list):
            return np.array([list(row.values()) for row in found], dtype=np.float64)
        P = np.asarray(found, dtype=np.float64).reshape(len(X), -1)
        return np.column_stack((1.0 - P, P)) if P.shape[1] == 1 else P

    def names(self, model: Any) -> list[Any] | None:
        """The names of the columns of the probabilities, where the file, parsed as `model`, has them."""
        session = self.session
        output = _probabilities(session)
        if output.type.startswith("seq(map"):
            sample = np.zeros((1, len(self.columns.order)))
            return list(session.run([output.name], self._inputs(session.get_inputs(), sample))[0][0])
        return _labels(model)

    def rounds(self) -> list[int]:
        """The features that the file takes as 32-bit numbers."""
        inputs = self.session.get_inputs()
        kinds = [one.type for one in inputs] if len(inputs) > 1 else [inputs[0].type] * len(self.columns.order)
        return [int(j) for j, kind in zip(self.columns.order, kinds, strict=True) if _NUMBERS.get(kind) is np.float32]

    def _inputs(self, inputs: Sequence[Any], X: np.ndarray) -> dict[str, np.ndarray]:
        rows = self.columns.of_rows(X)
        if len(inputs) == 1:
            return {inputs[0].name: _typed(rows, inputs[0].type)}
        return {one.name: _typed(rows[:, j : j + 1], one.type) for j, one in enumerate(inputs)}


def load(content: bytes, schema: Schema, classes: Sequence[int | str], named: Sequence[str] | None) -> OnnxScorer:
    """A scorer of the data set's rows; `named` are the columns of the probabilities, where the file does not say so.

    Invalid where file, columns or classes do not fit; Conflict where onnxruntime is not installed.
    """
    model = _parsed(content)
    session = _session(content)
    found = OnnxScorer(content, _columns(session.get_inputs(), schema), session)
    found.made_by = f"ONNX by {model.producer_name or 'unknown'} {model.producer_version}".strip()
    names: list[Any] | None = None
    if named is not None:
        known = {str(name): name for name in classes}
        names = [known.get(name, name) for name in named]
    else:
        names = found.names(model)
    if names is None:
        raise Invalid.at("/classes", "the file does not name its classes: send 'classes' in the order of its columns")
    try:
        found.order = class_order(names, classes)
    except Invalid as error:
        if named is None:
            raise Invalid.at("/dataset", f"{error.detail}; 'classes' can name the model's columns") from error
        raise Invalid.at("/classes", error.detail) from error
    return found


def _session(content: bytes) -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra, and 80 MB
    except ImportError as error:
        raise Conflict("ONNX models need onnxruntime: install the extra 'onnx' (pip install 'payoff[onnx]')") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # what a large batch took is given back
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise Invalid.at("/file", f"the file cannot be loaded: {str(error)[:_MAX_MESSAGE]}") from error


def _parsed(content: bytes) -> Any:
    try:
        import onnx  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise Conflict("ONNX models need onnx: install the extra 'onnx' (pip install 'payoff[onnx]')") from error
    try:
        return onnx.load_model_from_string(content)
    except Exception as error:
        what = "the file is not an ONNX file, or is truncated"
        raise Invalid.at("/file", f"{what} ({type(error).__name__})") from error


def _labels(model: Any) -> list[Any] | None:
    """The class labels that a node of the file names, or the constant `classes`."""
    for node in model.graph.node:
        for attribute in node.attribute:
            named = [word.decode() for word in attribute.strings] or list(attribute.ints)
            if attribute.name in _LABELS and named:
                return named
    for tensor in model.graph.initializer:
        if tensor.name == "classes":
            return [word.decode() for word in tensor.string_data] or list(tensor.int64_data) or _numbers(tensor)
    return None


def _numbers(tensor: Any) -> list[Any] | None:
    return np.frombuffer(tensor.raw_data, dtype="<i8").tolist() if tensor.data_type == _INT64 else None


def _columns(inputs: Sequence[Any], schema: Schema) -> Columns:
    """Which features the inputs take: all in one matrix, or one each by their names."""
    for one in inputs:
        if one.type not in _NUMBERS and one.type != _TEXT:
            raise Invalid.at("/file", f"the input {one.name!r} is a {one.type}; expected numbers or strings")
    if len(inputs) == 1 and len(inputs[0].shape) == 2 and (len(schema.names) > 1 or inputs[0].name not in schema.names):
        width = inputs[0].shape[1]
        columns = Columns.of(schema, None, width if isinstance(width, int) else None)
        kinds = [inputs[0].type] * len(schema.names)
    else:
        plain = {_PLAIN.sub("_", name): name for name in schema.names}
        columns = Columns.of(schema, [plain.get(_PLAIN.sub("_", one.name), one.name) for one in inputs], None)
        kinds = [one.type for one in inputs]
    for j, kind in zip(columns.order, kinds, strict=True):
        feature = schema.features[j]
        if (kind == _TEXT) != (feature.type == "categorical"):
            wanted = "strings" if kind == _TEXT else "numbers"
            raise Invalid.at("/dataset", f"the model takes {wanted} for {feature.name!r}, which is {feature.type}")
    return columns


def _typed(values: np.ndarray, kind: str) -> np.ndarray:
    """Values as an input takes them; ValueError for those that it cannot, such as a missing word."""
    if kind == _TEXT:
        if not all(isinstance(value, str) for value in values.flat):
            raise ValueError("a string is missing")
        return values
    numbers = values.astype(np.float64)
    if kind == "tensor(int64)" and not (numbers == np.floor(numbers)).all():
        raise ValueError("a number is not an integer")
    return np.ascontiguousarray(numbers, dtype=_NUMBERS[kind])


def _probabilities(session: Any) -> Any:
    """The output that holds the probabilities: maps by class, or the numbers whose name says so, or the last ones."""
    outputs = session.get_outputs()
    found = [one for one in outputs if one.type.startswith("seq(map")]
    found = found or [one for one in outputs if one.type in ("tensor(float)", "tensor(double)")]
    if not found:
        raise Invalid.at("/file", "the model has no output of probabilities, only labels: export it with probabilities")
    return next((one for one in found if "prob" in one.name.lower()), found[-1])


def rounding_warnings(columns: Mapping[str, np.ndarray]) -> list[str]:
    """A sentence about the columns (n,), by name, whose values 32-bit numbers do not tell apart; or none."""
    changed = {name: found for name, values in columns.items() if (found := changed_value(values)) is not None}
    if not changed:
        return []
    first = next(iter(changed))
    with np.errstate(over="ignore"):
        example = f"{changed[first]:.17g} of {first!r} becomes {float(np.float32(changed[first])):.17g}"
    named = some_of([repr(name) for name in changed], _SHOWN)
    advice = "export it with DoubleTensorType, or subtract an offset from the feature before training"
    effect = f"values of {named} change ({example}), and decisions may differ from the original's"
    return [f"the file takes 32-bit numbers, in which {effect}; {advice}"]


def changed_value(values: np.ndarray) -> float | None:
    """Of values (n,) the one that changes most as float32, where that matters beside spread and neighbours; or None."""
    distinct = np.unique(values[np.isfinite(values)])
    if len(distinct) < 2:
        return None
    with np.errstate(over="ignore"):
        change = np.abs(distinct.astype(np.float32) - distinct)
    gaps = np.diff(distinct)
    nearest = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
    matters = (change > _OF_SPREAD * distinct.std()) & (change > _OF_GAP * nearest)
    return float(distinct[np.where(matters, change, -1.0).argmax()]) if matters.any() else None
