"""One look at the job table, four times a second, for all clients of this process that wait for a job."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextvars import Context
from threading import Event
from typing import cast

from fastapi import Request

from app.api.limiters import Limiter
from app.jobs.job import JobView, unknown_job
from app.usecases import jobs as usecase
from app.usecases.ports import Ports

_SECONDS = 0.25


class Watching:
    """The jobs that clients wait for, as they were at the last look."""

    def __init__(self, ports: Ports, stopping: Event) -> None:
        self._ports = ports
        self._stopping = stopping
        self._jobs: dict[str, JobView | Exception] = {}
        self._clients: Counter[str] = Counter()
        self._looked = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._thread = Limiter(threads=1, waiting=0)

    async def states(self, job: JobView) -> AsyncGenerator[JobView, None]:
        """The job now and after each look, until it has ended or the service stops; raises what a look has raised."""
        self._jobs[job.id] = job
        self._clients[job.id] += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), context=Context())  # it serves all, not this request
        try:
            yield job
            while not (job.ended or self._stopping.is_set()):
                await self._looked.wait()
                found = self._jobs[job.id]
                if isinstance(found, Exception):
                    raise found
                job = found
                yield job
        finally:
            self._clients[job.id] -= 1
            if not self._clients[job.id]:
                del self._clients[job.id], self._jobs[job.id]

    async def _look(self) -> None:
        """Until no client waits."""
        while self._clients:
            await asyncio.sleep(_SECONDS)
            ids = list(self._jobs)
            now: dict[str, JobView | Exception] = {job_id: unknown_job(job_id) for job_id in ids}
            try:
                now |= await self._thread.run(usecase.views, self._ports, ids)
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is for those who wait
                now = dict.fromkeys(ids, failure)
            self._jobs |= {job_id: job for job_id, job in now.items() if job_id in self._clients}
            looked, self._looked = self._looked, asyncio.Event()
            looked.set()


def watching(request: Request) -> Watching:
    return cast(Watching, request.app.state.watching)
