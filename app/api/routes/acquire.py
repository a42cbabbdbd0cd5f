"""`POST /acquire`: the feature to learn next. It reads and writes its bodies itself, like `/predict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from time import thread_time
from typing import TYPE_CHECKING, Annotated, Any, Literal
from weakref import WeakSet

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, Field, RootModel, WithJsonSchema
from starlette.concurrency import run_in_threadpool

from app.api.bodies.carried import NOTHING, Carried, CarriedFields, CarriedIds, carried_of_json, without
from app.api.bodies.documents import (
    DirectRoute,
    Matrix,
    ModelVersion,
    Names,
    Text,
    media_type_of_answer,
    media_type_of_body,
    read,
    read_query,
    refuse_query_of_json,
)
from app.api.bodies.json_bodies import INLINE_BYTES, Reserve
from app.api.bodies.known_rows import cases_of_sheet, columns_of_states
from app.api.bodies.matrices import WireMatrix
from app.api.bodies.media_types import JSON, TABULAR
from app.api.bodies.tables import DIALECT_FIELDS, Sheet, TableFields, table_response, unpacked
from app.api.deps import cached, loaded
from app.api.errors import problems
from app.api.middleware.limiters import limiters
from app.api.middleware.memory import share
from app.api.middleware.permits import PREDICT, needs
from app.api.routes.train import FeatureCosts
from app.errors import Invalid
from app.registry.loaded import Loaded
from app.usecases.stepwise_models import check_askable

if TYPE_CHECKING:
    from app.usecases.acquire import CaseStates

_DUMP = orjson.OPT_SERIALIZE_NUMPY
_SIMPLE = frozenset({"model", "known", "budget", "unavailable"})  # with prices or benefits, new ones take longer
_QUICK_SECONDS = 0.001  # of the processor, for one case: about what a thread costs
_quick: WeakSet[Loaded] = WeakSet()  # models that answered one case so fast, all their kernels loaded
_TEXT_FIELDS = ("model", "id", "keep", *DIALECT_FIELDS)
_PART = 500  # cases written at a time: the interpreter's lock is held for some milliseconds
_KNOWN = {"type": "object", "additionalProperties": {"type": ["number", "string", "null"]}}
Budget = Annotated[Any, WithJsonSchema({"type": ["number", "null"], "minimum": 0})]

_TARGET = {
    "type": ["object", "null"],
    "properties": {"cost": {"type": "number", "minimum": 0}, "error": {"type": "number", "minimum": 0, "maximum": 1}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
Target = Annotated[Any, WithJsonSchema(_TARGET)]
TARGET = "in place of benefits: the mean cost of a case, or the error, at which to stop, as the model foresees it"


class AcquireQuestion(WireMatrix, CarriedFields):
    """All of a request but its cases."""

    model: Text = Field(description="name, name:version or name@alias of a forest or tree", examples=["triage"])
    budget: Budget = Field(default=None, description="what each case may spend, with what it has spent already")
    unavailable: Names = Field(default=[], description="features that cannot be had")
    feature_costs: FeatureCosts = Field(
        default=None, description="prices that differ from those of training; 0 for what is there for nothing"
    )
    benefits: Matrix | None = Field(
        default=None, description="a row per actual class, a column per action, in the currency of the prices"
    )
    target: Target = Field(default=None, description=TARGET)


class AcquireTable(AcquireQuestion, TableFields):
    """The same, and how a table is to be read."""


class AcquireRequest(AcquireQuestion, CarriedIds):
    """All that is known so far, and what the rest may cost."""

    known: Annotated[Any, WithJsonSchema(_KNOWN)] = Field(
        default=None,
        description="values by feature name, in the order of their acquisition (of a group, the first has paid its"
        " full cost); null is a value that cannot be had",
    )
    instances: Annotated[Any, WithJsonSchema({"type": "array", "items": _KNOWN})] = Field(
        default=None, description="the same for many cases, in place of `known`"
    )


class Offer(BaseModel):
    """A feature, and what it costs now."""

    feature: str
    cost: float


class Wanted(Offer):
    """A feature that trees wait for, or the node of a tree."""

    waiting: int = Field(description="how many trees")


Reason = Literal["resolved", "vote_settled", "budget", "not_worth_it", "unavailable"]


class CaseState(BaseModel):
    """Where a case stands."""

    status: Literal["acquire", "decided"]
    reason: Reason | None = Field(description="why nothing more is asked for")
    next: Offer | None = Field(description="what to learn next")
    frontier: list[Wanted] = Field(description="all that trees wait for, best first, affordable or not")
    spent: float
    remaining: float | None = Field(description="of the budget")
    prediction: int | str | float = Field(
        description="from what is known: the class that most trees of a forest vote for (`/predict` decides by the"
        " calibrated probabilities, and may name another), or what the deepest node of a tree says, a class or a number"
    )
    probabilities: dict[str, float] | None = Field(description="of the classes; null where numbers are predicted")
    trees: int
    trees_resolved: int
    decision: int | str | None = Field(default=None, description="the best action now, or the likeliest class")
    expected_benefits: dict[str, float] | None = Field(default=None, description="with benefits: of each action")
    expected_gain: float | None = Field(
        default=None, description="with benefits: of asking on, before the price of `next`"
    )


class CaseAnswer(CaseState):
    """The answer to `known`."""

    model: ModelVersion
    warnings: list[str]


class BatchAnswer(BaseModel):
    """The answer to `instances`, in their order."""

    model: ModelVersion
    ids: list[int | float | str | None] | None = Field(
        default=None, description="with `ids` or `id`, in the order of the instances"
    )
    kept: dict[str, list[Any]] | None = Field(default=None, description="with `keep`: the columns that were named")
    results: list[CaseState]
    warnings: list[str]


class AcquireAnswer(RootModel[CaseAnswer | BatchAnswer]):
    """One case's state for `known`, `results` for `instances`."""


@needs(PREDICT)
async def acquire(request: Request) -> Response:
    """Say which feature to learn next, or that enough is known, and why.

    From what is known every tree of a forest is walked until a feature stops it that is not known. `next` is the
    feature that most trees wait for, per price. A tree of classifiers (`cost_tree`) is walked until a node needs
    features that are not known; `next` is the cheapest of them. A `forest_chain` asks for features in one order;
    `next` is the first of them that is not known. A case is decided when all trees are `resolved`
    (`unavailable`: one of them needed a value that cannot be had), when the vote can no longer change
    (`vote_settled`: the class is that of the complete row), when nothing affordable is left (`budget`), or, with
    `benefits` or a `target` and no tree of classifiers, when more is `not_worth_it`: then the matrix decides, and a
    settled vote stops nothing.
    The service keeps nothing between calls: send all that is known, in the order in which it was acquired; what was
    wrong is corrected by sending something else. In a table (CSV, NDJSON, Parquet, Arrow) a row is a case, and what is
    empty is not known; the other fields are query parameters, each as JSON.
    """
    if (kind := media_type_of_body(request, TABULAR)) != JSON:
        kind, body = await unpacked(request, kind, await request.body())
        return await limiters(request).long.run(_answer_table, request, kind, body)
    refuse_query_of_json(request, AcquireTable.model_fields)
    wire = await read(request, AcquireRequest)
    model = _model_of_small(request, wire, len(await request.body()))
    if model is not None and model in _quick:
        return _answer_timed(request, wire, model)
    return await run_in_threadpool(_answer_timed, request, wire, model)


def _model_of_small(request: Request, wire: AcquireRequest, size: int) -> Loaded | None:
    """The model in memory, where the request is so small that the event loop may answer it; None otherwise."""
    if size > INLINE_BYTES or wire.known is None or not wire.model_fields_set <= _SIMPLE:
        return None
    model = cached(request, wire.model)
    names = len(wire.unavailable) + (len(wire.known) if type(wire.known) is dict else 0)
    return model if model is not None and names <= len(model.schema.names) else None


def _answer_timed(request: Request, wire: AcquireRequest, model: Loaded | None) -> Response:
    """The answer; whether the `model` took little time decides whether the event loop gives the next one itself."""
    began = thread_time()
    try:
        response = _answer(request, wire)
    finally:
        slow = thread_time() - began >= _QUICK_SECONDS
        if model is not None and slow:
            _quick.discard(model)
    if model is not None and not slow:
        _quick.add(model)
    return response


def _answer_table(request: Request, kind: str, body: bytes) -> Response:
    wire = read_query(request, AcquireTable, _TEXT_FIELDS)
    model = _askable(request, wire.model)
    cases, carried = cases_of_sheet(Sheet(kind, body, wire, share(request).reserve), model.schema)
    return _several(request, model, wire, cases, carried, "")


def _answer(request: Request, wire: AcquireRequest) -> Response:
    if (wire.known is None) == (wire.instances is None):
        raise Invalid.at("/known", "send either known (one case) or instances (many)")
    if wire.instances is not None and type(wire.instances) is not list:
        raise Invalid.at("/instances", "instances are a list of objects of known values")
    model = _askable(request, wire.model)
    if wire.instances is not None:
        carried = carried_of_json(wire, wire.instances) if wire.carries else NOTHING
        cases = without(wire.instances, carried, model.schema.names)
        return _several(request, model, wire, cases, carried, "/instances")
    if wire.carries:
        raise Invalid.at("/known", "ids and what is kept go with 'instances'")
    states = _states(model, wire, [wire.known], ("/cases/0", "/known"), share(request).reserve)
    content = {"model": model.model, **next(states.documents()), "warnings": states.warnings}
    return Response(orjson.dumps(content, option=_DUMP), media_type=JSON)


def _askable(request: Request, reference: str) -> Loaded:
    model = loaded(request, reference)
    check_askable(model)
    request.app.state.kernels.wait("acquisition")
    return model


def _several(
    request: Request, model: Loaded, wire: AcquireQuestion, cases: Sequence[Any], carried: Carried, place: str
) -> Response:
    """The answer for many cases, which stand at `place` in the request."""
    form = media_type_of_answer(request, (JSON, *TABULAR))
    states = _states(model, wire, cases, ("/cases", place), share(request).reserve)
    if form != JSON:
        columns = columns_of_states(states.documents(), model.classes, states.stakes)
        return table_response(form, carried.before(columns), {"model": model.model, "warnings": states.warnings})
    rest = orjson.dumps({"model": model.model, **carried.document(), "warnings": states.warnings}, option=_DUMP)
    return Response(rest[:-1] + b',"results":[' + b",".join(_written(states.documents())) + b"]}", media_type=JSON)


def _states(
    model: Loaded, wire: AcquireQuestion, cases: Sequence[Any], places: tuple[str, str], reserve: Reserve
) -> CaseStates:
    """Where the cases stand; of errors the first of `places` becomes the second."""
    from app.usecases import acquire as usecase  # noqa: PLC0415 - with its compiler it takes 60 MB that many can spare

    benefits = wire.benefits, wire.cost_matrix, wire.actions
    question = usecase.Question(*benefits, wire.budget, wire.unavailable, wire.feature_costs, wire.target)
    if len(cases) > 1:
        reserve(usecase.extent_bytes(model, len(cases), question.width()))
    try:
        return usecase.acquire(model, cases, question)
    except Invalid as error:
        raise usecase.relocated(error, *places) from error


def _written(documents: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """The documents as JSON, some at a time, without the brackets around them."""
    while part := list(islice(documents, _PART)):
        yield orjson.dumps(part, option=_DUMP)[1:-1]


_WORTH = {
    "model": "triage",
    "instances": [{"age": 58, "pressure": 141}, {"age": 36, "pain": None}],
    "feature_costs": {"pressure": 0.5},
    "benefits": [[0, -1], [-10, 5]],
    "actions": ["wait", "treat"],
}
route = DirectRoute(
    "/acquire",
    acquire,
    body_type=AcquireRequest,
    others=TABULAR,
    query_type=AcquireTable,
    examples={
        "one case, the model above": {"model": "triage", "known": {"age": 58}, "budget": 60},
        "two cases, worth stopping": _WORTH,
        "a mean cost": {"model": "triage", "known": {"age": 58}, "target": {"cost": 1}},
    },
    tags=["acquire"],
    summary="Which feature should be learnt next, or is enough known?",
    response_model=AcquireAnswer,
    responses=problems(404, 409, 413, 422),
)
