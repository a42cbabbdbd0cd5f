"""Training jobs over HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field, WithJsonSchema
from starlette.concurrency import run_in_threadpool

from app.api.datasets import EXAMPLE_ID
from app.api.deps import PortsDep
from app.api.errors import problems
from app.api.learners import learner_schema
from app.api.wire import ModelVersion, Name, StrictRoute, WireModel
from app.jobs.job import Job
from app.jobs.queue import id_of_key
from app.usecases import train as usecase
from app.usecases.ports import Ports

router = APIRouter(prefix="/train", tags=["train"], route_class=StrictRoute)

_POLL_SECONDS = 0.25  # how often a waiting client's job is looked up
_HEARTBEAT_SECONDS = 15.0  # proxies close a stream that is silent for long
_LONGEST_WAIT = 60.0
_DONE = ("succeeded", "failed", "cancelled")

Number = Annotated[float, Field(strict=True)]
Cell = Annotated[Any, WithJsonSchema({"type": ["number", "string", "null"]})]
Label = Annotated[
    Any,
    WithJsonSchema({"oneOf": [{"type": ["integer", "string"]}, {"type": "array", "items": {"type": "string"}}]}),
]
Learner = Annotated[dict[str, Any], WithJsonSchema(learner_schema())]


class StoredData(WireModel):
    """A data set that was uploaded before."""

    dataset: str = Field(examples=[EXAMPLE_ID])


class InlineData(WireModel):
    """A small table sent along: kept as a data set like any other."""

    features: list[str] = Field(examples=[["age", "pain"]])
    rows: list[list[Cell]] = Field(examples=[[[63, "mild"], [41, "none"]]])
    labels: list[Label] = Field(description="one for each row; a list of labels for each row when multi-label")


class FeatureCost(WireModel):
    """What it costs to learn one feature's value."""

    feature: str
    cost: float = Field(ge=0)
    group: str | None = None
    discounted_cost: float | None = Field(default=None, ge=0, description="once another feature of the group is known")


class TrainRequest(WireModel):
    """What to learn, from what, and how to judge it."""

    model: Name = Field(examples=["triage"])
    learner: Learner = Field(examples=[{"kind": "logistic"}])
    data: StoredData | InlineData
    benefits: list[list[Number]] | None = Field(default=None, description="a row per actual class, a column per action")
    feature_costs: dict[str, Annotated[float, Field(ge=0)]] | list[FeatureCost] | None = None
    holdout: float = Field(default=0.25, ge=0, le=0.9, description="part held out to judge the model; 0: none")
    seed: int = Field(default=0, ge=0, lt=2**32, strict=True)


class JobDocument(BaseModel):
    """A job, as it stands."""

    id: str = Field(examples=["job_5f6ee2c1a0b94d0c8e11"])
    kind: str
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    progress: float = Field(ge=0, le=1)
    stage: str | None
    attempt: int = Field(description="how often it was started; more than 1 where a process or machine died")
    model: ModelVersion | None = Field(description="what was published")
    metrics: dict[str, Any] | None = Field(description="on the hold-out")
    error: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job) -> JobDocument:
        result = job.result or {}
        return cls(
            id=job.id,
            kind=job.kind,
            status=job.status,
            progress=job.progress,
            stage=job.stage or None,
            attempt=job.attempt,
            model=result.get("model"),
            metrics=result.get("metrics"),
            error=job.error,
            created_at=_time(job.created_at),
            started_at=job.started_at and _time(job.started_at),
            finished_at=job.finished_at and _time(job.finished_at),
        )


class JobPage(BaseModel):
    """A page of jobs, newest first."""

    jobs: list[JobDocument]
    next_page_token: str | None


EXAMPLE_KEY = "docs-example"
EXAMPLE_JOB = id_of_key(EXAMPLE_KEY)
JobId = Annotated[str, Path(openapi_examples={"the job above": {"value": EXAMPLE_JOB}})]


def _existing(job_id: JobId, ports: PortsDep) -> Job:
    return usecase.find(ports, job_id)


JobDep = Annotated[Job, Depends(_existing)]
Prefer = Annotated[
    str | None,
    Header(
        description="`wait=10` answers only when the job has ended, or after 10 seconds",
        openapi_examples={"wait": {"value": "wait=10"}},
    ),
]
_EXAMPLE = {
    "model": "triage",
    "learner": {"kind": "logistic"},
    "data": {"dataset": EXAMPLE_ID},
    "benefits": [[0, -1], [-10, 5]],
    "holdout": 0.25,
    "seed": 0,
}
_ACCEPTED = {
    "description": "Accepted, and ended within the time that `Prefer: wait` gave",
    "model": JobDocument,
}


@router.post(
    "",
    summary="Start a job that trains and publishes a model",
    status_code=202,
    response_model=JobDocument,
    responses={200: _ACCEPTED, **problems(404, 409, 413, 422)},
)
async def submit(
    body: Annotated[TrainRequest, Body(openapi_examples={"the data set above": {"value": _EXAMPLE}})],
    request: Request,
    response: Response,
    ports: PortsDep,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="a repeated request with the same key answers with the first one's job",
            min_length=1,
            max_length=255,
            openapi_examples={"any string of your own": {"value": EXAMPLE_KEY}},
        ),
    ] = None,
    prefer: Prefer = None,
) -> JobDocument:
    order = body.model_dump(exclude_unset=False)
    job = await run_in_threadpool(usecase.submit, ports, order, key=idempotency_key)
    worker = request.app.state.worker
    if worker is not None:
        worker.wake()
    response.headers["Location"] = f"/train/{job.id}"
    response.headers["Retry-After"] = "1"
    job = await _wait(request, response, ports, job, prefer)
    if job.status in _DONE and prefer:
        response.status_code = 200
    return JobDocument.of(job)


@router.get("", summary="List jobs, newest first", responses=problems(422))
def page(
    ports: PortsDep,
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"] | None = None,
    model: Annotated[str | None, Query(description="only jobs for this model", max_length=64)] = None,
    page_size: Annotated[int, Query(ge=1, le=500)] = 50,
    page_token: Annotated[str | None, Query(max_length=200)] = None,
) -> JobPage:
    jobs, token = usecase.page(ports, status=status, model=model, page_size=page_size, page_token=page_token)
    return JobPage(jobs=[JobDocument.of(job) for job in jobs], next_page_token=token)


@router.get("/{job_id}", summary="Look at a job", responses=problems(404))
async def find(
    job: JobDep, request: Request, response: Response, ports: PortsDep, prefer: Prefer = None
) -> JobDocument:
    return JobDocument.of(await _wait(request, response, ports, job, prefer))


@router.get(
    "/{job_id}/events",
    summary="Follow a job until it ends, as server-sent events",
    response_class=EventSourceResponse,
    responses=problems(404),
)
async def events(job: JobDep, request: Request, ports: PortsDep) -> AsyncIterator[ServerSentEvent]:
    """One event whenever the job has changed; its data are what `GET /train/{job_id}` answers."""
    last: JobDocument | None = None
    silent = 0.0
    while True:
        document = JobDocument.of(job)
        if document != last:
            yield ServerSentEvent(data=document, event="job")
            last, silent = document, 0.0
        elif silent >= _HEARTBEAT_SECONDS:
            yield ServerSentEvent(comment="still here")
            silent = 0.0
        if job.status in _DONE or request.app.state.stopping.is_set():
            return
        await asyncio.sleep(_POLL_SECONDS)
        silent += _POLL_SECONDS
        job = await run_in_threadpool(usecase.find, ports, job.id)


@router.delete("/{job_id}", summary="Cancel a job", status_code=202, responses=problems(404))
def cancel(job_id: JobId, ports: PortsDep) -> JobDocument:
    """A queued job is cancelled at once, a running one within two seconds; one that has ended stays as it is."""
    return JobDocument.of(usecase.cancel(ports, job_id))


async def _wait(request: Request, response: Response, ports: Ports, job: Job, prefer: str | None) -> Job:
    """The job once it has ended, or as it stands after the seconds that `Prefer: wait=…` names."""
    wanted = re.search(r"\bwait\s*=\s*(\d{1,6})\b", prefer or "")
    if wanted is None:
        return job
    seconds = min(float(wanted[1]), _LONGEST_WAIT)
    response.headers["Preference-Applied"] = f"wait={seconds:.0f}"
    until = asyncio.get_running_loop().time() + seconds
    while job.status not in _DONE and not request.app.state.stopping.is_set():
        left = until - asyncio.get_running_loop().time()
        if left <= 0:
            break
        await asyncio.sleep(min(_POLL_SECONDS, left))
        job = await run_in_threadpool(usecase.find, ports, job.id)
    return job


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
