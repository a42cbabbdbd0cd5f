"""One look at the job table, four times a second, for all clients of this process that wait for a job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Event
from typing import cast

from fastapi import Request

from app.api.middleware.limiters import Limiter
from app.api.middleware.permits import guard_of
from app.errors import NotFound, TooMany
from app.jobs.job import JobView
from app.usecases import jobs as usecase
from app.usecases.ports import Ports

_SECONDS = 0.25
_STREAMS = 500  # of this process: each keeps a connection open
_STREAMS_PER_CALLER = 50


class Watched:
    """A job that at least one client waits for, as it was when it was last looked up."""

    def __init__(self, job: JobView) -> None:
        self.job = job
        self.clients = 0
        self._error: Exception | None = None
        self._news = asyncio.Event()

    async def after(self, seen: JobView, seconds: float) -> JobView:
        """The job as soon as it is no longer as `seen`, or as it is after so many seconds, or when the service stops.

        Raises what looking it up has raised.
        """
        if self.job is seen and self._error is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds)
        if self._error is not None:
            raise self._error
        return self.job

    def wake(self, job: JobView, error: Exception | None = None) -> None:
        self.job, self._error = job, error
        self._news.set()
        self._news = asyncio.Event()


class Watching:
    """The jobs that clients wait for."""

    def __init__(self, ports: Ports, stopping: Event) -> None:
        self._ports = ports
        self._stopping = stopping
        self._jobs: dict[str, Watched] = {}
        self._looking: asyncio.Task[None] | None = None
        self._thread = Limiter(threads=1, waiting=0)
        self._streams: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, job: JobView) -> AsyncIterator[Watched]:
        """Keep `job` up to date as long as this is entered."""
        watched = self._jobs.setdefault(job.id, Watched(job))
        watched.clients += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield watched
        finally:
            watched.clients -= 1
            if not watched.clients and self._jobs.get(job.id) is watched:
                del self._jobs[job.id]

    @contextmanager
    def stream(self, caller: str) -> Iterator[None]:
        """Count an event stream of `caller`; TooMany where there are too many."""
        own = self._streams.get(caller, 0)
        if own >= _STREAMS_PER_CALLER or sum(self._streams.values()) >= _STREAMS:
            raise TooMany(f"at most {_STREAMS_PER_CALLER} event streams of a caller can be open", seconds=5)
        self._streams[caller] = own + 1
        try:
            yield
        finally:
            self._streams[caller] -= 1
            if not self._streams[caller]:
                del self._streams[caller]

    async def _look(self) -> None:
        """Until no client waits."""
        while self._jobs:
            await asyncio.sleep(_SECONDS)
            known = {job_id: watched.job for job_id, watched in self._jobs.items()}
            error: Exception | None = None
            changed: dict[str, JobView | NotFound] = {}
            try:
                changed = await self._thread.run(usecase.changes, self._ports, known)
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is for those who wait
                error = failure
            for job_id, watched in list(self._jobs.items()):
                news = changed.get(job_id)
                if isinstance(news, JobView):
                    watched.wake(news)
                elif news is not None or error is not None or self._stopping.is_set():
                    watched.wake(watched.job, news or error)


def watching(request: Request) -> Watching:
    return cast(Watching, request.app.state.watching)


async def stream_of_caller(request: Request) -> AsyncIterator[None]:
    """A dependency of routes that answer with an event stream: counts it until it ends."""
    caller = request.scope["state"]["caller"]
    address = guard_of(request.scope).address(request.scope)
    with watching(request).stream(caller.client or f"{caller.name} {address}"):
        yield
