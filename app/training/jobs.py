"""Jobs: ordering them, looking at them, and ending them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from app.access.caller import Caller
from app.jobs.job import Job, unknown_job
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

    A client that learns that a job has ended asks for its model next: this process then knows the
    new version at once.
    """
    job = stores.queue.get(job_id, spec=False)
    if job.ended:
        stores.registry.refresh()
    return job


def cancel(stores: Stores, caller: Caller, kinds: Sequence[str], job_id: str) -> Job:
    """Ask for a job's end, once or again; Conflict where it has succeeded or failed already."""
    job = find_for(caller, stores, kinds, job_id)
    return stores.queue.cancel(job.id, also=stores.audit.entry(caller, "job.cancel", job.id))


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
    """Accept an order from a caller; the audit log lists what comes of it under the caller's name.

    TooMany where the caller's key then has more jobs at once than it may have.
    """

    def also(connection: Connection, job: Job) -> None:
        stores.audit.entry(
            caller, "job.submit", job.id, kind=kind, **({"model": model} if model else {})
        )(connection)

    return stores.queue.submit(
        kind,
        spec.model_dump(),
        requested=spec.requested() | ({} if dataset is None else {"dataset": dataset}),
        model=model,
        dataset=dataset,
        key=key,
        client=caller.client,
        most=caller.jobs,
        also=also,
    )
