"""`POST /acquire`: the feature to learn next. It reads and writes its bodies itself, like `/predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from time import thread_time
from typing import Any, NamedTuple
from weakref import WeakSet

import orjson
from fastapi import Request, Response

from app.api.codecs.json import INLINE_BYTES
from app.api.codecs.media_types import JSON, TABULAR
from app.api.codecs.rows import NOTHING, Carried, carried_of_json, without
from app.api.codecs.tables import DIALECT_FIELDS, Sheet, TableFields, table_response, unpacked
from app.api.errors import problems
from app.api.gate import VALUE, passage_of
from app.api.guard import PREDICT, needs
from app.api.routing import (
    DirectRoute,
    Pace,
    loaded,
    media_type_of_answer,
    media_type_of_body,
    naming,
    ports,
    read,
    read_query,
    refuse_query_of_json,
    run,
    who,
)
from app.errors import Invalid, pointer
from app.outcomes.decision import Batch
from app.registry.loaded import Loaded
from app.usecases import acquire as usecase
from app.usecases.acquire import AcquireAnswer, AcquireFields, AcquireRequest
from app.usecases.matrices import with_saved
from app.usecases.record_acquired import recorded

_DUMP = orjson.OPT_SERIALIZE_NUMPY
_SIMPLE = frozenset({"model", "known", "budget", "unavailable"})  # with prices or benefits, new ones take longer
_QUICK_SECONDS = 0.001  # of the processor, for one case: about what a thread costs
_quick: WeakSet[Loaded] = WeakSet()  # models that answered one case so fast, all their kernels loaded
_TEXT_FIELDS = ("model", "id", "keep", *DIALECT_FIELDS)
_Answered = tuple[Response, Batch | None]
_PART = 500  # cases written at a time: the interpreter's lock is held for some milliseconds


class AcquireTable(AcquireFields, TableFields):
    """The fields beside a table of cases, and how it is to be read."""


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
    wrong is corrected by sending something else. In a table (CSV, Parquet, Arrow) a row is a case, and what is
    empty is not known; the other fields are query parameters, each as JSON.
    """
    kind = media_type_of_body(request, TABULAR)
    if is_table := kind != JSON:
        kind, body = await unpacked(request, kind, await request.body())
        asked = _asked_of_table(request, kind, body)
    else:
        refuse_query_of_json(request, AcquireTable.model_fields)
        asked = _asked_of_json(await read(request, AcquireRequest))
    model = await loaded(request, asked.fields.model)
    small = not is_table and _is_small(asked.fields, len(await request.body()), model)
    answer = partial(_timed if small else _answer, request, asked, model)
    pace: Pace = "long" if is_table else "now" if small and model in _quick else "in a thread"
    response, batch = await run(request, pace, answer)
    if batch is not None:
        await ports(request).recorder.record(batch)
    return response


class _Asked(NamedTuple):
    """What is asked; what makes the cases, and what comes back with them, once the model is there; and where in the
    request each case stands. The answer to one case that is not in a list `is_one`.
    """

    fields: AcquireFields
    cases: Callable[[Loaded], tuple[Sequence[Any], Carried]]
    place: Callable[[int], str]
    is_one: bool = False


def _asked_of_json(wire: AcquireRequest) -> _Asked:
    if (wire.known is None) == (wire.instances is None):
        raise Invalid.at("/known", "send either known (one case) or instances (many)")
    if wire.instances is not None and type(wire.instances) is not list:
        raise Invalid.at("/instances", "instances are a list of objects of known values")

    def cases(model: Loaded) -> tuple[Sequence[Any], Carried]:
        if wire.instances is None:
            if wire.carries:
                raise Invalid.at("/known", "ids and what is kept go with 'instances'")
            return [wire.known], NOTHING
        carried = carried_of_json(wire, wire.instances) if wire.carries else NOTHING
        return without(wire.instances, carried, model.schema.names), carried

    is_one = wire.instances is None
    return _Asked(wire, cases, (lambda _: "/known") if is_one else partial(pointer, "instances"), is_one)


def _asked_of_table(request: Request, kind: str, body: bytes) -> _Asked:
    from app.api.codecs.columns import cases_of_sheet  # noqa: PLC0415 - with pyarrow, which takes 40 MB

    fields = read_query(request, AcquireTable, _TEXT_FIELDS)
    sheet = Sheet(kind, body, fields, passage_of(request).reserve)
    return _Asked(fields, lambda model: cases_of_sheet(sheet, model.schema), pointer)


def _is_small(wire: AcquireFields, size: int, model: Loaded) -> bool:
    """Whether the event loop may answer, if the model is quick."""
    if size > INLINE_BYTES or not isinstance(wire, AcquireRequest) or not wire.model_fields_set <= _SIMPLE:
        return False
    names = len(wire.unavailable) + (len(wire.known) if type(wire.known) is dict else 0)
    return names <= len(model.schema.names)


def _timed(request: Request, asked: _Asked, model: Loaded) -> _Answered:
    """The answer; whether the `model` took little time decides whether the event loop gives the next one itself."""
    began = thread_time()
    try:
        answer = _answer(request, asked, model)
    finally:
        slow = thread_time() - began >= _QUICK_SECONDS
        if slow:
            _quick.discard(model)
    if not slow:
        _quick.add(model)
    return answer


def _answer(request: Request, asked: _Asked, model: Loaded) -> _Answered:
    fields = with_saved(ports(request), asked.fields, model.name, model.classes)
    cases, carried = asked.cases(model)
    form = JSON if asked.is_one else media_type_of_answer(request, (JSON, *TABULAR))
    if not asked.is_one:
        passage_of(request).reserve(VALUE * usecase.extent(model, len(cases), fields.width()))
    states = usecase.acquire(model, cases, fields, asked.place)
    own = carried.own_ids if carried.columns else None
    batch, ids = recorded(ports(request), model, fields, cases, states, who(request), own)
    carried = carried if ids is None else carried.with_ids(ids)
    if form != JSON:
        from app.api.codecs.columns import columns_of_states  # noqa: PLC0415 - with pyarrow

        columns = columns_of_states(states.documents(), model.classes, states.stakes)
        rest = {"model": model.named, "warnings": states.warnings}
        return naming(table_response(form, carried.before(columns), rest), fields), batch
    head = {"model": model.named, **(carried.document() if carried.columns else {})}
    if asked.is_one:
        content = orjson.dumps({**head, **next(states.documents()), "warnings": states.warnings}, option=_DUMP)
    else:
        content = orjson.dumps({**head, "warnings": states.warnings}, option=_DUMP)
        content = content[:-1] + b',"results":[' + b",".join(_written(states.documents())) + b"]}"
    return naming(Response(content, media_type=JSON), fields), batch


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
        "recorded when it is decided": {"model": "triage", "known": {"age": 58}, "budget": 0, "record": True},
        "a mean cost": {"model": "triage", "known": {"age": 58}, "target": {"cost": 1}},
    },
    tags=["acquire"],
    summary="Which feature should be learnt next, or is enough known?",
    response_model=AcquireAnswer,
    responses=problems(404, 409, 413, 422),
)
