"""Requests and answers of the Open Inference Protocol v2, besides tensors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, WithJsonSchema

from app.api.codecs.tensors import Datatype, OutputDocument, TensorDocument
from app.api.routing import checked, parsed_text
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.usecases.fields import WireModel
from app.usecases.predict import PredictFields
from app.usecases.rules import Rule

_MAX_INPUTS = 10_000
_MAX_OUTPUTS = 10
_MAX_ID = 1000  # characters
_BINARY_OUTPUT = "binary_data_output"
_OF_CODECS = frozenset({"content_type", "headers"})  # what MLServer's clients add; they have no effect
_TEXT_FIELDS = ("rule",)
_FIELDS = frozenset(PredictFields.model_fields) - {"model", "classes", "normalize", "id", "keep"}
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {_BINARY_OUTPUT: {"type": "boolean"}},
    "additionalProperties": True,
    "description": "the fields of `/predict` besides `model` and `instances`, as JSON or as text that holds JSON",
}


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


class ServerReady(BaseModel):
    """Every route answers."""

    ready: bool


class ServerLive(BaseModel):
    """The process answers."""

    live: bool
