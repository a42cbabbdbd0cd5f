"""The Open Inference Protocol v2 and its extension for binary data: its documents, and tensors read and written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import orjson
from fastapi import Response
from pydantic import BaseModel, Field, StrictBool, StrictInt, WithJsonSchema

from app.api.codecs.answers import Answered, Words
from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import BINARY, JSON
from app.api.codecs.npy import finite
from app.api.memory import NUMBER, VALUE, Charge
from app.api.routing import checked, parsed_text
from app.errors import Flaw, Invalid, below, pointer, reject, unknown
from app.features import OUTSIDE, Schema
from app.text import some_of
from app.usecases.fields import Text, WireModel
from app.usecases.predict import PredictFields, Rows
from app.usecases.rules import Rule

NUMBERS = {
    **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
}
BYTES = "BYTES"
HEADER_LENGTH = "Inference-Header-Content-Length"
_LENGTH = 4  # bytes before each element of BYTES in binary form, little endian
_MAX_NAMED = 20  # features in a message
_DATA: dict[str, Any] = {"type": "array", "items": {"type": ["number", "string", "null", "array"], "items": {}}}
_FLOATS, _INTEGERS, _WORDS = {float, int, type(None)}, {int}, {str, type(None)}

_MAX_INPUTS = 10_000
_MAX_OUTPUTS = 10
_MAX_ID = 1000  # characters
_BINARY_OUTPUT = "binary_data_output"
_OF_CODECS = frozenset({"content_type", "headers"})  # what MLServer's clients add; they have no effect
_TEXT_FIELDS = ("rule",)
_FIELDS = frozenset(PredictFields.model_fields) - {"model", "classes", "normalize"}
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {_BINARY_OUTPUT: {"type": "boolean"}},
    "additionalProperties": True,
    "description": "the fields of `/predict` besides `model` and `instances`, as JSON or as text that holds JSON",
}

Datatype = Literal[
    "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64", "BYTES"
]


class TensorParameters(WireModel):
    """How the data of a tensor come."""

    binary_data_size: StrictInt | None = Field(default=None, ge=0, description="bytes after the JSON, in place of data")
    content_type: Literal["np", "pd", "str"] | None = Field(
        default=None, description="of MLServer's codecs; not needed"
    )


class TensorDocument(WireModel):
    """An input: rows in feature order `[n, features]`, or one feature, named after it, `[n]` or `[n, 1]`."""

    name: Text
    datatype: Datatype
    shape: Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(min_length=1, max_length=2)]
    parameters: TensorParameters | None = None
    data: Annotated[list[Any] | None, WithJsonSchema(_DATA)] = Field(
        default=None, description="in row-major order, flat or nested; null where missing"
    )


class OutputParameters(WireModel):
    """How the data of an output shall come."""

    binary_data: StrictBool | None = Field(default=None, description="after the JSON of the answer")
    content_type: Text | None = Field(default=None, description="of MLServer's codecs; has no effect")


class OutputDocument(WireModel):
    """An output that is wanted."""

    name: Text
    parameters: OutputParameters | None = None


class Tensor(NamedTuple):
    """An input as read: `values` are flat, numbers as float64 or texts."""

    name: str
    datatype: str
    shape: list[int]
    values: np.ndarray | list[str | None]


def split(body: bytes, length: str | None) -> tuple[bytes, bytes]:
    """The JSON of a body, and the binary data after it; `length` is the header Inference-Header-Content-Length."""
    if length is None:
        return body, b""
    if not (length.isascii() and length.isdigit() and len(length) < 16 and int(length) <= len(body)):
        raise Invalid.at(
            "",
            f"Inference-Header-Content-Length is {length[:40]!r}; it must be the length of the body's JSON, at most"
            f" {len(body)} bytes",
        )
    return body[: int(length)], body[int(length) :]


def tensors(inputs: Sequence[TensorDocument], block: bytes, charge: Charge) -> list[Tensor]:
    """The inputs with their data from JSON or, in their order, from the binary `block`; Invalid where they disagree."""
    names = [sent.name for sent in inputs]
    if len(set(names)) < len(names):
        raise Invalid.at("/inputs", "two inputs have the same name")
    sizes = [sent.parameters.binary_data_size if sent.parameters else None for sent in inputs]
    announced = sum(size or 0 for size in sizes)
    if announced != len(block):
        raise Invalid.at(
            "/inputs",
            f"the inputs have {announced} bytes of binary data by their binary_data_size, and {len(block)} bytes follow"
            " the JSON, whose length the header Inference-Header-Content-Length has to say",
        )
    found, at = [], 0
    for number, (sent, size) in enumerate(zip(inputs, sizes, strict=True)):
        try:
            if size is not None:
                charge(min(math.prod(sent.shape), size), VALUE if sent.datatype == BYTES else NUMBER)
            values = _of_json(sent) if size is None else _of_binary(sent, block[at : at + size])
        except Invalid as error:
            raise error.under(pointer("inputs", number)) from error
        at += size or 0
        found.append(Tensor(sent.name, sent.datatype, sent.shape, values))
    return found


def _of_json(sent: TensorDocument) -> np.ndarray | list[str | None]:
    data = sent.data
    if data is None:
        raise Invalid.at("", f"{sent.name!r} has neither data nor binary_data_size")
    if data and type(data[0]) is list:
        if not {list}.issuperset(map(type, data)) or [len(data), *set(map(len, data))] != sent.shape:
            raise Invalid.at("/data", f"the lists in data do not have the shape {sent.shape}")
        data = list(chain.from_iterable(data))
    if len(data) != math.prod(sent.shape):
        raise Invalid.at("/data", f"data has {len(data)} elements, and the shape is {sent.shape}")
    allowed = _WORDS if sent.datatype == BYTES else _FLOATS if sent.datatype.startswith("FP") else _INTEGERS
    if not allowed.issuperset(map(type, data)):
        place = next(i for i, value in enumerate(data) if type(value) not in allowed)
        needed = "a string or null" if allowed is _WORDS else "an integer" if allowed is _INTEGERS else "a number"
        raise Invalid.at("/data", f"element {place} of {sent.name!r} is not {needed}, as {sent.datatype} has it")
    if sent.datatype == BYTES:
        return data
    try:
        with np.errstate(over="ignore"):
            return np.array(data, NUMBERS[sent.datatype]).astype(np.float64)
    except OverflowError as error:
        message = OUTSIDE if sent.datatype == "FP64" else f"a number is outside the range of {sent.datatype}"
        raise Invalid.at("/data", message) from error


def _of_binary(sent: TensorDocument, block: bytes) -> np.ndarray | list[str | None]:
    if sent.data is not None:
        raise Invalid.at("/data", f"{sent.name!r} has data and binary_data_size; send one of them")
    count = math.prod(sent.shape)
    if sent.datatype == BYTES:
        return _elements(block, count)
    kind = NUMBERS[sent.datatype]
    if len(block) != count * kind.itemsize:
        raise Invalid.at(
            "/parameters/binary_data_size",
            f"{len(block)} bytes are not {count} elements of {sent.datatype}, as the shape {sent.shape} has them",
        )
    return np.frombuffer(block, kind).astype(np.float64)


def _elements(block: bytes, count: int) -> list[str | None]:
    """The texts in a block, each after its length; Invalid where they are not `count`, or not UTF-8."""
    place, at, end = "/parameters/binary_data_size", 0, len(block)
    if count * _LENGTH > end:
        raise Invalid.at(place, f"{end} bytes are too few for {count} elements of BYTES, each after its length")
    found: list[str | None] = []
    for number in range(count):
        begin = at + _LENGTH
        at = begin + int.from_bytes(block[at:begin], "little")
        if at > end or begin > end:
            raise Invalid.at(place, f"the length of element {number} leads beyond the {end} bytes of the tensor")
        try:
            found.append(block[begin:at].decode())
        except UnicodeDecodeError as error:
            raise Invalid.at(place, f"element {number} is not UTF-8") from error
    if at != end:
        raise Invalid.at(place, f"{end - at} bytes follow the last of {count} elements")
    return found


def rows_of_tensors(inputs: Sequence[Tensor], schema: Schema) -> Rows:
    """The inputs as the model's matrix (n, m), NaN where missing, and warnings: one matrix, or one tensor per feature.

    Raises Invalid at `/inputs` where names, datatypes or shapes do not fit, at `/instances/row/column` for values.
    """
    first, names = inputs[0], schema.names
    rows = first.shape[0]
    if len(inputs) > 1 or (first.name in names and first.shape[1:] in ([], [1])):
        columns = _by_feature(inputs, names)
    elif first.shape[1:] == [len(names)]:
        columns = [first._replace(values=first.values[j :: len(names)]) for j in range(len(names))]
    else:
        raise Invalid.at(
            "/inputs/0/shape",
            f"the shape of {first.name!r} is {first.shape}; it must be [n, {len(names)}], or send an input for each"
            f" feature: {some_of(list(map(repr, names)), _MAX_NAMED)}",
        )
    X = np.empty((rows, len(names)))
    warnings: list[str] = []
    for j, column in enumerate(columns):
        X[:, j], notes = _encoded(column, schema, j)
        warnings += notes
    return Rows(finite(X, "/instances"), warnings)


def _by_feature(inputs: Sequence[Tensor], names: Sequence[str]) -> list[Tensor]:
    """The input of each feature; Invalid where one is unknown or missing, or not of one column with as many rows."""
    found = {sent.name: sent for sent in inputs}
    known = frozenset(names)
    reject(
        Flaw(pointer("inputs", number, "name"), unknown("feature", sent.name, names))
        for number, sent in enumerate(inputs)
        if sent.name not in known
    )
    reject(Flaw("/inputs", f"there is no input for the feature {name!r}") for name in names if name not in found)
    rows = inputs[0].shape[0]
    reject(
        Flaw(pointer("inputs", number, "shape"), f"the shape of {sent.name!r} is {sent.shape}; it must be [{rows}]")
        for number, sent in enumerate(inputs)
        if sent.shape not in ([rows], [rows, 1])
    )
    return [found[name] for name in names]


def _encoded(column: Tensor, schema: Schema, j: int) -> tuple[np.ndarray, list[str]]:
    """The values of feature `j` as `Schema.encode` has them."""
    categorical = j in schema.categorical
    if isinstance(column.values, list) != categorical:
        needed = f"an input of {BYTES}, for its categories" if categorical else "an input of numbers"
        raise Invalid.at("/inputs", f"{column.name!r} is {column.datatype}; send {schema.names[j]!r} as {needed}")
    if isinstance(column.values, np.ndarray):
        return column.values, []
    with below("/instances"):
        return schema.codes(j, column.values)


def encode(
    answered: Answered, id_: str | None, outputs: Sequence[OutputDocument], *, binary: bool, notes: Sequence[str] = ()
) -> Response:
    """The columns as outputs, all where none are named, and the rest in `parameters`, with `notes` among the warnings.

    Outputs that do not say how they come are `binary` data, or JSON.
    """
    found = {column.name: column.values for column in answered.columns()}
    drawn = {"propensities": found.pop("propensities")} if "propensities" in found else {}
    reject(
        Flaw(pointer("outputs", number, "name"), unknown("output", wanted.name, found))
        for number, wanted in enumerate(outputs)
        if wanted.name not in found
    )
    asked = [(each.name, each.parameters.binary_data if each.parameters else None) for each in outputs]
    asked = asked or [(name, None) for name in found]
    blocks: list[bytes] = []
    written = [_output(name, found[name], blocks, binary if own is None else own) for name, own in asked]
    rest = {**answered.carried.document(), **answered.rest(), **drawn, **answered.explained()}
    model = rest.pop("model")
    parameters = {**rest, "warnings": [*answered.warnings, *notes]}
    head = {
        "model_name": model["name"],
        "model_version": str(model["version"]),
        **({} if id_ is None else {"id": id_}),
        "parameters": {name: _scalar(value) for name, value in parameters.items()},
    }
    content = b'%b,"outputs":[%b]}' % (orjson.dumps(head)[:-1], b",".join(written))
    if not blocks:
        return Response(content, media_type=JSON)
    return Response(b"".join((content, *blocks)), media_type=BINARY, headers={HEADER_LENGTH: str(len(content))})


def _output(name: str, values: np.ndarray | Words, blocks: list[bytes], is_binary: bool) -> bytes:
    """The output as the answer describes it, as JSON: with its data, or with their size and the data in `blocks`."""
    described: dict[str, Any] = {"name": name, "datatype": "FP64", "shape": values.shape}
    if isinstance(values, Words):
        values = Words(values.choice, [str(word) for word in values.names])
        described["datatype"] = BYTES
    if not is_binary:
        return json_bytes(described | {"data": values.listed() if isinstance(values, Words) else np.ravel(values)})
    blocks.append(_elements_of(values) if isinstance(values, Words) else values.tobytes())
    return json_bytes(described | {"parameters": {"binary_data_size": len(blocks[-1])}})


def _elements_of(words: Words) -> bytes:
    """Texts, each after its length."""
    encoded = [str(name).encode() for name in words.names]
    elements = [len(name).to_bytes(_LENGTH, "little") + name for name in encoded]
    return b"".join(map(elements.__getitem__, words.choice.tolist()))


def _scalar(value: Any) -> Any:
    """A parameter of the protocol is a number, a boolean or a text: other values are JSON text."""
    if isinstance(value, str | int | float):
        return value
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()


class WithoutMatrix(PredictFields):
    """A request with neither a matrix nor a rule, which other services answer with the most probable class."""

    rule: Rule = "most_probable"


class InferRequest(WireModel):
    """Inputs, what is at stake, and which outputs are wanted (all where none are named)."""

    id: Annotated[str, Field(max_length=_MAX_ID)] | None = None
    parameters: Annotated[dict[str, Any] | None, WithJsonSchema(_PARAMETERS)] = None
    inputs: list[TensorDocument] = Field(min_length=1, max_length=_MAX_INPUTS)
    outputs: list[OutputDocument] | None = Field(default=None, max_length=_MAX_OUTPUTS)

    def question(self) -> PredictFields:
        """The parameters as fields of `/predict`; Invalid below `/parameters`."""
        sent = self.parameters or {}
        known = sorted((*_FIELDS, _BINARY_OUTPUT))
        reject(
            Flaw(pointer("parameters", name), unknown("parameter", name, known))
            for name in sent
            if name not in known and name not in _OF_CODECS
        )
        try:
            fields = {
                name: parsed_text(name, value) if isinstance(value, str) and name not in _TEXT_FIELDS else value
                for name, value in sent.items()
                if name in _FIELDS
            }
            matrix = fields.get("benefits") is not None or fields.get("cost_matrix") is not None
            return checked(PredictFields if matrix or "rule" in fields else WithoutMatrix, fields)
        except Invalid as error:
            raise error.under("/parameters") from error

    @property
    def binary(self) -> bool:
        """Whether outputs come as binary data where they do not say how."""
        value = (self.parameters or {}).get(_BINARY_OUTPUT, False)
        if not isinstance(value, bool):
            raise Invalid.at(pointer("parameters", _BINARY_OUTPUT), f"{_BINARY_OUTPUT!r} must be true or false")
        return value


class OutputTensor(BaseModel):
    """An output: `data` in row-major order, or their size where they follow as binary data."""

    name: str
    datatype: Datatype
    shape: list[int]
    parameters: dict[str, int] | None = None
    data: list[float | str | None] | None = None


class InferAnswer(BaseModel):
    """What the model says about each row; lists and objects in `parameters` are JSON text."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, str | float | bool] = Field(
        description="`warnings`, `rule`, `classes` and `actions` (the columns of the outputs), and what `/predict`"
        " answers besides"
    )
    outputs: list[OutputTensor]


class TensorMetadata(BaseModel):
    """A tensor that a model takes or gives; -1 is any size."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelMetadata(BaseModel):
    """What a model takes and gives."""

    name: str
    versions: list[str] = Field(description="that exist; the highest comes last")
    platform: str
    inputs: list[TensorMetadata] = Field(description="an input per feature; or send one matrix [n, features]")
    outputs: list[TensorMetadata]
    parameters: dict[str, str] = Field(description="`version` that is described, and its `classes` as JSON text")


class ServerMetadata(BaseModel):
    """What the server is, and which extensions of the protocol it has."""

    name: str
    version: str
    extensions: list[str]


class ModelReady(BaseModel):
    """The version exists, and its files are what was published."""

    name: str
    ready: bool
