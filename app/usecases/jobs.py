"""Looking at jobs of one kind, and ending them."""

from __future__ import annotations

from app.errors import Conflict, NotFound
from app.jobs.job import Job
from app.usecases.ports import Ports


def find(ports: Ports, kind: str, job_id: str) -> Job:
    """NotFound where there is no such job of this `kind`.

    Who hears that a job has ended will ask its model next: this process then knows the new version at once.
    """
    job = ports.queue.get(job_id)
    if job.kind != kind:
        raise NotFound(f"there is no {kind} job {job_id!r}")
    if job.ended:
        ports.registry.refresh()
    return job


def page(
    ports: Ports,
    kind: str,
    *,
    status: str | None,
    model: str | None = None,
    page_size: int,
    page_token: str | None,
) -> tuple[list[Job], str | None]:
    """Jobs of this `kind`, newest first, and the token of the next page."""
    return ports.queue.page(kind=kind, status=status, model=model, page_size=page_size, page_token=page_token)


def cancel(ports: Ports, kind: str, job_id: str) -> Job:
    """Ask for a job's end; one that has ended already is answered as it is, for the caller came too late, not wrong."""
    job = find(ports, kind, job_id)
    try:
        return ports.queue.cancel(job.id)
    except Conflict:
        return ports.queue.get(job.id)
