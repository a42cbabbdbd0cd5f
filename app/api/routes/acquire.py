"""`POST /acquire`: the feature to learn next. It reads and writes its bodies itself, like `/predict`."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import orjson
from fastapi import Request, Response

from app.answering import acquire as usecase
from app.answering.acquire import AcquireAnswer, AcquireRequest
from app.api.bodies import read, refuse_query
from app.api.codecs.answers import carried_of_ids
from app.api.codecs.media_types import JSON
from app.api.dependencies import caller_of, loaded, stores_of, with_matrix
from app.api.errors import problems
from app.api.exchange import charge_of
from app.api.gate import PREDICT, needs
from app.api.limiters import Pace, run
from app.api.routing import DirectRoute
from app.outcomes.decision import Batch
from app.registry.loaded import Loaded
from app.requests.matrices import with_saved
from payoff.errors import Invalid, pointer

_DUMP = orjson.OPT_SERIALIZE_NUMPY
_LONG_SECONDS = 0.5  # of work that has the threads for long work
_PART = 500  # cases written at a time: the interpreter's lock is held for some milliseconds


@needs(PREDICT)
async def acquire(request: Request) -> Response:
    """Say which feature to learn next, or that enough is known, and why.

    From what is known every tree of a forest is walked until a feature stops it that is not known. `next` is the
    feature that most trees wait for, per price. A tree of classifiers (`cost_tree`) is walked until a node needs
    features that are not known; `next` is the cheapest of them. A `forest_chain` asks for features in one order;
    `next` is the first of them that is not known. A case is decided when all trees are `resolved`
    (`unavailable`: one of them needed a value that cannot be had), when the vote can no longer change
    (`vote_settled`: the class is that of the complete row), when nothing affordable is left (`budget`), or, with
    `benefits` and no tree of classifiers, when more is `not_worth_it`: then the matrix decides, and a
    settled vote stops nothing.
    The service keeps nothing between calls: send all that is known, in the order in which it was acquired; what was
    wrong is corrected by sending something else.
    """
    refuse_query(request)
    asked = await read(request, AcquireRequest)
    if (asked.known is None) == (asked.instances is None):
        raise Invalid.at("/known", "send either known (one case) or instances (many)")
    if asked.instances is None and asked.ids is not None:
        raise Invalid.at("/known", "ids go with 'instances'")
    model = await loaded(request, asked.model)
    asked = with_saved(stores_of(request), asked, model.name, model.classes)
    cases: Sequence[Any] = [asked.known] if asked.instances is None else asked.instances
    pace: Pace = "long" if usecase.seconds(len(cases), asked) > _LONG_SECONDS else "in a thread"
    work = partial(_answer, request, asked, model, cases)
    response, batch = await run(request, pace, work)
    if batch is not None:
        await stores_of(request).recorder.record(batch)
    return response


def _answer(
    request: Request, asked: AcquireRequest, model: Loaded, cases: Sequence[Any]
) -> tuple[Response, Batch | None]:
    carried = carried_of_ids(asked.ids, cases)
    if asked.instances is not None:
        charge_of(request)(usecase.extent(model, len(cases), asked))
    place = (lambda _: "/known") if asked.instances is None else partial(pointer, "instances")
    states = usecase.acquire(model, cases, asked, place)
    own = carried.own_ids if carried.columns else None
    batch, ids = usecase.recorded(
        stores_of(request), model, asked, cases, states, caller_of(request), own
    )
    carried = carried if ids is None else carried.with_ids(ids)
    head = {"model": model.named, **(carried.document() if carried.columns else {})}
    if asked.instances is None:
        content = orjson.dumps(
            {**head, **next(states.documents()), "warnings": states.warnings}, option=_DUMP
        )
    else:
        content = orjson.dumps({**head, "warnings": states.warnings}, option=_DUMP)
        content = content[:-1] + b',"results":[' + b",".join(_written(states.documents())) + b"]}"
    return with_matrix(Response(content, media_type=JSON), asked), batch


def _written(documents: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """The documents as JSON, some at a time, without the brackets around them."""
    while part := list(islice(documents, _PART)):
        yield orjson.dumps(part, option=_DUMP)[1:-1]


_WORTH = {
    "model": "triage",
    "instances": [{"age": 58, "pressure": 141}, {"age": 36, "pain": None}],
    "feature_costs": {"pressure": 0.5},
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
}
route = DirectRoute(
    "/acquire",
    acquire,
    body_type=AcquireRequest,
    examples={
        "one case, the model above": {"model": "triage", "known": {"age": 58}, "budget": 60},
        "two cases, worth stopping": _WORTH,
        "recorded when it is decided": {
            "model": "triage",
            "known": {"age": 58},
            "budget": 0,
            "record": True,
        },
    },
    tags=["acquire"],
    summary="Which feature should be learnt next, or is enough known?",
    response_model=AcquireAnswer,
    responses=problems(404, 409, 413, 422),
)
