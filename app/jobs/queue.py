"""The durable queue: accepted jobs in a table, each owned by one worker at a time.

A worker owns a job through a lease that it renews, and every write contains the number of its
attempt: the writes of a worker that was silent for too long no longer count. Each change of a
running job holds a lock on its row. All times are the database's. The clients take turns
(`app.jobs.turns`).
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from structlog import contextvars

from app.database.engine import Database
from app.database.pages import SEQUENCE_NUMBER, matches, page_of, place_of
from app.errors import Conflict
from app.jobs.job import (
    CANCELLED,
    ENDED,
    NOT_RENEWED,
    Ending,
    Event,
    Failure,
    Job,
    Status,
    after,
    unknown_job,
)
from app.jobs.tables import JOB_COLUMNS, JOBS, job_of, listed_columns
from app.jobs.turns import PENDING, admit, next_turn
from payoff.errors import Invalid

KEY_PLACE = "/headers/Idempotency-Key"


_EXPIRED = 500  # rows that one call removes at most, so that no transaction is long
_ID = re.compile(r"job_[0-9a-f]{20}")


@dataclass(frozen=True)
class QueueStatus:
    """Jobs by status, and how long the oldest queued one has waited (0 without any)."""

    jobs: dict[str, int]
    oldest_seconds: float


@dataclass(frozen=True)
class Origin:
    """The request that submits a job: its idempotency `key`, its `client`, and the maximum of jobs
    that the client may have queued or running; None: no limit.
    """

    key: str | None = None
    client: str | None = None
    max_jobs: int | None = None


@dataclass(frozen=True)
class JobFilter:
    """The jobs of a list; a filter that is None or empty takes all.

    With patterns of `models`, the jobs for such models, and those without a model that `client`
    submitted.
    """

    status: str | None = None
    model: str | None = None
    kinds: Sequence[str] = ()
    models: Sequence[str] = ()
    client: str | None = None


class Queue:
    """Jobs in a database, for the clients that submit and read them and the workers that run them.

    `attempts` is the maximum of deaths of a job, `outages` that of its outages, `lease_seconds` the
    time for which its worker may be silent. `wake` is called after each new job: a worker of this
    process begins it at once.
    """

    def __init__(
        self,
        database: Database,
        *,
        attempts: int = 3,
        outages: int = 20,
        lease_seconds: float = 10.0,
    ) -> None:
        self.database = database
        self._bounds = {
            Event.DIE: ("deaths", attempts),
            Event.MISS: ("outages", outages),
        }
        self.lease_seconds = lease_seconds
        self.wake: Callable[[], None] = lambda: None

    # For clients

    def submit(
        self,
        kind: str,
        spec: dict[str, Any],
        *,
        requested: dict[str, Any] | None = None,
        model: str | None = None,
        dataset: str | None = None,
        origin: Origin = Origin(),
        also: Callable[[Connection, Job], None] = lambda _connection, _job: None,
    ) -> Job:
        """Accept a job; it is durable when this returns, with what `also` writes in the same
        transaction.

        The same key of the same client again answers with the first job, also when both requests
        come at the same moment; with another `kind`, `model` or `spec` it is Invalid. TooMany where
        the client has its maximum of jobs queued or running. `requested` are the fields of the
        request that the job's document shows.
        """
        client = origin.client
        new_id = f"job_{secrets.token_hex(10)}"
        job_id = new_id if origin.key is None else id_of_key(origin.key, client)
        content = {"kind": kind, "model": model, "spec": spec}
        request_id = contextvars.get_contextvars().get("request_id")
        notes = {"request_id": request_id, "requested": requested}
        row: dict[str, Any] = {
            "id": job_id,
            **content,
            "dataset": dataset,
            "client": client,
            "status": Status.QUEUED,
            "created_at": self.database.now,
            "notes": {name: note for name, note in notes.items() if note},
        }
        try:
            with self.database.writing() as connection:
                row["turn"] = next_turn(connection, client)
                if client is not None and origin.max_jobs is not None:
                    admit(connection, job_id, client, origin.max_jobs)
                inserted = connection.execute(
                    insert(JOBS).values(row).returning(*JOB_COLUMNS)
                )
                job = job_of(inserted.mappings().one())
                also(connection, job)
        except IntegrityError:
            first = self.get(job_id)
            stored = {"kind": first.kind, "model": first.model, "spec": first.spec}
            if stored != json.loads(json.dumps(content)):
                raise Invalid.at(
                    KEY_PLACE,
                    "was used before with another request; choose a new key for a new request",
                ) from None
            return first
        self.wake()
        return job

    def get(self, job_id: str, *, spec: bool = True) -> Job:
        """A job; NotFound for an unknown one. Its spec, which may be megabytes, is empty without
        `spec`.
        """
        columns = JOB_COLUMNS if spec else listed_columns()
        if not _ID.fullmatch(job_id):
            raise unknown_job(job_id)
        with self.database.reading() as connection:
            row = (
                connection.execute(select(*columns).where(JOBS.c.id == job_id))
                .mappings()
                .first()
            )
        if row is None:
            raise unknown_job(job_id)
        return job_of(row)

    def page(
        self,
        jobs: JobFilter = JobFilter(),
        *,
        page_size: int = 50,
        page_token: str | None = None,
        results_of: Sequence[str] = (),
    ) -> tuple[list[Job], str | None]:
        """The jobs of the filter, newest first, and the token of the next page (None at the end);
        new jobs do not shift the pages.

        Fields that may be megabytes are left out: specs, and results except those of kinds in
        `results_of`.
        """
        statement = (
            select(*listed_columns(results_of))
            .order_by(JOBS.c.seq.desc())
            .limit(page_size + 1)
        )
        for column, value in ((JOBS.c.status, jobs.status), (JOBS.c.model, jobs.model)):
            if value is not None:
                statement = statement.where(column == value)
        if jobs.kinds:
            statement = statement.where(JOBS.c.kind.in_(jobs.kinds))
        if jobs.models:
            of_client = JOBS.c.model.is_(None) & (JOBS.c.client == jobs.client)
            statement = statement.where(matches(JOBS.c.model, jobs.models) | of_client)
        place = place_of(page_token, SEQUENCE_NUMBER)
        if place is not None:
            statement = statement.where(JOBS.c.seq < int(place))
        with self.database.reading() as connection:
            listed = [job_of(row) for row in connection.execute(statement).mappings()]
        return page_of(listed, page_size, lambda job: job.seq)

    def uses_dataset(self, dataset: str) -> bool:
        """Whether a job that has not ended needs this data set."""
        with self.database.reading() as connection:
            pending = connection.execute(
                select(JOBS.c.seq).where(PENDING, JOBS.c.dataset == dataset).limit(1)
            )
            return pending.first() is not None

    def cancel(
        self, job_id: str, also: Callable[[Connection], None] = lambda _connection: None
    ) -> Job:
        """Cancel a queued job at once and have a running one ended: from here on it cannot succeed.

        A job that is cancelled, or being cancelled, stays so; one that ended otherwise is a
        Conflict. `also` writes in the same transaction where the job changes.
        """
        with self.database.writing() as connection:
            job = (
                _held(connection, JOBS.c.id == job_id)
                if _ID.fullmatch(job_id)
                else None
            )
            if job is None:
                raise unknown_job(job_id)
            if job.status is not Status.CANCELLED and not job.cancel_requested:
                job = self._move(connection, job, Event.CANCEL, cancel_requested=True)
                also(connection)
        return job

    # For workers

    def claim(self, worker: str) -> Job | None:
        """Begin the queued job whose turn it is, in one statement, so that no two workers get the
        same job; None without work.
        """
        queued = JOBS.c.status == Status.QUEUED
        order = (JOBS.c.turn, JOBS.c.seq)
        first = (
            select(JOBS.c.seq)
            .where(queued)
            .order_by(*order)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        begun = {
            "status": after(Status.QUEUED, Event.CLAIM),
            "attempt": JOBS.c.attempt + 1,
            "worker": worker,
            "lease_until": self.database.now + self.lease_seconds,
            "started_at": self.database.now,
            "stage": "",
        }
        statement = (
            update(JOBS)
            .where(JOBS.c.seq == first.scalar_subquery(), queued)
            .values(begun)
        )
        with self.database.writing() as connection:
            row = (
                connection.execute(statement.returning(*JOB_COLUMNS)).mappings().first()
            )
        return None if row is None else job_of(row)

    def beat(self, job: Job, progress: float, stage: str) -> Ending | None:
        """Renew the lease and store the progress; returns how the attempt has to end, None where it
        goes on.
        """
        lease = self.database.now + self.lease_seconds
        renewal = (
            update(JOBS)
            .where(_owned(job))
            .values(progress=progress, stage=stage, lease_until=lease)
        )
        with self.database.writing() as connection:
            cancel = connection.execute(
                renewal.returning(JOBS.c.cancel_requested)
            ).scalar()
        if cancel is None:
            return NOT_RENEWED
        return CANCELLED if cancel else None

    def held(self, connection: Connection, job: Job) -> Job:
        """The job that this attempt owns, locked until the transaction ends; Conflict if another
        attempt owns it.
        """
        held = _held(connection, _owned(job))
        if held is None:
            raise Conflict(f"attempt {job.attempt} no longer owns {job.id}")
        return held

    def succeed(self, connection: Connection, job: Job, result: dict[str, Any]) -> None:
        """Finish the job inside the caller's transaction, so that both take effect or neither does.

        Conflict when the job is lost or to be cancelled; the caller's transaction then has to roll
        back.
        """
        held = self.held(connection, job)
        if held.cancel_requested:
            raise Conflict(f"{job.id} is to be cancelled: its work does not count")
        self._move(
            connection, held, Event.SUCCEED, result=result, progress=1.0, stage="done"
        )

    def end(self, job: Job, ending: Ending) -> Job | None:
        """Store how an attempt ended; returns the job as it is then, None where the attempt does
        not own it any more.

        A death, or an outage, that reaches the maximum fails the job. A job that was to be
        cancelled becomes cancelled.
        """
        with self.database.writing() as connection:
            held = _held(connection, _owned(job))
            return None if held is None else self._end(connection, held, ending)

    def recover_from_dead_workers(self) -> list[Job]:
        """Take the jobs of workers that stopped responding; returns them as they are now."""
        silent = (JOBS.c.status == Status.RUNNING) & (
            JOBS.c.lease_until < self.database.now
        )
        with self.database.writing() as connection:
            rows = connection.execute(
                select(*JOB_COLUMNS).where(silent).with_for_update(skip_locked=True)
            )
            ending = Ending(Event.DIE, Failure("its worker stopped responding"))
            return [
                self._end(connection, job_of(row), ending)
                for row in rows.mappings().all()
            ]

    # For operators

    def status(self) -> QueueStatus:
        """Two small queries, times by the database's clock."""
        by_status = select(JOBS.c.status, func.count()).group_by(JOBS.c.status)
        oldest = select(self.database.now - func.min(JOBS.c.created_at)).where(
            JOBS.c.status == Status.QUEUED
        )
        with self.database.reading() as connection:
            counts = {row[0]: int(row[1]) for row in connection.execute(by_status)}
            age = connection.execute(oldest).scalar()
        jobs = {status.value: counts.get(status, 0) for status in Status}
        return QueueStatus(jobs, max(float(age or 0.0), 0.0))

    def expire(self, seconds: float) -> int:
        """Remove at most `_EXPIRED` of the jobs that ended more than so many `seconds` ago; returns
        their number.

        A queued or running job is never removed.
        """
        long_ago = self.database.now - seconds
        old = (
            select(JOBS.c.seq)
            .where(JOBS.c.status.in_(ENDED), JOBS.c.finished_at < long_ago)
            .limit(_EXPIRED)
        )
        with self.database.writing() as connection:
            return connection.execute(delete(JOBS).where(JOBS.c.seq.in_(old))).rowcount

    # Steps

    def _move(
        self, connection: Connection, held: Job, event: Event, **values: Any
    ) -> Job:
        """Write the status of a held job after `event`; Conflict where the table of transitions
        does not have it.
        """
        status = after(held.status, event)
        changes = {"status": status, **values}
        if status is not Status.RUNNING:
            changes |= {"worker": None, "lease_until": None}
        if status in ENDED:
            changes["finished_at"] = self.database.now
        if status is Status.QUEUED:
            changes |= {"started_at": None, "progress": 0.0}
        statement = (
            update(JOBS)
            .where(JOBS.c.seq == held.seq)
            .values(changes)
            .returning(*JOB_COLUMNS)
        )
        return job_of(connection.execute(statement).mappings().one())

    def _end(self, connection: Connection, held: Job, ending: Ending) -> Job:
        """Write how a held job goes on after an attempt without success."""
        if held.cancel_requested or ending.event is Event.STOP:
            return self._move(connection, held, Event.STOP)
        event = ending.event
        failure = ending.failure
        counts: dict[str, int] = {}
        if event in self._bounds:
            name, maximum = self._bounds[event]
            times = getattr(held, name) + 1
            counts[name] = times
            if times >= maximum:
                event = Event.FAIL
                if times > 1:
                    failure = Failure(
                        f"tried {times} times; the last time: {failure.detail}"
                    )
        if event is Event.FAIL:
            return self._move(connection, held, event, error=asdict(failure), **counts)
        return self._move(
            connection,
            held,
            event,
            stage=f"to be tried again: {failure.detail}",
            **counts,
        )


def id_of_key(key: str, client: str | None = None) -> str:
    """The id of the job for an idempotency key, which each client may use for itself."""
    # No header contains a line break, so no key can imitate that of another client.
    text = key if client is None else f"{client}\n{key}"
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"job_{digest[:20]}"


def _owned(job: Job) -> ColumnElement[bool]:
    """The fence: true of the row while this attempt at the job is the one that runs."""
    return and_(
        JOBS.c.id == job.id,
        JOBS.c.attempt == job.attempt,
        JOBS.c.status == Status.RUNNING,
    )


def _held(connection: Connection, fence: ColumnElement[bool]) -> Job | None:
    """The row as it is now, locked until the transaction ends."""
    result = connection.execute(select(*JOB_COLUMNS).where(fence).with_for_update())
    row = result.mappings().first()
    return None if row is None else job_of(row)
