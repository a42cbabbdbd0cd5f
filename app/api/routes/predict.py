"""`POST /predict`. It is called most, so it reads and writes its bodies itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
from fastapi import Request, Response

from app.api.bodies.prediction_documents import PredictAnswer
from app.api.bodies.prediction_requests import PredictQuestion, PredictRequest, PredictTable
from app.api.budget import share
from app.api.codecs import rows as codec
from app.api.codecs.carried import NOTHING, Carried, carried_of_json
from app.api.codecs.json import INLINE_BYTES, Reserve, Split, document, measured, split
from app.api.codecs.media_types import JSON, NPY, TABULAR, media_type_of_body
from app.api.codecs.npy import array_of_npy, changeable_body
from app.api.codecs.tables import DIALECT_FIELDS, Sheet, unpacked
from app.api.errors import problems
from app.api.permits import PREDICT, needs
from app.api.predicting import Asked, answered
from app.api.routing import DirectRoute, checked, read_query, refuse_query_of_json
from app.errors import Invalid
from app.features import Schema
from app.usecases.probabilities import as_probabilities

_TEXT_FIELDS = ("model", "rule", "id", "keep", *DIALECT_FIELDS)
_READERS = (NPY, *TABULAR)


@needs(PREDICT)
async def predict(request: Request) -> Response:
    """Decide for every instance which action pays most; or, with a model of numbers, predict them.

    A model of numbers takes `model` and `instances` alone: rules, benefits, costs and priors are for classes.
    `probabilities` and `classes` take the place of `model` and `instances` where another system has the model.
    The instances come as JSON, a NumPy array (`application/x-npy`, rows in feature order), or a table with columns by
    feature name: `text/csv`, `application/vnd.apache.parquet` or
    `application/vnd.apache.arrow.stream`. Beside these the other fields are query parameters, each as JSON. `Accept`
    chooses the format of the answer in the same way; where it names none of them the answer is JSON.
    """
    kind = media_type_of_body(request, _READERS)
    if kind == NPY:
        numbers = await changeable_body(request)
        return await answered(request, len(numbers), lambda: _read_table(request, kind, numbers))
    body = await request.body()
    if kind != JSON:
        kind, body = await unpacked(request, kind, body)
    return await answered(request, len(body), lambda: _read(request, kind, body))


def _read(request: Request, kind: str, body: bytes) -> Asked:
    if kind != JSON:
        return _read_table(request, kind, body)
    refuse_query_of_json(request, PredictTable.model_fields)
    measured(body, share(request).reserve)
    if len(body) > INLINE_BYTES and (asked := _read_long(body)) is not None:
        return asked
    wire = checked(PredictRequest, document(body))
    if wire.probabilities is not None:
        _refuse_both(wire.model, wire.instances)
        if wire.classes is None:
            raise Invalid.at("/classes", "'classes' are required with 'probabilities'")
        given = as_probabilities(wire.probabilities, wire.classes, normalize=wire.normalize)
        carried = carried_of_json(wire, wire.probabilities) if wire.carries else NOTHING
        return Asked(wire.question(), given=(given, carried), record=wire.wish)
    name = _model_of(wire)
    if wire.instances is None:
        raise Invalid.at("/instances", "'instances' is required")
    booleans = b"true" in body or b"false" in body
    carried = carried_of_json(wire, wire.instances) if wire.carries else NOTHING
    rows = partial(_encoded, wire.instances, booleans, carried)
    return Asked(wire.question(), name, rows, record=wire.wish, instances=wire.instances)


def _read_long(body: bytes) -> Asked | None:
    """What `_read` finds in many rows of numbers; None for all other bodies, and for those with errors."""
    parts = split(body)
    try:
        wire = None if parts is None else checked(PredictRequest, parts.fields)
    except Invalid:
        return None
    if parts is None or wire is None or wire.carries or wire.probabilities is not None or wire.model is None:
        return None
    return Asked(wire.question(), _model_of(wire), partial(_encoded_long, parts), record=wire.wish)


def _encoded_long(parts: Split, schema: Schema) -> tuple[codec.Rows, Carried]:
    if not schema.categorical and parts.rows.shape[1] == len(schema.names):
        return (parts.rows, []), NOTHING
    return _encoded(orjson.loads(parts.text), False, NOTHING, schema)


def _encoded(rows: list[Any], booleans: bool, carried: Carried, schema: Schema) -> tuple[codec.Rows, Carried]:
    return codec.rows_of_json(rows, schema, booleans_possible=booleans, carried=carried), carried


def _read_table(request: Request, kind: str, body: bytes | bytearray) -> Asked:
    """A body of columns, the other fields being query parameters."""
    reserve = share(request).reserve
    asked = read_query(request, PredictTable, _TEXT_FIELDS)
    if asked.classes is not None:
        _refuse_both(asked.model, None)
        P, carried = _probabilities(kind, body, asked, asked.classes, reserve)
        given = as_probabilities(P, asked.classes, normalize=asked.normalize)
        return Asked(asked.question(), given=(given, carried), record=asked.wish)
    name = _model_of(asked)
    if kind == NPY:
        asked.refuse_for_numbers()
        return Asked(
            asked.question(),
            name,
            lambda schema: (codec.rows_of_npy(body, schema, reserve), NOTHING),
            record=asked.wish,
        )
    sheet = Sheet(kind, bytes(body), asked, reserve)
    return Asked(asked.question(), name, partial(codec.rows_of_sheet, sheet), record=asked.wish)


def _probabilities(
    kind: str, body: bytes | bytearray, asked: PredictTable, classes: list[int | str], reserve: Reserve
) -> tuple[Any, Carried]:
    if kind != NPY:
        from app.api.codecs.columns import probabilities_of_sheet  # noqa: PLC0415 - with pyarrow

        return probabilities_of_sheet(Sheet(kind, bytes(body), asked, reserve), classes)
    asked.refuse_for_numbers()
    return array_of_npy(body, reserve), NOTHING


def _refuse_both(model: str | None, rows: list[Any] | None) -> None:
    if model is not None or rows is not None:
        place = "/model" if model is not None else "/instances"
        raise Invalid.at(place, "send 'model' and 'instances', or 'probabilities' and 'classes', not both")


def _model_of(asked: PredictQuestion) -> str:
    """The model's name, without which nothing else is of use."""
    if asked.model is None:
        raise Invalid.at("/model", "'model' is required; or send 'probabilities' and 'classes'")
    if asked.classes is not None or asked.normalize:
        place = "/classes" if asked.classes is not None else "/normalize"
        raise Invalid.at(place, "this goes with 'probabilities'; a model knows its classes")
    return asked.model


_EXAMPLE = {
    "model": "triage",
    "instances": [{"age": 58, "pressure": 141, "pain": "mild"}, {"age": 36, "pressure": 118, "pain": "none"}],
    "benefits": [[0, -1], [-10, 5]],
    "actions": ["wait", "treat"],
}
_RECORDED = _EXAMPLE | {
    "instances": [[58, 141, "mild"], [36, 118, "none"], [61, 150, "typical"], [40, 122, "none"]],
    "record": {"ids": ["visit-1", "visit-2", "visit-3", "visit-4"], "instances": True},
}
_GIVEN = {
    "probabilities": [[0.9, 0.1], [0.4, 0.6]],
    "classes": ["healthy", "ill"],
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
}
_SCORES = {
    "probabilities": [[9, 1], [2, 3]],
    "classes": ["healthy", "ill"],
    "normalize": True,
    "cost_matrix": {"healthy": {"wait": 0, "treat": 1}, "ill": {"wait": 10, "treat": -5}},
    "explain": True,
}
_LIMITED = _GIVEN | {"probabilities": [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], "limits": {"treat": 1}}
route = DirectRoute(
    "/predict",
    predict,
    body_type=PredictRequest,
    examples={
        "the model above": _EXAMPLE,
        "probabilities of another system": _GIVEN,
        "scores that do not sum to 1, and costs": _SCORES,
        "at most one treatment": _LIMITED,
        "recorded, for outcomes that come later": _RECORDED,
    },
    others=_READERS,
    query_type=PredictTable,
    tags=["predict"],
    summary="Which action pays most, or which number is to be expected, for each instance?",
    response_model=PredictAnswer,
    responses=problems(404, 409, 413, 415, 422),
)
