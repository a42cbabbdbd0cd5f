"""`POST /acquire`: the feature to learn next. It reads and writes its bodies itself, like
`/predict`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any, Literal

import numpy as np
import orjson
from fastapi import Request, Response
from pydantic import BaseModel, Field, RootModel

from app.answering import acquire as usecase
from app.answering.acquire import AcquireRequest, CaseStates
from app.answering.acquire_record import recorded
from app.api.bodies import read, refuse_query, with_matrix
from app.api.codecs.media_types import JSON
from app.api.errors import problems
from app.api.exchange import caller_of, charge_of
from app.api.gate import PREDICT, needs
from app.api.limiters import Pace, loaded, run
from app.api.routing import DirectRoute
from app.api.service import Service
from app.outcomes.decision import Batch
from app.registry.loaded import Loaded
from app.requests.fields import ModelVersion
from app.requests.rows import NOTHING, carried_of_ids
from app.requests.saved_matrices import with_saved
from payoff.acquisition.prices import rounded
from payoff.acquisition.states import States
from payoff.errors import Invalid, pointer

_DUMP = orjson.OPT_SERIALIZE_NUMPY
_LONG_SECONDS = 0.5  # work that takes longer has the threads for long work
# Cases that are written at a time: the interpreter's lock is held for some milliseconds.
_CASES_AT_ONCE = 500


Reason = Literal["resolved", "vote_settled", "budget", "not_worth_it", "unavailable"]


class Offer(BaseModel):
    """A feature, and what it costs now."""

    feature: str
    cost: float


class Wanted(Offer):
    """A feature that trees wait for, or the node of a tree."""

    waiting: int = Field(description="how many trees")


class CaseState(BaseModel):
    """Where a case stands."""

    status: Literal["acquire", "decided"]
    reason: Reason | None = Field(description="why nothing more is asked for")
    next: Offer | None = Field(description="what to learn next")
    frontier: list[Wanted] = Field(
        description="all that trees wait for, best first, affordable or not"
    )
    spent: float
    remaining: float | None = Field(description="of the budget")
    prediction: int | str | float = Field(
        description="from what is known: the class that most trees of a forest vote for"
        " (`/predict` decides by the calibrated probabilities, and may name another), or what the"
        " deepest node of a tree says, a class or a number"
    )
    probabilities: dict[str, float] | None = Field(
        description="of the classes; null where numbers are predicted"
    )
    trees: int
    trees_resolved: int
    decision: int | str | None = Field(
        default=None, description="the best action now, or the likeliest class"
    )
    expected_benefits: dict[str, float] | None = Field(
        default=None, description="with benefits: of each action"
    )
    expected_gain: float | None = Field(
        default=None,
        description="with benefits: of asking on, before the price of `next`",
    )


class CaseAnswer(CaseState):
    """The answer to `known`."""

    model: ModelVersion
    ids: list[str | None] | None = Field(
        default=None, description="with `record`: null while more is asked for"
    )
    warnings: list[str]


class BatchAnswer(BaseModel):
    """The answer to `instances`, in their order."""

    model: ModelVersion
    ids: list[int | str | None] | None = Field(
        default=None,
        description="with `ids` or `record`, in the order of the instances;"
        " null where more is asked for",
    )
    results: list[CaseState]
    warnings: list[str]


class AcquireAnswer(RootModel[CaseAnswer | BatchAnswer]):
    """One case's state for `known`, `results` for `instances`."""


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
    if request.scope["query_string"]:
        refuse_query(request)
    question = await read(request, AcquireRequest)
    if (question.known is None) == (question.instances is None):
        raise Invalid.at("/known", "send either known (one case) or instances (many)")
    if question.instances is None and question.ids is not None:
        raise Invalid.at("/known", "ids go with 'instances'")
    model = await loaded(request, question.model)
    service: Service = request.app.state.service
    if isinstance(question.benefits, str):
        question = with_saved(service.stores, question, model.name, model.classes)
    cases = question.instances
    pace: Pace = "in a thread"
    if cases is not None and usecase.seconds(len(cases), question) > _LONG_SECONDS:
        pace = "long"
    response, batch = await run(
        request, pace, partial(_answer, request, question, model)
    )
    if batch is not None:
        await service.stores.recorder.record(batch)
    return response


def _answer(
    request: Request, question: AcquireRequest, model: Loaded
) -> tuple[Response, Batch | None]:
    """The response, and the decisions to be recorded before it is sent."""
    cases: Sequence[Any] = [question.known]
    place: Callable[[int], str] = _place_of_known
    carried = NOTHING
    if question.instances is not None:
        cases = question.instances
        place = partial(pointer, "instances")
        if question.ids is not None:
            carried = carried_of_ids(question.ids, cases)
        charge_of(request)(usecase.extent(model, len(cases), question))
    states = usecase.acquire(model, cases, question, place)
    batch = None
    if question.record is not None:
        service: Service = request.app.state.service
        batch, ids = recorded(
            service.stores,
            model,
            question,
            cases,
            states,
            caller_of(request),
            carried.request_ids,
        )
        carried = carried.with_ids(ids)
    head = {"model": model.named, **(carried.document() if carried.columns else {})}
    warnings = {"warnings": states.warnings}
    if question.instances is None:
        document = {**head, **next(documents(states)), **warnings}
        content = orjson.dumps(document, option=_DUMP)
    else:
        content = orjson.dumps({**head, **warnings}, option=_DUMP)
        results = b",".join(_written(documents(states)))
        content = content[:-1] + b',"results":[' + results + b"]}"
    response = Response(content, media_type=JSON)
    if question.saved is not None:
        with_matrix(response, question)
    return response, batch


def _place_of_known(_case: int) -> str:
    return "/known"


def _written(cases: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """The documents as JSON, some at a time, without the brackets around them."""
    while part := list(islice(cases, _CASES_AT_ONCE)):
        yield orjson.dumps(part, option=_DUMP)[1:-1]


def documents(answer: CaseStates) -> Iterator[dict[str, Any]]:
    """A document for each case, ready for JSON."""
    names, states = answer.model.names, answer.states
    remaining: Iterator[float | None] = repeat(None)
    if np.isfinite(states.budget):
        unspent = np.maximum(states.budget - states.spent, 0.0)
        remaining = iter(rounded(unspent, states.budget))
    columns = zip(
        answer.reasons,
        states.following.tolist(),
        _frontiers(states, names),
        rounded(states.spent),
        remaining,
        _predictions(answer),
        states.resolved.tolist(),
        _decisions(answer),
        strict=False,
    )
    for (
        reason,
        feature,
        frontier,
        spent,
        remainder,
        prediction,
        resolved,
        decision,
    ) in columns:
        yield {
            "status": "decided" if reason else "acquire",
            "reason": reason,
            "next": None if reason else _next(frontier, names[feature]),
            "frontier": frontier,
            "spent": spent,
            "remaining": remainder,
            **prediction,
            "trees": states.trees,
            "trees_resolved": resolved,
            **decision,
        }


def _predictions(answer: CaseStates) -> Iterator[dict[str, Any]]:
    if not answer.model.classes:
        for value in answer.states.value.tolist():
            yield {"prediction": value, "probabilities": None}
        return
    names = [str(name) for name in answer.model.classes]
    for code, P in zip(
        answer.states.prediction.tolist(), answer.P.tolist(), strict=True
    ):
        yield {
            "prediction": answer.model.classes[code],
            "probabilities": dict(zip(names, P, strict=True)),
        }


def _decisions(answer: CaseStates) -> Iterator[dict[str, Any]]:
    if answer.decision is None or answer.matrix is None:
        yield from repeat({}, len(answer.states))
        return
    names = [str(action) for action in answer.matrix.actions]
    gains: Iterator[float] = (
        repeat(np.nan) if answer.gain is None else iter(answer.gain.tolist())
    )
    choices = answer.decision.choice.tolist()
    expected_benefits = answer.decision.expected_benefits.tolist()
    for choice, expected, gain in zip(choices, expected_benefits, gains, strict=False):
        yield {
            "decision": answer.matrix.actions[choice],
            "expected_benefits": dict(zip(names, expected, strict=True)),
            "expected_gain": None if math.isnan(gain) else gain,
        }


def _frontiers(states: States, names: Sequence[str]) -> list[list[dict[str, Any]]]:
    """The features that trees wait for, best first, for every case."""
    n, m = states.order.shape
    if not n:
        return []
    rows, places = np.nonzero(np.arange(m) < states.wanted[:, None])
    columns = states.order[rows, places]
    costs = states.price[rows, columns].tolist()
    counts = states.waiting[rows, columns].tolist()
    features = [
        {"feature": names[j], "cost": cost, "waiting": count}
        for j, cost, count in zip(columns.tolist(), costs, counts, strict=True)
    ]
    ends = np.cumsum(states.wanted).tolist()
    return [
        features[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


def _next(frontier: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The feature to ask for: mostly the first of the frontier, but that may exceed the budget."""
    feature = next(feature for feature in frontier if feature["feature"] == name)
    return {"feature": feature["feature"], "cost": feature["cost"]}


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
