"""Comparisons of learners and rules over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.api.bodies.documents import Matrix, StrictRoute, Text, WireModel
from app.api.bodies.rankings import Lead, Standing
from app.api.charts import media
from app.api.charts.reports import comparison_chart
from app.api.deps import CallerDep, PortsDep
from app.api.errors import problems
from app.api.job_polling import stream_of_caller
from app.api.middleware.limiters import limiters
from app.api.middleware.permits import TRAIN, needs
from app.api.routes.datasets import EXAMPLE_ID
from app.api.routes.jobs import JobState, JobStatus, Prefer, accepted, follow, key_header, state_of, wait
from app.api.routes.train import Learner
from app.decisions.rules import RuleName
from app.errors import Conflict
from app.jobs.job import JobView
from app.jobs.queue import id_of_key
from app.usecases import compare as usecase
from app.usecases import jobs
from app.usecases.specs import FOLDS, SEED

router = APIRouter(prefix="/compare", tags=["compare"], route_class=StrictRoute)


class CompareRequest(WireModel):
    """What to compare, on what, and what is at stake."""

    dataset: Text = Field(examples=[EXAMPLE_ID])
    learners: list[Learner] = Field(min_length=1, max_length=20)
    benefits: Matrix = Field(description="a row per actual class, a column per action")
    folds: int = Field(
        default=FOLDS, ge=2, le=20, strict=True, description="each is judged by models fitted on the others"
    )
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)


class Contender(BaseModel):
    """A learner with a rule."""

    learner: str | None = Field(description="null for `same_for_all`, which needs none")
    rule: RuleName


class CompareStanding(Standing, Contender):
    """A row of the table."""


class CompareLead(Lead, Contender):
    """Who earned most."""

    same: list[Contender] = Field(description="who earned the same on every row")
    runner_up: Contender | None


class ComparedLearner(BaseModel):
    """A learner as it was compared."""

    name: str = Field(description="its kind, and the parameters that are not the defaults")
    kind: str
    parameters: dict[str, Any]
    fit_seconds: float | None = Field(description="mean of the folds; null where it failed")
    converged: list[bool] | None = Field(
        default=None, description="whether the fit on each fold's rows did; null where that is no question"
    )
    error: str | None = Field(default=None, description="why it could not be fitted, and has no rows in the table")


class SameForAll(BaseModel):
    """The best that can be had without a model: one action for every row."""

    action: int = Field(description="its column")
    benefit: float


class Comparison(BaseModel):
    """What every learner earned with every rule, on the same rows, none of which its model was fitted on."""

    dataset: str
    classes: list[int | str]
    rows: int
    upper_bound: float = Field(description="mean benefit of someone who knows every class")
    table: list[CompareStanding]
    best: CompareLead
    same_for_all: SameForAll
    learners: list[ComparedLearner]
    warnings: list[str]


class CompareDocument(JobState):
    """A comparison, as it stands."""

    result: Comparison | None = Field(description="once it has succeeded")

    @classmethod
    def of(cls, job: JobView) -> CompareDocument:
        result = None if job.result is None else Comparison.model_validate(job.result)
        return cls(**state_of(job), result=result)


class ComparePage(BaseModel):
    """A page of comparisons without their tables, newest first."""

    jobs: list[JobState]
    next_page_token: str | None


EXAMPLE_KEY = "docs-comparison"
CompareId = Annotated[str, Path(openapi_examples={"the comparison above": {"value": id_of_key(EXAMPLE_KEY)}})]


def _existing(job_id: CompareId, ports: PortsDep, caller: CallerDep) -> JobView:
    return jobs.find_for(caller, ports, usecase.KIND, job_id)


JobDep = Annotated[JobView, Depends(_existing)]
_EXAMPLE = {
    "dataset": EXAMPLE_ID,
    "learners": [{"kind": "logistic"}, {"kind": "cost_naive_bayes"}],
    "benefits": [[0, -1], [-10, 5]],
    "folds": 3,
}
_ACCEPTED = {
    "description": "Accepted, and ended within the time that `Prefer: wait` gave",
    "model": CompareDocument,
}


@router.post(
    "",
    summary="Start a job that compares learners and rules",
    status_code=202,
    response_model=CompareDocument,
    responses={200: _ACCEPTED, **problems(404, 413, 422)},
)
@needs(TRAIN)
async def submit(
    body: Annotated[CompareRequest, Body(openapi_examples={"the data set above": {"value": _EXAMPLE}})],
    request: Request,
    response: Response,
    ports: PortsDep,
    caller: CallerDep,
    idempotency_key: Annotated[str | None, key_header(EXAMPLE_KEY)] = None,
    prefer: Prefer = None,
) -> CompareDocument:
    """Every learner is fitted on the same folds, and every rule that the benefits allow decides the rows outside.

    A learner that cannot be fitted is listed with its `error`, and the others are compared; the job fails where none is
    left. The best action for all, which needs no model, is the table's last row.
    """
    job = await run_in_threadpool(usecase.submit, ports, dict(body), key=idempotency_key, caller=caller)
    return CompareDocument.of(await accepted(request, response, job, prefer))


@router.get("", summary="List comparisons, newest first", responses=problems(422))
@needs(TRAIN)
def page(
    ports: PortsDep,
    caller: CallerDep,
    status: JobStatus | None = None,
    page_size: Annotated[int, Query(ge=1, le=500)] = 50,
    page_token: Annotated[str | None, Query(max_length=200)] = None,
) -> ComparePage:
    found, token = jobs.page(
        ports, caller, usecase.KIND, status=status, page_size=page_size, page_token=page_token, results=False
    )
    return ComparePage(jobs=[JobState(**state_of(job)) for job in found], next_page_token=token)


@router.get(
    "/{job_id}",
    summary="Look at a comparison",
    response_model=CompareDocument,
    responses={200: {"content": media.SVG_CONTENT}, **problems(404, 409)},
)
@needs(TRAIN)
async def find(job: JobDep, request: Request, response: Response, prefer: Prefer = None) -> CompareDocument | Response:
    """With `Accept: image/svg+xml` the table as a chart; 409 while there is none."""
    document = CompareDocument.of(await wait(request, response, job, prefer))
    response.headers["Vary"] = "Accept"
    if not media.wants_svg(request):
        return document
    if (result := document.result) is None:
        raise Conflict(f"the comparison has no table to draw: it is {document.status}")
    return media.svg(await limiters(request).long.run(lambda: comparison_chart(result.model_dump())))


@router.get(
    "/{job_id}/events",
    summary="Follow a comparison until it ends, as server-sent events",
    response_class=EventSourceResponse,
    responses=problems(404, 429),
    dependencies=[Depends(stream_of_caller)],
)
@needs(TRAIN)
async def events(job: JobDep, request: Request) -> AsyncIterator[ServerSentEvent]:
    """One event whenever the job has changed; its data are what `GET /compare/{job_id}` answers."""
    async for event in follow(request, job, CompareDocument.of):
        yield event


@router.delete("/{job_id}", summary="Cancel a comparison", status_code=202, responses=problems(404, 409))
@needs(TRAIN)
def cancel(job_id: CompareId, ports: PortsDep, caller: CallerDep) -> CompareDocument:
    """A queued job is cancelled at once, a running one within two seconds; 409 where it has succeeded or failed."""
    return CompareDocument.of(jobs.cancel(ports, caller, usecase.KIND, job_id))
