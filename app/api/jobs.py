"""Jobs over HTTP: a job's document, accepting an order, waiting and following."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, Self

from fastapi import Depends, Header, Request, Response
from fastapi.sse import ServerSentEvent
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.api.dependencies import CallerDep, StoresDep
from app.api.errors import Problem, problems, stored_problem
from app.api.exchange import caller_of
from app.api.service import Service
from app.jobs.job import Job
from app.training import jobs as usecase

_LOOK_SECONDS = 0.25  # between two looks at the job table
_MAX_WAIT = 60  # seconds

JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Prefer = Annotated[
    str | None,
    Header(
        description="`wait=10` answers only when the job has ended, or after 10 seconds;"
        f" at most {_MAX_WAIT}",
        openapi_examples={"wait": {"value": "wait=10"}},
    ),
]


class JobState(BaseModel):
    """How a job of any kind stands."""

    id: str = Field(examples=["job_5f6ee2c1a0b94d0c8e11"])
    kind: str
    status: JobStatus
    requested: dict[str, Any] | None = Field(
        description="what was ordered: data set, learners with all parameters, name of the model to"
        " train"
    )
    progress: float = Field(ge=0, le=1)
    stage: str | None
    attempt: int = Field(description="number of attempts; more than 1 after a retry")
    error: Problem | None = Field(
        description="why it failed: what the request would have been answered"
    )
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job) -> Self:
        return cls.model_validate(
            vars(job)
            | {
                "requested": job.requested,
                "stage": job.stage or None,
                "error": job.error and stored_problem(job.error),
                **cls.outcome(job.result),
            }
        )

    @classmethod
    def outcome(cls, _result: dict[str, Any] | None) -> dict[str, Any]:
        """The fields that only this kind of job has."""
        return {}


async def _states(request: Request, job: Job) -> AsyncGenerator[Job, None]:
    """The job now and after each look, until it has ended or the service stops; NotFound once it is
    deleted.

    All callers that follow a job look at the same moments, so one thread looks once for all.
    """
    clock = asyncio.get_running_loop().time
    yield job
    service: Service = request.app.state.service
    while not (job.ended or service.stopping.is_set()):
        await asyncio.sleep(_LOOK_SECONDS - clock() % _LOOK_SECONDS)
        job = await service.limiters.looks.run(usecase.look, service.stores, job.id)
        yield job


Order = Callable[..., Awaitable[Job]]


def ordering(example: str) -> Any:
    """The dependency of a route that accepts jobs, with an example of a key: a function that
    submits an order, and returns its job.

    It sets `Location`; with `Prefer: wait` it waits, and sets the status 200 if the job has ended.
    """
    key_header = Header(
        default=None,
        description="a repeated request with the same key answers with the first one's job",
        min_length=1,
        max_length=255,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        openapi_examples={"any string of your own": {"value": example}},
    )

    def order_of(
        request: Request,
        response: Response,
        stores: StoresDep,
        caller: CallerDep,
        idempotency_key: str | None = key_header,
        prefer: Prefer = None,
    ) -> Order:
        async def order(
            submit: Callable[..., Job],
            *args: Any,
            run: Callable[..., Awaitable[Job]] = run_in_threadpool,
        ) -> Job:
            job = await run(
                partial(submit, stores, *args, key=idempotency_key, caller=caller)
            )
            response.headers["Location"] = f"/{job.kind}/{job.id}"
            response.headers["Retry-After"] = "1"
            job = await wait(request, response, job, prefer)
            if job.ended and prefer:
                response.status_code = 200
            return job

        return order

    return Depends(order_of)


def starting(document: type[BaseModel], *statuses: int) -> dict[str, Any]:
    """The options of a route that accepts jobs and answers with such a document, or with these
    problems.
    """
    ended = {
        "description": "Accepted, and ended within the time that `Prefer: wait` gave",
        "model": document,
    }
    return {
        "status_code": 202,
        "response_model": document,
        "responses": {200: ended, **problems(*statuses)},
    }


async def wait(
    request: Request, response: Response, job: Job, prefer: str | None
) -> Job:
    """The job once it has ended, or as it stands after the seconds in `Prefer: wait=…`."""
    preference = re.search(r"\bwait\s*=\s*\"?(\d{1,6})\b", prefer or "", re.IGNORECASE)
    if preference is None:
        return job
    seconds = min(int(preference[1]), _MAX_WAIT)
    response.headers["Preference-Applied"] = f"wait={seconds}"
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), aclosing(_states(request, job)) as states:
            async for state in states:
                job = state
    return job


async def follow(
    request: Request, job: Job, document: Callable[[Job], JobState]
) -> AsyncIterator[ServerSentEvent]:
    """An event whenever the job's document has changed, until the job or the validity of the
    caller's key ends.
    """
    last: JobState | None = None
    async with aclosing(_states(request, job)) as states:
        async for state in states:
            if not request.app.state.service.keyring.holds(caller_of(request)):
                return
            current = document(state)
            if current != last:
                yield ServerSentEvent(data=current, event="job")
            last = current
