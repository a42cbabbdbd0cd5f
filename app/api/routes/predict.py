"""`POST /predict`. It is called most, so it reads and writes its bodies itself."""

from collections.abc import Callable, Collection
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import orjson
from fastapi import Request, Response

from app.access.caller import Caller
from app.answering import predict as usecase
from app.answering.predict import (
    PredictAnswer,
    PredictFields,
    PredictRequest,
    Rows,
    Usual,
    check_finite,
    check_source,
    extent,
    extent_in_memory,
    key_of,
    strange_values,
)
from app.api.bodies import (
    checked,
    media_type_of_answer,
    media_type_of_body,
    read_query,
    refuse_query,
)
from app.api.codecs.answers import NOTHING, WRITTEN, Answered, Carried, carried_of_ids, encode
from app.api.codecs.json import INLINE_BYTES, INLINE_NUMBERS, Frame, document_of, measured, split
from app.api.codecs.media_types import JSON, NPY, TABULAR
from app.api.codecs.npy import array_of_npy, rows_of_npy
from app.api.codecs.tables import DIALECT_FIELDS, Sheet, TableFields, unpacked
from app.api.dependencies import caller_of, loaded, stores_of, with_matrix
from app.api.errors import problems
from app.api.exchange import charge_of
from app.api.gate import PREDICT, needs
from app.api.limiters import Pace, pace_of, run
from app.api.routing import DirectRoute
from app.outcomes.decision import Batch
from app.registry.loaded import Loaded
from app.requests.labelled_rows import as_probabilities
from app.requests.matrices import columns_beside, with_saved
from app.stores import Stores
from payoff.errors import Invalid, below

_INSTANCES = "/instances"
_TEXT_FIELDS = ("model", "rule", "id", "keep", *DIALECT_FIELDS)
_READERS = (NPY, *TABULAR)
_LONG_NUMBERS = 500_000  # of an answer; one with more takes tenths of a second
_EXPLAINED_NUMBERS = (
    1000  # of an answer with explanations by a model, whose trees take up to a second
)
_FEW_DISTRIBUTIONS = 500  # rows whose numbers' distributions take up to a second
_LIMITED_NUMBERS = 200  # of an answer with limits that takes less than a millisecond


class PredictTable(PredictFields, TableFields):
    """The fields of a request beside a table, and how that is to be read."""


# What is asked


_RowsOf = Callable[[Any, Collection[str]], tuple[Rows, Carried]]


class ReadRequest(NamedTuple):
    """A request, read as far as possible without the model. `rows` makes its rows once that is
    there, with those columns that the matrix names, or has the probabilities of `fields.classes`
    without one; both with what comes back.

    The same `key` stands for the same fields. `write` makes the response in one of the media types
    `forms`.
    """

    fields: PredictFields
    rows: _RowsOf
    key: bytes | None = None
    forms: Collection[str] = WRITTEN
    write: Callable[[str, Answered], Response] = encode


def asked_of_json(document: Any, body: bytes) -> ReadRequest:
    """The question that the document of a JSON body asks; raises the errors of its fields."""
    instances: Any = document.get("instances") if isinstance(document, dict) else None
    key = key_of(document) if isinstance(instances, list) else None
    fields = _checked(document, instances=instances is not None) if key is None else fields_of(key)
    if fields.probabilities is not None:
        P = as_probabilities(fields.probabilities, fields.classes or ())
        return ReadRequest(fields, _given(P, carried_of_ids(fields.ids, P)))
    carried = NOTHING if fields.ids is None else carried_of_ids(fields.ids, instances)
    booleans = b"true" in body or b"false" in body
    return ReadRequest(fields, partial(encoded, instances, booleans, carried), key)


def _given(P: np.ndarray, carried: Carried) -> _RowsOf:
    return lambda *_: (Rows(P, []), carried)


@lru_cache(maxsize=256)
def fields_of(key: bytes) -> PredictRequest:
    """The fields as checked before: but for the instances most requests to a model are the same."""
    return _checked(orjson.loads(key), instances=True)


def _checked(document: Any, *, instances: bool) -> PredictRequest:
    fields = checked(PredictRequest, document)
    check_source(fields, probabilities=fields.probabilities is not None, instances=instances)
    return fields


def encoded(
    instances: Any, booleans: bool, carried: Carried, model: Loaded, names: Collection[str]
) -> tuple[Rows, Carried]:
    """The rows of instances, of which some may be booleans, with those columns of `names` that are
    no features.
    """
    if not booleans and (plain := model.once(Usual).rows(instances)) is not None:
        return Rows(plain, [], instances, usual=True, under=_INSTANCES), carried
    first_names = instances[0] if names and instances and type(instances[0]) is dict else ()
    extra = [name for name in names if name in first_names and name not in model.schema.names]
    with below(_INSTANCES):
        X, warnings = model.schema.with_numbers(extra).encode(instances, booleans_possible=booleans)
    return Rows(X, warnings, instances, under=_INSTANCES).apart(extra), carried


def _asked_of_long(body: bytes) -> ReadRequest | None:
    """What a long body of numbers asks; None for all other bodies, and for those with errors."""
    parts = split(body)
    try:
        fields = None if parts is None else _checked(parts.fields, instances=True)
    except Invalid:
        return None
    if parts is None or fields is None or fields.ids is not None:
        return None

    def rows(model: Loaded, names: Collection[str]) -> tuple[Rows, Carried]:
        if not model.schema.categorical and parts.rows.shape[1] == len(model.schema.names):
            return Rows(parts.rows, [], under=_INSTANCES), NOTHING
        return encoded(parts.rows.tolist(), False, NOTHING, model, names)

    return ReadRequest(fields, rows)


def _asked_of_columns(request: Request, kind: str, body: bytes) -> ReadRequest:
    """A body of columns, the other fields being query parameters."""
    charge = charge_of(request)
    if kind != NPY:
        beside = read_query(request, PredictTable, _TEXT_FIELDS)
        sheet = Sheet(kind, body, beside, charge)
        check_source(beside, probabilities=False, instances=True)
        return ReadRequest(beside, lambda model, names: sheet.rows(model.schema, names))
    fields = read_query(request, PredictFields, _TEXT_FIELDS)
    check_source(fields, probabilities=fields.classes is not None, instances=fields.classes is None)
    if fields.classes is not None:
        P = as_probabilities(array_of_npy(body, charge), fields.classes)
        return ReadRequest(fields, _given(P, NOTHING))
    return ReadRequest(fields, lambda model, _: (rows_of_npy(body, model.schema, charge), NOTHING))


# What is answered


class Ready(NamedTuple):
    """A request with its rows, a saved matrix in place of its name; the same `key` stands for the
    same fields.
    """

    fields: PredictFields
    model: Loaded | None
    rows: Rows
    carried: Carried
    key: bytes | None

    @property
    def numbers(self) -> int:
        """How many the answer will hold."""
        return extent(self.model, self.fields, len(self.rows.X))

    @property
    def pace(self) -> Pace:
        """Where it is decided."""
        fields = self.fields
        numbers = self.numbers
        slow = fields.resources or (fields.limits and numbers > INLINE_NUMBERS)
        if self.model is not None and self.model.regression and fields.of_numbers:
            return "in a thread" if len(self.rows.X) <= _FEW_DISTRIBUTIONS else "long"
        if numbers > _LONG_NUMBERS or slow or (fields.explain and numbers > _EXPLAINED_NUMBERS):
            return "long"
        max_numbers = _LIMITED_NUMBERS if fields.limits else INLINE_NUMBERS
        return "in a thread" if numbers > max_numbers or fields.explain else "now"


def ready(request: ReadRequest, model: Loaded | None, stores: Stores) -> Ready:
    """The request with its rows, and with the saved matrix that it names."""
    fields = request.fields
    key = request.key
    if isinstance(fields.benefits, str) and model is not None and not model.multilabel:
        fields = with_saved(stores, fields, model.name, model.classes)
        if key is not None and fields.saved is not None:
            key += fields.saved.encode()  # a version of a matrix never changes
    rows, carried = request.rows(model, fields.case_columns)
    if fields.columns is not None:
        known = {*rows.columns, *(() if model is None else model.schema.names)}
        beside = columns_beside(fields.columns, len(rows.X), fields.case_columns, known)
        rows = rows._replace(columns={**rows.columns, **beside}, beside=beside)
    if model is not None and not rows.usual:
        rows.warnings.extend(strange_values(model, rows.X))
    return Ready(fields, model, rows, carried, key)


def answer_to(
    stores: Stores, caller: Caller, question: Ready, form: str
) -> tuple[Answered, Batch | None]:
    """The answer, for a media type; and what is to be recorded of it before it is sent."""
    fields, model, rows, carried, *_ = question
    if fields.explain and form != JSON:
        raise Invalid.at("/explain", "explanations come in JSON answers alone")
    own_ids = carried.own_ids if carried.columns else None
    answer, batch = usecase.predict(stores, caller, model, fields, rows, own_ids, question.key)
    if batch is not None:
        if form == NPY and carried.id is None:
            raise Invalid.at(
                "/record", "an array of numbers has no place for the ids; ask for JSON or a table"
            )
        carried = carried.with_ids([row.id for row in batch.rows])
    return Answered(answer, model, carried), batch


def usual_answer(model: Loaded, question: Ready) -> bytes | None:
    """The answer as JSON, in a fifth of the time, for a few rows of usual numbers and a matrix that
    alone decides, and decided before; None for all others. Nothing is recorded.
    """
    caches = model.once(Usual)
    matrix = caches.matrices.get(question.key)
    if (
        matrix is None
        or not (question.rows.usual and question.fields.is_plain)
        or question.carried.columns
    ):
        return None
    P = caches.posterior(question.rows.X)
    check_finite(P)
    choice, expected = matrix.decide(P)
    frame: Frame = matrix.notes.get("frame") or matrix.notes.setdefault(
        "frame", Frame.of(model, matrix)
    )
    return frame.around([matrix.actions[a] for a in choice.tolist()], P, expected)


async def answered(request: Request, size: int, read: Callable[[], ReadRequest]) -> Response:
    """The answer to what `read` finds in a body of `size` bytes, once its decisions are recorded if
    they are to be.
    """
    asked = await run(request, pace_of(size), read)
    fields = asked.fields
    model = None if fields.model is None else await loaded(request, fields.model)
    stores = stores_of(request)
    charge = charge_of(request)
    form = media_type_of_answer(request, asked.forms)
    found = None
    pace = pace_of(size)
    if pace == "now" and (model is None or model.inline):
        found = ready(asked, model, stores)
        pace = found.pace
    elif fields.limited or fields.explain:  # their work is not bounded by the body
        pace = "long"
    elif pace == "now":
        pace = "in a thread"

    def work() -> tuple[Response, Batch | None, int]:
        whole = found or ready(asked, model, stores)
        charge(extent_in_memory(model, whole.fields, whole.rows))
        answer, batch = answer_to(stores, caller_of(request), whole, form)
        # No challengers decide about numbers.
        if batch is not None and model is not None and not model.regression:
            batch = request.app.state.shadow.watched(batch, model, whole.fields, whole.rows)
        return with_matrix(asked.write(form, answer), whole.fields), batch, len(whole.rows.X)

    response, batch, count = await run(request, pace, work)
    if batch is not None:
        await stores.recorder.record(batch)
    if model is not None:
        request.app.state.metrics.requests.decided(model.name, model.version, count)
    return response


# The route


@needs(PREDICT)
async def predict(request: Request) -> Response:
    """Decide for every instance which action pays most; or, with a model of numbers, predict them.

    A model of numbers takes `model` and `instances` alone: rules, benefits, costs and priors are
    for classes. `probabilities` and `classes` take the place of `model` and `instances` where
    another system has the model. The instances come as JSON, a NumPy array (`application/x-npy`,
    rows in feature order), or a table with columns by feature name: `text/csv`,
    `application/vnd.apache.parquet` or `application/vnd.apache.arrow.stream`. Beside these the
    other fields are query parameters, each as JSON. `Accept` chooses the format of the answer in
    the same way; where it names none of them the answer is JSON.
    """
    kind = media_type_of_body(request, _READERS)
    body = await request.body()
    if kind == JSON:
        return await answered(request, len(body), lambda: _asked_of_json(request, body))
    kind, body = await unpacked(request, kind, body)
    return await answered(request, len(body), lambda: _asked_of_columns(request, kind, body))


def _asked_of_json(request: Request, body: bytes) -> ReadRequest:
    refuse_query(request)
    measured(body, charge_of(request))
    if len(body) > INLINE_BYTES and (asked := _asked_of_long(body)) is not None:
        return asked
    return asked_of_json(document_of(body), body)


_EXAMPLE = {
    "model": "triage",
    "instances": [
        {"age": 58, "pressure": 141, "pain": "mild"},
        {"age": 36, "pressure": 118, "pain": "none"},
    ],
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
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
_COSTS = {
    "probabilities": [[0.9, 0.1], [0.4, 0.6]],
    "classes": ["healthy", "ill"],
    "cost_matrix": {"healthy": {"wait": 0, "treat": 1}, "ill": {"wait": 10, "treat": -5}},
    "explain": True,
}
_BY_CASE = _GIVEN | {
    "benefits": {
        "healthy": {"wait": 0, "treat": {"column": "fee", "times": -1}},
        "ill": {"wait": -10, "treat": 5},
    },
    "columns": {"fee": [1, 4.5]},
}
_LIMITED = _GIVEN | {"probabilities": [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], "limits": {"treat": 1}}
route = DirectRoute(
    "/predict",
    predict,
    body_type=PredictRequest,
    examples={
        "the model above": _EXAMPLE,
        "probabilities of another system": _GIVEN,
        "costs, and what would change the decisions": _COSTS,
        "at most one treatment": _LIMITED,
        "a benefit that depends on the case": _BY_CASE,
        "recorded, for outcomes that come later": _RECORDED,
    },
    media_types=_READERS,
    query_type=PredictTable,
    tags=["predict"],
    summary="Which action pays most, or which number is to be expected, for each instance?",
    response_model=PredictAnswer,
    responses=problems(404, 409, 413, 415, 422),
)
