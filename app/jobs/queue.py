"""The durable queue: accepted jobs in a table, each owned by one worker at a time.

A worker owns a job through a lease that it renews, and every write contains the number of its attempt: the writes of a
worker that was silent for too long no longer count. All times come from the database's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from app.database import Database
from app.errors import Conflict
from app.jobs.client_queue import ClientQueue
from app.jobs.job import Event, Job, Problem, Status, after
from app.jobs.tables import JOBS, WORKERS
from app.jobs.transitions import end, hold, hold_or_raise, move, owned, postpone, put_back, read_or_fail


class Beat(Enum):
    """The answer to a worker that renews a lease."""

    GO_ON = auto()
    CANCEL = auto()
    LOST = auto()


class Queue(ClientQueue):
    """Jobs in a database: what clients do with them (`ClientQueue`), and what workers do.

    `attempts` bounds how often a job may die with its process, `outages` how often it may end because something that
    it needs could not be reached, `lease_seconds` how long its worker may be silent.
    """

    def __init__(
        self, database: Database, *, attempts: int = 3, outages: int = 20, lease_seconds: float = 10.0
    ) -> None:
        super().__init__(database)
        self.attempts = attempts
        self.outages = outages
        self.lease_seconds = lease_seconds

    def claim(self, worker: str) -> Job | None:
        """Begin the queued job whose turn it is, in one statement, so that no two workers get the same; None without
        work. A row that cannot be read is failed, so that it does not stop all others.
        """
        queued = JOBS.c.status == Status.QUEUED
        order = (JOBS.c.turn, JOBS.c.seq)
        first = select(JOBS.c.seq).where(queued).order_by(*order).limit(1).with_for_update(skip_locked=True)
        begun = {
            "status": after(Status.QUEUED, Event.CLAIM),
            "attempt": JOBS.c.attempt + 1,
            "worker": worker,
            "lease_until": self.database.now + self.lease_seconds,
            "started_at": self.database.now,
            "stage": "",
        }
        statement = update(JOBS).where(JOBS.c.seq == first.scalar_subquery(), queued).values(begun)
        with self.database.writing() as connection:
            number = connection.execute(statement.returning(JOBS.c.seq)).scalar()
            if number is None:
                return None
            job = read_or_fail(connection, self.database.now, number)
        return job if job is not None else self.claim(worker)

    def beat(self, job: Job, progress: float, stage: str) -> Beat:
        """Renew the lease and store how far the job is; LOST when this attempt does not own the job any more."""
        lease = self.database.now + self.lease_seconds
        renewal = update(JOBS).where(owned(job)).values(progress=progress, stage=stage, lease_until=lease)
        with self.database.writing() as connection:
            cancel = connection.execute(renewal.returning(JOBS.c.cancel_requested)).scalar()
        if cancel is None:
            return Beat.LOST
        return Beat.CANCEL if cancel else Beat.GO_ON

    def check(self, connection: Connection, job: Job) -> None:
        """Conflict where this attempt does not own the job any more; keeps it so until the transaction ends."""
        hold_or_raise(connection, job)

    def is_over(self, job_id: str, attempt: int) -> bool:
        """Whether an attempt can write no more: this never becomes false again."""
        owns = (JOBS.c.id == job_id) & (JOBS.c.attempt == attempt) & (JOBS.c.status == Status.RUNNING)
        with self.database.reading() as connection:
            return connection.execute(select(JOBS.c.seq).where(owns)).first() is None

    def succeed(self, connection: Connection, job: Job, result: dict[str, Any]) -> None:
        """Finish the job inside the caller's transaction, so that both take effect or neither does.

        Conflict when the job is lost or to be cancelled; the caller's transaction then has to roll back.
        """
        held = hold_or_raise(connection, job)
        if held.cancel_requested:
            raise Conflict(f"{job.id} is to be cancelled: its work does not count")
        move(connection, self.database.now, held, Event.SUCCEED, result=result, progress=1.0, stage="done")

    def fail(self, job: Job, problem: Problem) -> bool:
        """End the job for good; False when it is lost. If it was to be cancelled it ends as that."""
        return self._change(job, end, Event.FAIL, error=problem.as_dict())

    def cancelled(self, job: Job) -> bool:
        """Record that the process of a cancelled job has ended; False when the job is lost."""
        return self._change(job, move, Event.STOP)

    def retry(self, job: Job, reason: str, *, died: bool = True) -> bool:
        """Queue the job again, or fail it with the reason if it `died` once too often; False when it is lost."""
        return self._change(job, put_back, reason, most=self.attempts if died else None)

    def postpone(self, job: Job, reason: str) -> bool:
        """Queue the job again after an outage, or fail it with the reason after too many; False when it is lost."""
        return self._change(job, postpone, reason, most=self.outages)

    def recover_lost(self) -> list[Job]:
        """Take the jobs of workers that stopped responding; returns them as they are now."""
        silent = (JOBS.c.status == Status.RUNNING) & (JOBS.c.lease_until < self.database.now)
        with self.database.writing() as connection:
            found = connection.execute(select(JOBS.c.seq).where(silent).with_for_update(skip_locked=True))
            read = [read_or_fail(connection, self.database.now, number) for number in found.scalars().all()]
            return [
                put_back(connection, self.database.now, job, "its worker stopped responding", most=self.attempts)
                for job in read
                if job is not None
            ]

    def check_in(self, worker: str) -> None:
        """Record that a worker is alive, and delete those that have been silent for ten leases."""
        seen = {"seen_at": self.database.now}
        with self.database.writing() as connection:
            if not connection.execute(update(WORKERS).where(WORKERS.c.name == worker).values(seen)).rowcount:
                connection.execute(insert(WORKERS).values(name=worker, **seen))
            silent = WORKERS.c.seen_at < self.database.now - 10 * self.lease_seconds
            # After an outage all workers look stale.
            stale = select(WORKERS.c.name).where(silent).with_for_update(skip_locked=True)
            connection.execute(delete(WORKERS).where(WORKERS.c.name.in_(stale)))

    def check_out(self, worker: str) -> None:
        with self.database.writing() as connection:
            connection.execute(delete(WORKERS).where(WORKERS.c.name == worker))

    def _change(self, job: Job, step: Callable[..., Job], *arguments: object, **options: object) -> bool:
        """Take a step of `transitions` if this attempt still owns the job; False otherwise."""
        with self.database.writing() as connection:
            held = hold(connection, owned(job))
            if held is not None:
                step(connection, self.database.now, held, *arguments, **options)
        self._tell()
        return held is not None
