"""What jobs of every kind have in common over HTTP: accepting, listing, waiting, following, cancelling."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.api.charts import media
from app.api.deps import CallerDep, PageSize, PageToken, PortsDep
from app.api.errors import Problem, problems, stored_problem
from app.api.job_polling import watching
from app.api.middleware.limiters import limiters
from app.api.middleware.permits import TRAIN, guard_of, needs
from app.jobs.client_queue import id_of_key
from app.jobs.job import Job, JobView
from app.usecases import jobs as usecase

_LONGEST_WAIT = 60.0

JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Prefer = Annotated[
    str | None,
    Header(
        description="`wait=10` answers only when the job has ended, or after 10 seconds; at most 60",
        openapi_examples={"wait": {"value": "wait=10"}},
    ),
]


class JobState(BaseModel):
    """How a job of any kind stands."""

    id: str = Field(examples=["job_5f6ee2c1a0b94d0c8e11"])
    kind: str
    status: JobStatus
    requested: dict[str, Any] | None = Field(
        description="what was ordered: data set, learners with all parameters, name of the model to train;"
        " null for jobs of earlier releases"
    )
    progress: float = Field(ge=0, le=1)
    stage: str | None
    attempt: int = Field(description="number of attempts; more than 1 after a retry")
    error: Problem | None = Field(description="why it failed: what the request would have been answered")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: JobView) -> Self:
        return cls.model_validate(
            vars(job)
            | {
                "requested": job.requested,
                "stage": job.stage or None,
                "error": job.error and stored_problem(job.error),
                **{name: _time(getattr(job, name)) for name in ("created_at", "started_at", "finished_at")},
                **cls.outcome(job.result),
            }
        )

    @classmethod
    def outcome(cls, _result: dict[str, Any] | None) -> dict[str, Any]:
        """The fields that only this kind of job has."""
        return {}


Document = TypeVar("Document", bound=JobState)


Order = Callable[..., Awaitable[JobView]]


def ordering(example: str) -> Any:
    """The dependency of a route that accepts jobs, with an example of a key: submits an order, and returns its job."""
    key_header = Header(
        default=None,
        description="a repeated request with the same key answers with the first one's job",
        min_length=1,
        max_length=255,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        openapi_examples={"any string of your own": {"value": example}},
    )

    def made(
        request: Request,
        response: Response,
        ports: PortsDep,
        caller: CallerDep,
        idempotency_key: str | None = key_header,
        prefer: Prefer = None,
    ) -> Order:
        async def order(
            submit: Callable[..., Job], *args: Any, run: Callable[..., Awaitable[Job]] = run_in_threadpool
        ) -> JobView:
            job = await run(partial(submit, ports, *args, key=idempotency_key, caller=caller))
            return await accepted(request, response, job, prefer)

        return order

    return Depends(made)


class JobPage(BaseModel, Generic[Document]):
    """A page of jobs, newest first."""

    jobs: list[Document]
    next_page_token: str | None


def no_filter() -> None:
    """Jobs of a kind that makes no model are not filtered by one."""


def add_job_routes(
    router: APIRouter,
    kind: str,
    document: type[JobState],
    *,
    example_key: str,
    others: Sequence[str] = (),
    listed: type[JobState] | None = None,
    model_filter: Callable[..., str | None] = no_filter,
    chart: Callable[[Any], Callable[[], str]] | None = None,
) -> None:
    """List, look at, follow and cancel jobs of a `kind`, and of `others`, whose documents are `document`s.

    Lists have `listed` documents in their place, if given, and no results. `chart` returns what draws a document as
    SVG, or raises Conflict where there is nothing to draw.
    """
    kinds = (kind, *others)
    job_id = Path(openapi_examples={"the job above": {"value": id_of_key(example_key)}})

    def existing(ports: PortsDep, caller: CallerDep, job_id: str = job_id) -> JobView:
        return usecase.find_for(caller, ports, kinds, job_id)

    in_list: Any = listed or document
    found, wanted_model = Depends(existing), Depends(model_filter)
    drawn: dict[int | str, dict[str, Any]] = {} if chart is None else {200: {"content": media.SVG_CONTENT}}

    @router.get("", summary="List jobs, newest first", response_model=JobPage[in_list], responses=problems(422))
    @needs(TRAIN)
    def page(
        ports: PortsDep,
        caller: CallerDep,
        status: JobStatus | None = None,
        model: str | None = wanted_model,
        page_size: PageSize = 50,
        page_token: PageToken = None,
    ) -> Any:
        jobs, token = usecase.page(
            ports,
            caller,
            kinds,
            status=status,
            model=model,
            page_size=page_size,
            page_token=page_token,
            results=listed is None,
        )
        return {"jobs": [in_list.of(job) for job in jobs], "next_page_token": token}

    @router.get(
        "/{job_id}",
        summary="Look at a job",
        response_model=document,
        responses=drawn | problems(404, *([409] if chart else [])),
        description="With `Accept: image/svg+xml` its result as a chart; 409 while there is none." if chart else None,
    )
    @needs(TRAIN)
    async def find(request: Request, response: Response, job: JobView = found, prefer: Prefer = None) -> Any:
        current = document.of(await wait(request, response, job, prefer))
        if chart is None:
            return current
        response.headers["Vary"] = "Accept"
        if not media.wants_svg(request):
            return current
        return media.svg(await limiters(request).long.run(chart(current)))

    @router.get(
        "/{job_id}/events",
        summary="Follow a job until it ends, as server-sent events",
        description=f"One event whenever the job has changed; its data are what `GET /{kind}/{{job_id}}` answers.",
        response_class=EventSourceResponse,
        responses=problems(404),
    )
    @needs(TRAIN)
    async def events(request: Request, job: JobView = found) -> AsyncIterator[ServerSentEvent]:
        async for event in follow(request, job, document.of):
            yield event

    @router.delete(
        "/{job_id}", summary="Cancel a job", status_code=202, response_model=document, responses=problems(404, 409)
    )
    @needs(TRAIN)
    def cancel(ports: PortsDep, caller: CallerDep, job_id: str = job_id) -> Any:
        """A queued job is cancelled at once, a running one within two seconds; 409 where it has succeeded or failed."""
        return document.of(usecase.cancel(ports, caller, kinds, job_id))


def accepted_response(document: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says about jobs that end before they are answered."""
    return {200: {"description": "Accepted, and ended within the time that `Prefer: wait` gave", "model": document}}


async def accepted(request: Request, response: Response, job: JobView, prefer: str | None) -> JobView:
    """Set `Location` and wake a worker; with `prefer`, wait, and answer 200 if the job has ended."""
    worker = request.app.state.worker
    if worker is not None:
        worker.wake()
    response.headers["Location"] = f"/{job.kind}/{job.id}"
    response.headers["Retry-After"] = "1"
    job = await wait(request, response, job, prefer)
    if job.ended and prefer:
        response.status_code = 200
    return job


async def wait(request: Request, response: Response, job: JobView, prefer: str | None) -> JobView:
    """The job once it has ended, or as it stands after the seconds that `Prefer: wait=…` names."""
    wanted = re.search(r"\bwait\s*=\s*\"?(\d{1,6})\b", prefer or "", re.IGNORECASE)
    if wanted is None:
        return job
    seconds = min(float(wanted[1]), _LONGEST_WAIT)
    response.headers["Preference-Applied"] = f"wait={seconds:.0f}"
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), aclosing(watching(request).states(job)) as states:
            async for state in states:
                job = state
    return job


async def follow(
    request: Request, job: JobView, document: Callable[[JobView], JobState]
) -> AsyncIterator[ServerSentEvent]:
    """One event whenever the job's document has changed, until the job ends, or the caller's key does."""
    seen: JobView | None = None
    last: JobState | None = None
    async with aclosing(watching(request).states(job)) as states:
        async for state in states:
            if not guard_of(request.scope).holds(request.scope):
                return
            now = document(state) if state is not seen else last
            if now != last:
                yield ServerSentEvent(data=now, event="job")
            seen, last = state, now


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
