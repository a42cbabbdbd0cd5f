"""What jobs of every kind have in common over HTTP: accepting, waiting, following."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Header, Request, Response
from fastapi.sse import ServerSentEvent
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from app.jobs.job import Job
from app.usecases import jobs as usecase
from app.usecases.ports import Ports

_POLL_SECONDS = 0.25  # how often a waiting client's job is looked up
_HEARTBEAT_SECONDS = 15.0  # proxies close a stream that is silent for long
_LONGEST_WAIT = 60.0

JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Prefer = Annotated[
    str | None,
    Header(
        description="`wait=10` answers only when the job has ended, or after 10 seconds",
        openapi_examples={"wait": {"value": "wait=10"}},
    ),
]


def key_header(example: str) -> Any:
    """The `Idempotency-Key` parameter of a route that accepts jobs."""
    return Header(
        description="a repeated request with the same key answers with the first one's job",
        min_length=1,
        max_length=255,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        openapi_examples={"any string of your own": {"value": example}},
    )


class JobState(BaseModel):
    """How a job of any kind stands."""

    id: str = Field(examples=["job_5f6ee2c1a0b94d0c8e11"])
    kind: str
    status: JobStatus
    progress: float = Field(ge=0, le=1)
    stage: str | None
    attempt: int = Field(description="how often it was started; more than 1 where a process or machine died")
    error: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def state_of(job: Job) -> dict[str, Any]:
    """The fields of `JobState`."""
    return {
        "id": job.id,
        "kind": job.kind,
        "status": job.status,
        "progress": job.progress,
        "stage": job.stage or None,
        "attempt": job.attempt,
        "error": job.error,
        "created_at": _time(job.created_at),
        "started_at": job.started_at and _time(job.started_at),
        "finished_at": job.finished_at and _time(job.finished_at),
    }


async def accepted(request: Request, response: Response, ports: Ports, job: Job, prefer: str | None) -> Job:
    """Say where the job is found and have a worker look; with `prefer`, wait, and answer 200 where it has ended."""
    worker = request.app.state.worker
    if worker is not None:
        worker.wake()
    response.headers["Location"] = f"/{job.kind}/{job.id}"
    response.headers["Retry-After"] = "1"
    job = await wait(request, response, ports, job, prefer)
    if job.ended and prefer:
        response.status_code = 200
    return job


async def wait(request: Request, response: Response, ports: Ports, job: Job, prefer: str | None) -> Job:
    """The job once it has ended, or as it stands after the seconds that `Prefer: wait=…` names."""
    wanted = re.search(r"\bwait\s*=\s*\"?(\d{1,6})\b", prefer or "", re.IGNORECASE)
    if wanted is None:
        return job
    seconds = min(float(wanted[1]), _LONGEST_WAIT)
    response.headers["Preference-Applied"] = f"wait={seconds:.0f}"
    until = asyncio.get_running_loop().time() + seconds
    while not job.ended and not request.app.state.stopping.is_set():
        left = until - asyncio.get_running_loop().time()
        if left <= 0:
            break
        await asyncio.sleep(min(_POLL_SECONDS, left))
        job = await run_in_threadpool(usecase.find, ports, job.kind, job.id)
    return job


async def follow(
    request: Request, ports: Ports, job: Job, document: Callable[[Job], JobState]
) -> AsyncIterator[ServerSentEvent]:
    """One event whenever the job's document has changed, until the job ends."""
    last: JobState | None = None
    silent = 0.0
    while True:
        now = document(job)
        if now != last:
            yield ServerSentEvent(data=now, event="job")
            last, silent = now, 0.0
        elif silent >= _HEARTBEAT_SECONDS:
            yield ServerSentEvent(comment="still here")
            silent = 0.0
        if job.ended or request.app.state.stopping.is_set():
            return
        await asyncio.sleep(_POLL_SECONDS)
        silent += _POLL_SECONDS
        job = await run_in_threadpool(usecase.find, ports, job.kind, job.id)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
