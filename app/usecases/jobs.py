"""Looking at jobs of one kind, and ending them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from app.access.caller import Caller
from app.errors import NotFound
from app.jobs.job import Job, JobView
from app.usecases.ports import Ports


def find(ports: Ports, kind: str, job_id: str) -> JobView:
    """NotFound where there is no such job of this `kind`.

    Who hears that a job has ended will ask its model next: this process then knows the new version at once.
    """
    job = ports.queue.look(job_id)
    if job.kind != kind:
        raise NotFound(f"there is no {kind} job {job_id!r}")
    if job.ended:
        ports.registry.refresh()
    return job


def find_for(caller: Caller, ports: Ports, kind: str, job_id: str) -> JobView:
    """The same for a caller, to whom a job that is not for his eyes is none."""
    job = find(ports, kind, job_id)
    if not caller.sees(job.model, job.client):
        raise NotFound(f"there is no {kind} job {job_id!r}")
    return job


def changes(ports: Ports, known: Mapping[str, JobView]) -> dict[str, JobView | NotFound]:
    """Those of the `known` jobs, by id, that stand otherwise by now, or are no more; see `find`."""
    found = ports.queue.changes(known)
    if any(isinstance(job, JobView) and job.ended for job in found.values()):
        ports.registry.refresh()
    return found


def page(
    ports: Ports,
    caller: Caller,
    kind: str,
    *,
    status: str | None,
    model: str | None = None,
    page_size: int,
    page_token: str | None,
    results: bool = True,
) -> tuple[list[JobView], str | None]:
    """Jobs of this `kind` that the caller may see, newest first, and the token of the next page; see `Queue.page`."""
    return ports.queue.page(
        kind=kind,
        status=status,
        model=model,
        models=caller.models,
        client=caller.client,
        page_size=page_size,
        page_token=page_token,
        results=results,
    )


def cancel(ports: Ports, caller: Caller, kind: str, job_id: str) -> JobView:
    """Ask for a job's end, once or again; Conflict where it has succeeded or failed already."""
    job = find_for(caller, ports, kind, job_id)
    return ports.queue.cancel(job.id, also=ports.audit.entry(caller, "job.cancel", job.id))


def submit(
    ports: Ports,
    caller: Caller,
    kind: str,
    spec: dict[str, Any],
    *,
    model: str | None = None,
    dataset: str,
    key: str | None,
) -> Job:
    """Accept an order from a caller, in whose name the audit log will have what comes of it.

    TooMany where that makes more jobs at once than his key may have.
    """

    def also(connection: Connection, job: Job) -> None:
        ports.audit.entry(caller, "job.submit", job.id, kind=kind, **({"model": model} if model else {}))(connection)

    return ports.queue.submit(
        kind, spec, model=model, dataset=dataset, key=key, client=caller.client, most=caller.jobs, also=also
    )
