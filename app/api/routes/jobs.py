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

from app.api.job_polling import watching
from app.api.middleware.permits import guard_of
from app.jobs.job import JobView

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


def state_of(job: JobView) -> dict[str, Any]:
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


async def accepted(request: Request, response: Response, job: JobView, prefer: str | None) -> JobView:
    """Say where the job is found and have a worker look; with `prefer`, wait, and answer 200 where it has ended."""
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
    loop, stopping = asyncio.get_running_loop(), request.app.state.stopping
    until = loop.time() + seconds
    async with watching(request).of(job) as watched:
        while not (job.ended or stopping.is_set()) and (left := until - loop.time()) > 0:
            job = await watched.after(job, left)
    return job


async def follow(
    request: Request, job: JobView, document: Callable[[JobView], JobState]
) -> AsyncIterator[ServerSentEvent]:
    """One event whenever the job's document has changed, until the job ends, or the caller's key does."""
    last: JobState | None = None
    async with watching(request).of(job) as watched:
        while guard_of(request.scope).holds(request.scope):
            now = document(job)
            if now != last:
                yield ServerSentEvent(data=now, event="job")
            if job.ended or request.app.state.stopping.is_set():
                return
            last, before = now, job
            job = await watched.after(before, _HEARTBEAT_SECONDS)
            if job is before and not request.app.state.stopping.is_set():
                yield ServerSentEvent(comment="still here")


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
