"""Jobs: ordered once, whatever is lost on the way, and followed to their end."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import httpx

from payoff_client.errors import InvalidAnswer, PayoffError, RateLimited, Unavailable, of_job
from payoff_client.progress import Bar
from payoff_client.reading import parsed
from payoff_client.shapes import JOB, Shape, check
from payoff_client.wire import Call, Link, post

_ENDED = frozenset({"succeeded", "failed", "cancelled"})
_WAIT = "wait=20"  # seconds of a request for the job's state, where there is no stream of events
_PAUSE = 1.0  # seconds between such requests where a proxy keeps the service from waiting


async def ordered(
    link: Link, path: str, order: dict[str, Any], title: str, progress: bool | None, shape: Shape
) -> dict[str, Any]:
    """The job of an order, which has a shape once it has succeeded; JobFailed where it fails or is cancelled.

    The order has an idempotency key of its own, so that repeating it starts no second job.
    """
    job: dict[str, Any] = await link.document(post(path, order, Idempotency_Key=uuid4().hex), JOB)
    place = f"/{job['kind']}/{job['id']}"
    with Bar(title, link.progress if progress is None else progress) as bar:
        job = await _by_events(link, place, job, bar)
        while job["status"] not in _ENDED:
            asked = time.monotonic()
            job = await link.document(Call("GET", place, headers={"Prefer": _WAIT}), JOB)
            bar.show(job["progress"], job.get("stage"))
            if job["status"] not in _ENDED and time.monotonic() - asked < _PAUSE:
                await link.wire.sleep(_PAUSE)
        if job["status"] == "succeeded":
            bar.show(1.0, "done")
    if job["status"] != "succeeded":
        raise of_job(job)
    try:
        check(job, shape)
    except ValueError as error:
        raise InvalidAnswer(f"the result of the job at {place} cannot be read: {error}") from error
    return job


async def _by_events(link: Link, place: str, job: dict[str, Any], bar: Bar) -> dict[str, Any]:
    """The last state that the stream of events had; it may break off at any time."""
    try:
        async for line in link.wire.lines(Call("GET", f"{place}/events")):
            if line.startswith(b"data:"):
                job = check(parsed(line[5:]), JOB)
                bar.show(job["progress"], job.get("stage"))
    except (RateLimited, Unavailable, httpx.TransportError, httpx.InvalidURL, ValueError, RecursionError):
        pass  # the state of the job is asked for
    except PayoffError as error:
        if error.status is not None and error.status < 500:
            raise
    return job
