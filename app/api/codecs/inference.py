"""The Open Inference Protocol v2: its documents, and tensors read and written."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
import orjson
from fastapi import Response
from pydantic import BaseModel, Field, StrictInt, WithJsonSchema

from app.answering.predict import PredictFields
from app.api.bodies import checked, parsed_text
from app.api.codecs import binary_tensors
from app.api.codecs.answers import Answered, NamedChoice
from app.api.codecs.binary_tensors import TensorBody
from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import JSON
from app.api.memory import Charge
from app.requests.fields import Text, WireModel
from app.requests.rules import RuleOfModel
from payoff.errors import Flaw, Invalid, below, pointer, reject, unknown_at

BYTES: Final = "BYTES"
_DATA: dict[str, Any] = {
    "type": "array",
    "items": {"type": ["number", "string", "boolean", "null", "array"], "items": {}},
}
_MAX_INPUTS = 10_000
_MAX_OUTPUTS = 10
_MAX_LENGTH = 2**31  # of a side of a tensor, even of one without elements
_MAX_ID = 1000  # characters
_BINARY_OUTPUTS = "binary_data_output"
# Parameters of clients of MLServer and Triton that are no fields of `/predict`.
_OF_PROTOCOL = frozenset({"content_type", "headers", _BINARY_OUTPUTS})
_FIELDS = frozenset(PredictFields.model_fields) - {"model", "classes"}
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": True,
    "description": "the fields of `/predict` besides `model` and `instances`, as JSON or as text"
    " that holds JSON",
}

Datatype = Literal[
    "BOOL",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "FP16",
    "FP32",
    "FP64",
    "BYTES",
]


class TensorDocument(WireModel):
    """An input: rows in feature order `[n, features]`, or one feature, named after it, `[n]` or
    `[n, 1]`.
    """

    name: Text
    datatype: Datatype
    shape: Annotated[
        list[Annotated[StrictInt, Field(ge=0)]], Field(min_length=1, max_length=2)
    ]
    parameters: dict[str, Any] | None = Field(
        default=None, description="`binary_data_size` of data behind the document"
    )
    data: Annotated[list[Any], WithJsonSchema(_DATA)] = Field(
        description="in row-major order, flat or nested; null where missing"
    )


class OutputDocument(WireModel):
    """An output that is wanted."""

    name: Text
    parameters: dict[str, Any] | None = Field(
        default=None, description="`binary_data`: whether it comes behind the document"
    )


class WithoutMatrix(PredictFields):
    """A request with neither a matrix nor a rule, which other services answer with the most
    probable class.
    """

    rule: RuleOfModel = "most_probable"


class InferRequest(TensorBody):
    """Inputs, what is at stake, and which outputs are wanted (all where none are named)."""

    id: Annotated[str, Field(max_length=_MAX_ID)] | None = None
    parameters: Annotated[dict[str, Any] | None, WithJsonSchema(_PARAMETERS)] = None
    inputs: list[TensorDocument] = Field(min_length=1, max_length=_MAX_INPUTS)
    outputs: list[OutputDocument] | None = Field(default=None, max_length=_MAX_OUTPUTS)

    def wants_binary(self, name: str) -> bool:
        """Whether an output is to come as binary data, by its own parameters or those of all."""
        by_output = {
            output.name: (output.parameters or {}).get("binary_data")
            for output in self.outputs or []
        }
        is_binary = by_output.get(name)
        if is_binary is None:
            is_binary = (self.parameters or {}).get(_BINARY_OUTPUTS)
        return is_binary is True

    def question(self) -> PredictFields:
        """The parameters as fields of `/predict`; Invalid below `/parameters`."""
        parameters = {
            name: value
            for name, value in (self.parameters or {}).items()
            if name not in _OF_PROTOCOL
        }
        known = sorted(_FIELDS)
        with below("/parameters"):
            reject(
                unknown_at(pointer(name), "parameter", name, known)
                for name in parameters
                if name not in _FIELDS
            )
            fields = {
                name: parsed_text(name, value)
                if isinstance(value, str) and name != "rule"
                else value
                for name, value in parameters.items()
            }
            matrix = (
                fields.get("benefits") is not None
                or fields.get("cost_matrix") is not None
            )
            return checked(
                PredictFields if matrix or "rule" in fields else WithoutMatrix, fields
            )


def instances_of(inputs: Sequence[TensorDocument], charge: Charge) -> list[Any]:
    """The instances as `/predict` takes them.

    One input [n, m] has rows in feature order; several inputs have an instance's values by name.
    Raises Invalid below `/inputs` where data and shapes do not fit.
    """
    if len({tensor.name for tensor in inputs}) < len(inputs):
        raise Invalid.at("/inputs", "two inputs have the same name")
    arrays = {}
    for number, tensor in enumerate(inputs):
        array = np.array(tensor.data, dtype=object)
        is_flat = array.ndim == 1 and array.size == math.prod(tensor.shape)
        is_usable = 0 not in tensor.shape[1:] and max(tensor.shape) <= _MAX_LENGTH
        if not (is_usable and (is_flat or list(array.shape) == tensor.shape)):
            message = (
                f"the data of {tensor.name!r} do not have the shape {tensor.shape}"
            )
            raise Invalid.at(pointer("inputs", number, "data"), message)
        arrays[tensor.name] = array.reshape(tensor.shape)
    first = inputs[0]
    if len(inputs) == 1 and len(first.shape) == 2:
        return arrays[first.name].tolist()
    rows = first.shape[0]
    reject(
        Flaw(
            pointer("inputs", number, "shape"),
            f"the shape of {tensor.name!r} is {tensor.shape}; it must be [{rows}]",
        )
        for number, tensor in enumerate(inputs)
        if tensor.shape not in ([rows], [rows, 1])
    )
    charge(2 * rows)  # a dictionary for each
    columns = [array.ravel().tolist() for array in arrays.values()]
    return [dict(zip(arrays, row, strict=True)) for row in zip(*columns, strict=True)]


def encode(
    answered: Answered, document: InferRequest, *, notes: Sequence[str] = ()
) -> Response:
    """The columns as outputs, all where none are named; the metadata in `parameters`.

    Outputs of which it is wanted come as binary data. The `notes` are added to the warnings.
    """
    outputs = document.outputs or []
    columns = {column.name: column.values for column in answered.columns()}
    drawn = (
        {"propensities": columns.pop("propensities")}
        if "propensities" in columns
        else {}
    )
    reject(
        unknown_at(pointer("outputs", number, "name"), "output", output.name, columns)
        for number, output in enumerate(outputs)
        if output.name not in columns
    )
    names = [output.name for output in outputs] or list(columns)
    carried = answered.carried.document()
    metadata = {**carried, **answered.metadata(), **drawn, **answered.explained()}
    model = metadata.pop("model")
    parameters = {**metadata, "warnings": [*answered.answer.warnings, *notes]}
    head = {
        "model_name": model["name"],
        "model_version": str(model["version"]),
        **({} if document.id is None else {"id": document.id}),
        "parameters": {name: _scalar(value) for name, value in parameters.items()},
    }
    data = {
        name: binary_tensors.binary(columns[name])
        for name in names
        if document.wants_binary(name)
    }
    written = b",".join(_output(name, columns[name], data.get(name)) for name in names)
    text = b'%b,"outputs":[%b]}' % (orjson.dumps(head)[:-1], written)
    if not data:
        return Response(text, media_type=JSON)
    return Response(
        b"".join([text, *data.values()]),
        media_type=binary_tensors.OCTETS,
        headers={binary_tensors.HEADER: str(len(text))},
    )


def _output(
    name: str, values: np.ndarray | NamedChoice, data: bytes | None = None
) -> bytes:
    """The document of an output, without its values where they come as binary `data`."""
    described: dict[str, Any] = {
        "name": name,
        "datatype": BYTES if isinstance(values, NamedChoice) else "FP64",
        "shape": values.shape,
    }
    if data is not None:
        return json_bytes(described | {"parameters": {binary_tensors.SIZE: len(data)}})
    if isinstance(values, NamedChoice):
        words = NamedChoice(values.choice, [str(word) for word in values.names])
        return json_bytes(described | {"data": words.listed()})
    return json_bytes(described | {"data": np.ravel(values)})


def _scalar(value: Any) -> Any:
    """A parameter of the protocol is a number, a boolean or a text: other values are JSON text."""
    if isinstance(value, str | int | float):
        return value
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()


class OutputTensor(BaseModel):
    """An output: `data` in row-major order."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: list[float | str | None]


class InferAnswer(BaseModel):
    """What the model says about each row; lists and objects in `parameters` are JSON text."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, str | float | bool] = Field(
        description="`warnings`, `rule`, `classes` and `actions` (the columns of the outputs), and"
        " what `/predict` answers besides"
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
    inputs: list[TensorMetadata] = Field(
        description="an input per feature; or send one matrix [n, features]"
    )
    outputs: list[TensorMetadata]
    parameters: dict[str, str] = Field(
        description="`version` that is described, and its `classes` as JSON text"
    )


class ServerMetadata(BaseModel):
    """What the server is, and which extensions of the protocol it has."""

    name: str
    version: str
    extensions: list[str]


class ModelReady(BaseModel):
    """The version exists, and its files are what was published."""

    name: str
    ready: bool
