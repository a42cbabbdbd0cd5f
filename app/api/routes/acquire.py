"""`POST /acquire`: the feature to learn next. It reads and writes its bodies itself, like
`/predict`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import orjson
from fastapi import Request, Response

from app.answering import acquire as usecase
from app.answering.acquire import AcquireAnswer, AcquireRequest
from app.api.bodies import read, refuse_query, with_matrix
from app.api.codecs.media_types import JSON
from app.api.dependencies import stores_of
from app.api.errors import problems
from app.api.exchange import caller_of, charge_of
from app.api.gate import PREDICT, needs
from app.api.limiters import Pace, loaded, run
from app.api.routing import DirectRoute
from app.outcomes.decision import Batch
from app.registry.loaded import Loaded
from app.requests.rows import carried_of_ids
from app.requests.saved_matrices import with_saved
from payoff.errors import Invalid, pointer

_DUMP = orjson.OPT_SERIALIZE_NUMPY
_LONG_SECONDS = 0.5  # work that takes longer has the threads for long work
# Cases that are written at a time: the interpreter's lock is held for some milliseconds.
_CASES_AT_ONCE = 500


@needs(PREDICT)
async def acquire(request: Request) -> Response:
    """Say which feature to learn next, or that enough is known, and why.

    From what is known every tree of a forest is walked until a feature stops it that is not known.
    `next` is the feature that most trees wait for, per price. A tree of classifiers (`cost_tree`)
    is walked until a node needs features that are not known; `next` is the cheapest of them. A
    `forest_chain` asks for features in one order; `next` is the first of them that is not known. A
    case is decided when all trees are `resolved` (`unavailable`: one of them needed a value that
    cannot be had), when the vote can no longer change (`vote_settled`: the class is that of the
    complete row), when nothing affordable is left (`budget`), or, with `benefits` and no tree of
    classifiers, when more is `not_worth_it`: then the matrix decides, and a settled vote stops
    nothing. The service keeps nothing between calls: send all that is known, in the order in which
    it was acquired; what was wrong is corrected by sending something else.
    """
    refuse_query(request)
    question = await read(request, AcquireRequest)
    if (question.known is None) == (question.instances is None):
        raise Invalid.at("/known", "send either known (one case) or instances (many)")
    if question.instances is None and question.ids is not None:
        raise Invalid.at("/known", "ids go with 'instances'")
    model = await loaded(request, question.model)
    question = with_saved(stores_of(request), question, model.name, model.classes)
    cases: Sequence[Any] = question.instances or []
    if question.known is not None:
        cases = [question.known]
    is_long = usecase.seconds(len(cases), question) > _LONG_SECONDS
    pace: Pace = "long" if is_long else "in a thread"
    response, batch = await run(
        request, pace, partial(_answer, request, question, model, cases)
    )
    if batch is not None:
        await stores_of(request).recorder.record(batch)
    return response


def _answer(
    request: Request, question: AcquireRequest, model: Loaded, cases: Sequence[Any]
) -> tuple[Response, Batch | None]:
    """The response, and the decisions to be recorded before it is sent."""
    carried = carried_of_ids(question.ids, cases)
    is_one_case = question.instances is None
    if not is_one_case:
        charge_of(request)(usecase.extent(model, len(cases), question))
    place = (lambda _: "/known") if is_one_case else partial(pointer, "instances")
    states = usecase.acquire(model, cases, question, place)
    request_ids = carried.request_ids if carried.columns else None
    batch, ids = usecase.recorded(
        stores_of(request),
        model,
        question,
        cases,
        states,
        caller_of(request),
        request_ids,
    )
    if ids is not None:
        carried = carried.with_ids(ids)
    head = {"model": model.named, **(carried.document() if carried.columns else {})}
    warnings = {"warnings": states.warnings}
    if is_one_case:
        content = orjson.dumps(
            {**head, **next(states.documents()), **warnings}, option=_DUMP
        )
    else:
        content = orjson.dumps({**head, **warnings}, option=_DUMP)
        content = (
            content[:-1]
            + b',"results":['
            + b",".join(_written(states.documents()))
            + b"]}"
        )
    return with_matrix(Response(content, media_type=JSON), question), batch


def _written(documents: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """The documents as JSON, some at a time, without the brackets around them."""
    while part := list(islice(documents, _CASES_AT_ONCE)):
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
        "one case, the model above": {
            "model": "triage",
            "known": {"age": 58},
            "budget": 60,
        },
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
