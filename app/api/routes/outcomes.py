"""Recorded decisions and their outcomes, over HTTP: sent, reviewed and erased."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Body, Path, Query, Request, Response
from pydantic import BaseModel, Field, StrictBool

from app.answering import outcomes as usecase
from app.api.bodies import checked, media_type_of_body, read_query, refuse_query
from app.api.codecs.json import parsed
from app.api.codecs.media_types import JSON, TABULAR
from app.api.codecs.tables import DIALECT_FIELDS, DialectFields, unpacked
from app.api.codecs.uploads import run_while_connected
from app.api.dependencies import CallerDep, StoresDep
from app.api.errors import problems
from app.api.exchange import caller_of, charge_of
from app.api.gate import ADMIN, PREDICT_OR_REVIEW, REVIEW_OR_TRAIN, TRAIN, needs
from app.api.limiters import Pace, limiters, pace_of, run
from app.api.routes.datasets import DatasetDocument
from app.api.routes.models import ModelReference
from app.api.routing import DirectRoute, StrictRoute
from app.api.service import Service
from app.report import review
from app.requests.fields import Name, Period, Text

router = APIRouter(tags=["outcomes"], route_class=StrictRoute)

# Outcomes of more days or rows have the threads for long work: each day may be a file to be opened,
# and a short table can hold many rows.
_LONG_DAYS = 20
_LONG_ROWS = 5_000


class StatedOutcome(BaseModel):
    """An outcome, with the fields that it states."""

    truth: int | float | str | None = Field(
        default=None, description="null of decisions by rewards"
    )
    action: int | str | None = None
    benefit: float | None = None
    at: float | None = Field(default=None, description="seconds since 1970")


class OutcomeConflict(BaseModel):
    """An outcome that contradicts the stored one, which stays."""

    id: str
    stored: StatedOutcome
    sent: StatedOutcome


class OutcomesAnswer(BaseModel):
    """What became of the outcomes."""

    accepted: int = Field(
        description="stored; also where they add a field to the stored one, or correct it"
    )
    unchanged: int = Field(description="there already")
    open: int = Field(description="without a truth: nothing is stored of these")
    unknown: list[str] = Field(
        description="ids of no recorded decision, or of models that the key is not for"
    )
    conflicts: list[OutcomeConflict] = Field(
        description="send them with `correct` to replace what is stored"
    )


class OutcomesTable(DialectFields):
    """Query parameters beside a table of outcomes."""

    correct: StrictBool = usecase.CORRECT


@needs(PREDICT_OR_REVIEW)
async def send_outcomes(request: Request) -> Response:
    """Send what became of recorded decisions: late, in any order, as often as you like.

    An outcome that is there already is not stored again. One that states more than the stored one,
    such as a benefit that came later, adds to it; one that contradicts it is a conflict, unless
    `correct` is true. All others of the request are stored, in one transaction.

    The outcomes come as JSON, or as a table with the columns `id`, `truth` and perhaps `action`,
    `benefit` and `at`: `text/csv`, `application/vnd.apache.parquet` or
    `application/vnd.apache.arrow.stream`. Then `correct` is a query parameter. A case whose truth
    is null or empty is open: send it again, with its action and benefit, when the truth is known.
    """
    kind = media_type_of_body(request, TABULAR)
    body = await request.body()
    if kind != JSON:
        kind, body = await unpacked(request, kind, body, usecase.MAX_OUTCOMES)
    read = partial(_read, request, kind, body)
    outcomes, correct = await run(request, pace_of(len(body)), read)
    n = len(outcomes.rows)  # no fewer than their days
    is_long = n > _LONG_ROWS or (n > _LONG_DAYS and outcomes.days > _LONG_DAYS)
    pace: Pace = "long" if is_long else "in a thread"
    service: Service = request.app.state.service
    store = partial(
        usecase.store, service.stores, caller_of(request), outcomes, correct=correct
    )
    return Response(orjson.dumps(await run(request, pace, store)), media_type=JSON)


def _read(request: Request, kind: str, body: bytes) -> tuple[usecase.OutcomeRows, bool]:
    """The outcomes, and whether they are corrections."""
    charge = charge_of(request)
    if kind == JSON:
        if request.scope["query_string"]:
            refuse_query(request)
        question = checked(usecase.OutcomesRequest, parsed(body, charge))
        return question.rows(), question.correct
    fields = read_query(request, OutcomesTable, DIALECT_FIELDS)
    from app.api.codecs.outcomes import outcomes_of  # noqa: PLC0415 - with pyarrow

    return outcomes_of(fields, kind, body, charge), fields.correct


_EXAMPLE = {
    "outcomes": [
        {"id": "visit-1", "truth": "ill"},
        {"id": "visit-2", "truth": "healthy", "action": "treat", "benefit": -1.5},
        {"id": "visit-3", "truth": "ill"},
        {"id": "visit-4", "truth": "healthy"},
    ]
}
route = DirectRoute(
    "/outcomes",
    send_outcomes,
    body_type=usecase.OutcomesRequest,
    examples={"four visits": _EXAMPLE},
    media_types=TABULAR,
    query_type=OutcomesTable,
    tags=["outcomes"],
    summary="What became of recorded decisions",
    response_model=OutcomesAnswer,
    responses=problems(413, 415, 422, 503),
)


class FromOutcomesRequest(Period):
    """Which recorded decisions to make a data set of."""

    model: Name = Field(examples=["triage"])
    name: Text | None = Field(
        default=None, description="what you call it", examples=["triage-seen"]
    )


@router.post(
    "/datasets/from-outcomes",
    summary="Make a data set of recorded instances and their truth",
    status_code=201,
    responses=problems(404, 409, 413, 422, 503),
)
@needs(TRAIN)
async def outcomes_as_dataset(
    body: Annotated[
        FromOutcomesRequest,
        Body(openapi_examples={"all that is known": {"value": {"model": "triage"}}}),
    ],
    request: Request,
    response: Response,
    stores: StoresDep,
    caller: CallerDep,
) -> DatasetDocument:
    """A row for each decision that was recorded with its instance (`"record": {"instances": true}`)
    and has an outcome.

    `from` says where the rows come from, and how many decisions are left out for what reason; 409
    where none is left. The features are those of the model's latest version, and the label has its
    name. The truth is known more often after some actions than after others where the report says
    so; then the rows are no fair sample.
    """
    from app.report import dataset_from_outcomes  # noqa: PLC0415 - with pyarrow

    caller.need_model(body.model)
    make = partial(
        dataset_from_outcomes.make,
        stores,
        body.model,
        since=body.since,
        until=body.until,
        name=body.name,
        owner=caller.owner,
    )
    dataset = await run_while_connected(request, make)
    response.headers["Location"] = f"/datasets/{dataset.id}"
    return DatasetDocument.model_validate(dataset)


_DECISION_ID = Path(openapi_examples={"a visit": {"value": "visit-1"}})


class WaitingDecision(BaseModel):
    """A decision that waits for a person."""

    id: str
    at: datetime
    version: int
    action: int | str = Field(description="what was decided")
    probabilities: dict[str, float]
    expected_benefit: float | None
    stake: float | None = Field(
        description="what knowing the truth would be worth: the expected benefit under perfect"
        " knowledge less that of the decision; null without a matrix"
    )
    known: bool = Field(description="whether its truth is known")


class DecisionQueue(BaseModel):
    """A page of the decisions that wait."""

    decisions: list[WaitingDecision]
    scanned: int = Field(description="decisions that were read for this page")
    complete: bool = Field(
        description="false where earlier days were not read; `until` reaches them"
    )
    next_page_token: str | None


class DecisionDocument(BaseModel):
    """All that is recorded of a decision."""

    id: str
    at: datetime
    key: str | None = Field(description="the name of the API key")
    terms: dict[str, Any] = Field(
        description="model and version, rule, matrix, priors, and what else the rule used"
    )
    action: float | int | str
    probabilities: list[float] | None = Field(
        description="by class; of a quantity itself and its interval; null by rewards"
    )
    expected_rewards: list[float] | None = Field(
        default=None,
        description="by action, before costs, of models that learned from rewards",
    )
    chances: list[float] | None = Field(
        default=None, description="that each of these actions had"
    )
    expected_benefits: list[float] | None = Field(description="by action")
    stake: float | None
    propensity: float | None
    instance: dict[str, Any] | None = Field(description="where it was recorded")
    explanation: dict[str, Any] | None = Field(
        description="of a recorded instance, by the version that decided; what its features count"
        " alone where more than the expected benefit decided, such as limits"
    )
    outcome: StatedOutcome | None


@router.get(
    "/models/{ref}/decisions",
    summary="The decisions that wait for a person",
    responses=problems(404, 422, 503),
)
@needs(REVIEW_OR_TRAIN)
async def waiting_decisions(
    ref: ModelReference,
    query: Annotated[review.QueueQuery, Query()],
    request: Request,
    stores: StoresDep,
    caller: CallerDep,
) -> DecisionQueue:
    """Those whose truth is worth most come first, or the latest. Send what a person finds to
    `POST /outcomes`.

    Days are read from the latest on, whole, until 50,000 decisions or 20 days are read.
    """
    caller.need_model(ref)
    page = partial(review.queue, stores, caller, ref, query)
    return DecisionQueue(**await limiters(request).long.run(request, page))


@router.get(
    "/decisions/{id:path}",
    summary="One recorded decision in full",
    responses=problems(404, 503),
)
@needs(REVIEW_OR_TRAIN)
async def recorded_decision(
    id: Annotated[str, _DECISION_ID],  # noqa: A002 - the name in the path
    request: Request,
    stores: StoresDep,
    caller: CallerDep,
) -> DecisionDocument:
    """What was decided, when, by what; its outcome; and why, where the instance was recorded."""
    read = partial(review.decision, stores, caller, id)
    return DecisionDocument(**await limiters(request).long.run(request, read))


@router.delete(
    "/outcomes/{id:path}",
    status_code=204,
    response_class=Response,
    responses=problems(404, 503),
)
@needs(ADMIN)
def erase_decision(
    id: Annotated[str, _DECISION_ID],  # noqa: A002 - the name in the path
    stores: StoresDep,
    caller: CallerDep,
) -> None:
    """Delete a recorded decision and all that belongs to it, so that no report reads it.

    A worker removes it from the files of sealed days within an hour. It cannot be recorded again
    under the same id. The audit log has a digest of the id, not the id.
    """
    usecase.erase(stores, caller, id)
