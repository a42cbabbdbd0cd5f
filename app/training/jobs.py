"""Jobs: submitting, reading and cancelling them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from app.access.caller import Caller
from app.jobs.job import Job, unknown_job
from app.jobs.queue import Origin
from app.requests.specifications import Spec
from app.stores import Stores


def find_for(caller: Caller, stores: Stores, kinds: Sequence[str], job_id: str) -> Job:
    """NotFound where there is no such job of these `kinds` that the caller may see."""
    job = look(stores, job_id)
    if job.kind not in kinds or not caller.sees(job.model, job.client):
        raise unknown_job(job_id)
    return job


def look(stores: Stores, job_id: str) -> Job:
    """A job as it stands, or NotFound.

    A client that reads of a job's end requests its model next: so this process reads the index.
    """
    job = stores.queue.get(job_id, spec=False)
    if job.ended:
        stores.registry.refresh()
    return job


def cancel(stores: Stores, caller: Caller, kinds: Sequence[str], job_id: str) -> Job:
    """Request a job's end, once or again; Conflict where it has succeeded or failed already."""
    job = find_for(caller, stores, kinds, job_id)
    return stores.queue.cancel(
        job.id, also=stores.audit.entry(caller, "job.cancel", job.id)
    )


def submit(
    stores: Stores,
    caller: Caller,
    kind: str,
    spec: Spec,
    *,
    model: str | None = None,
    dataset: str | None,
    key: str | None,
) -> Job:
    """Accept a request of a caller as a job, and write it to the audit log.

    TooMany where the caller's key has the maximum of jobs already.
    """

    def also(connection: Connection, job: Job) -> None:
        details = {"model": model} if model else {}
        stores.audit.entry(caller, "job.submit", job.id, kind=kind, **details)(
            connection
        )

    requested = spec.requested()
    if dataset is not None:
        requested = requested | {"dataset": dataset}
    return stores.queue.submit(
        kind,
        spec.model_dump(),
        requested=requested,
        model=model,
        dataset=dataset,
        origin=Origin(key, caller.client, caller.jobs),
        also=also,
    )
