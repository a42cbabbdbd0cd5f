"""The clients' side of the job queue: submit, look up, list and cancel jobs."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, insert, select
from sqlalchemy.exc import IntegrityError

from app.database import Database
from app.errors import Invalid, NotFound, pointer
from app.jobs.admission import PENDING, admit
from app.jobs.fairness import next_turn
from app.jobs.job import Event, Job, JobView, Status, unknown_job
from app.jobs.tables import JOB_COLUMNS, JOBS, VIEW_COLUMNS, job_of, view_columns, view_of
from app.jobs.transitions import hold, move
from app.paging import SEQUENCE_NUMBER, page_of, place_of
from app.patterns import matches
from app.tracing import origin

KEY_PLACE = "/headers/Idempotency-Key"

_LOOKED_UP = 500  # ids in one statement
_MOVING = (JOBS.c.id, JOBS.c.status, JOBS.c.attempt, JOBS.c.progress, JOBS.c.stage)

_ID = re.compile(r"job_[0-9a-f]{20}")


class ClientQueue:
    """Jobs in a database, as clients see them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.listeners: list[Callable[[], None]] = []  # called after a change that a worker should see at once

    def submit(
        self,
        kind: str,
        spec: dict[str, Any],
        *,
        requested: dict[str, Any] | None = None,
        model: str | None = None,
        dataset: str | None = None,
        key: str | None = None,
        client: str | None = None,
        most: int | None = None,
        also: Callable[[Connection, Job], None] = lambda _connection, _job: None,
    ) -> Job:
        """Accept a job; it is durable when this returns, with what `also` writes in the same transaction.

        The same `key` of the same `client` again answers with the first job, also when both come at the same moment;
        with another `kind`, `model` or `spec` it is Invalid. TooMany where `most` jobs of the client are queued or
        running. `requested` is what the job's document shows of the order.
        """
        job_id = f"job_{secrets.token_hex(10)}" if key is None else id_of_key(key, client)
        content = {"kind": kind, "model": model, "spec": spec}
        row: dict[str, Any] = {"id": job_id, **content, "dataset": dataset, "client": client}
        row |= {"status": Status.QUEUED, "created_at": self.database.now}
        row["notes"] = {name: note for name, note in (("origin", origin()), ("requested", requested)) if note}
        try:
            with self.database.writing() as connection:
                row["turn"] = next_turn(connection, client)
                if client is not None and most is not None:
                    admit(connection, job_id, client, most)
                inserted = connection.execute(insert(JOBS).values(row).returning(*JOB_COLUMNS))
                job = job_of(inserted.mappings().one())
                also(connection, job)
        except IntegrityError:
            return self._first(job_id, content)
        self._tell()
        return job

    def get(self, job_id: str) -> Job:
        """NotFound where there is no such job."""
        return job_of(self._row(job_id, JOB_COLUMNS))

    def view(self, job_id: str) -> JobView:
        """The job as clients see it; NotFound where there is none."""
        return view_of(self._row(job_id, VIEW_COLUMNS))

    def changes(self, known: Mapping[str, JobView]) -> dict[str, JobView | NotFound]:
        """Those of the `known` jobs, by id, that have changed or were deleted. Two queries for many jobs."""
        found: dict[str, JobView | NotFound] = {}
        ids = list(known)
        with self.database.reading() as connection:
            for begin in range(0, len(ids), _LOOKED_UP):
                some = ids[begin : begin + _LOOKED_UP]
                now = {row[0]: tuple(row) for row in connection.execute(select(*_MOVING).where(JOBS.c.id.in_(some)))}
                found |= {job_id: unknown_job(job_id) for job_id in some if job_id not in now}
                moved = [job_id for job_id, row in now.items() if row != _moving(known[job_id])]
                if moved:
                    rows = connection.execute(select(*VIEW_COLUMNS).where(JOBS.c.id.in_(moved))).mappings()
                    found |= {row["id"]: view_of(row) for row in rows}
        return found

    def page(
        self,
        *,
        status: str | None = None,
        model: str | None = None,
        kinds: Sequence[str] = (),
        models: Sequence[str] = (),
        client: str | None = None,
        page_size: int = 50,
        page_token: str | None = None,
        results_of: Sequence[str] | None = None,
    ) -> tuple[list[JobView], str | None]:
        """Jobs, newest first, and the token of the next page (None at the end); new jobs do not shift the pages.

        With `kinds` only jobs of these. With patterns of `models` only the jobs for such models, and those for none
        that `client` ordered. Of kinds that are not in `results_of` the results, which may be megabytes, are None.
        """
        columns = VIEW_COLUMNS if results_of is None else view_columns(results_of)
        statement = select(*columns).order_by(JOBS.c.seq.desc()).limit(page_size + 1)
        for name, wanted in _filters(status=status, model=model).items():
            statement = statement.where(JOBS.c[name] == wanted)
        if kinds:
            statement = statement.where(JOBS.c.kind.in_(kinds))
        if models:
            own = JOBS.c.model.is_(None) & (JOBS.c.client == client)
            statement = statement.where(matches(JOBS.c.model, models) | own)
        if (place := place_of(page_token, SEQUENCE_NUMBER)) is not None:
            statement = statement.where(JOBS.c.seq < int(place))
        with self.database.reading() as connection:
            jobs = [view_of(row) for row in connection.execute(statement).mappings()]
        return page_of(jobs, page_size, lambda job: job.seq)

    def uses_dataset(self, dataset: str) -> bool:
        """Whether a job that has not ended needs this data set."""
        with self.database.reading() as connection:
            found = connection.execute(select(JOBS.c.seq).where(PENDING, JOBS.c.dataset == dataset).limit(1))
            return found.first() is not None

    def cancel(self, job_id: str, also: Callable[[Connection], None] = lambda _connection: None) -> Job:
        """Cancel a queued job at once and have a running one ended: from here on it cannot succeed.

        A job that is cancelled already, or to be, stays so; one that ended otherwise is a Conflict. `also` writes in
        the same transaction where that changes something.
        """
        self.view(job_id)
        with self.database.writing() as connection:
            job = hold(connection, JOBS.c.id == job_id)
            if job is None:
                raise unknown_job(job_id)
            if job.status is not Status.CANCELLED and not job.cancel_requested:
                job = move(connection, self.database.now, job, Event.CANCEL, cancel_requested=True)
                also(connection)
        self._tell()
        return job

    def _row(self, job_id: str, columns: Sequence[ColumnElement[Any]]) -> RowMapping:
        if _ID.fullmatch(job_id):
            with self.database.reading() as connection:
                row = connection.execute(select(*columns).where(JOBS.c.id == job_id)).mappings().first()
            if row is not None:
                return row
        raise unknown_job(job_id)

    def _first(self, job_id: str, content: dict[str, Any]) -> Job:
        first = self.get(job_id)
        if {"kind": first.kind, "model": first.model, "spec": first.spec} != json.loads(json.dumps(content)):
            raise Invalid.at(KEY_PLACE, "was used before with another request; choose a new key for a new request")
        return first

    def _tell(self) -> None:
        for listener in list(self.listeners):
            listener()


def id_of_key(key: str, client: str | None = None) -> str:
    """The id of the job for an idempotency key, which each client may use for itself."""
    text = key if client is None else f"{client}\n{key}"  # a line break is in no header, so none can pretend
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"job_{digest[:20]}"


def _moving(job: JobView) -> tuple[object, ...]:
    return (job.id, job.status, job.attempt, job.progress, job.stage)


def _filters(**wanted: str | None) -> dict[str, str]:
    filters = {name: value for name, value in wanted.items() if value is not None}
    if filters.get("status", Status.QUEUED) not in set(Status):
        raise Invalid.at("/status", f"must be one of {', '.join(Status)}")
    for name, value in filters.items():
        if "\0" in value:  # PostgreSQL has no such text
            raise Invalid.at(pointer(name), "must not contain a NUL character")
    return filters
