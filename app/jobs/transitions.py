"""How a running job's row changes hands: each step checks ownership under a lock on that row."""

from __future__ import annotations

from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, and_, select, update

from app.errors import Conflict
from app.jobs.job import ENDED, Event, Job, Problem, Status, after
from app.jobs.tables import JOB_COLUMNS, JOBS, job_of

Now = ColumnElement[float]

MAX_ATTEMPTS = 100  # whatever ended them: nothing is tried again for ever

log = structlog.get_logger(__name__)


def owned(job: Job) -> ColumnElement[bool]:
    """The fence: true of the row while this attempt at the job is the one that runs."""
    return and_(JOBS.c.id == job.id, JOBS.c.attempt == job.attempt, JOBS.c.status == Status.RUNNING)


def hold(connection: Connection, fence: ColumnElement[bool]) -> Job | None:
    """The row as it is now, locked until the transaction ends."""
    found = connection.execute(select(*JOB_COLUMNS).where(fence).with_for_update())
    row = found.mappings().first()
    return None if row is None else job_of(row)


def hold_or_raise(connection: Connection, job: Job) -> Job:
    held = hold(connection, owned(job))
    if held is None:
        raise Conflict(f"attempt {job.attempt} at {job.id} was given up: its work does not count")
    return held


def move(connection: Connection, now: Now, held: Job, event: Event, **values: Any) -> Job:
    """Write what `event` makes of a held job; Conflict where the table of transitions does not have it."""
    status = after(held.status, event)
    changes = {"status": status, **values}
    if status is not Status.RUNNING:
        changes |= {"worker": None, "lease_until": None}
    if status in ENDED:
        changes["finished_at"] = now
    if status is Status.QUEUED:
        changes |= {"started_at": None, "progress": 0.0}
    statement = update(JOBS).where(JOBS.c.seq == held.seq).values(changes).returning(*JOB_COLUMNS)
    return job_of(connection.execute(statement).mappings().one())


def end(connection: Connection, now: Now, held: Job, event: Event, **values: Any) -> Job:
    """The same without success: a wish to cancel then goes before every other end."""
    if held.cancel_requested:
        return move(connection, now, held, Event.STOP)
    return move(connection, now, held, event, **values)


def read_or_fail(connection: Connection, now: Now, number: int) -> Job | None:
    """The locked row of that number as a job; None, and the job fails, where its content cannot be decoded."""
    try:
        return job_of(connection.execute(select(*JOB_COLUMNS).where(JOBS.c.seq == number)).mappings().one())
    except (ValueError, RecursionError) as error:
        log.exception("the row of a job cannot be read", seq=number)
        problem = Problem(f"what is stored of this job cannot be read ({type(error).__name__})")
        values = {
            "status": Status.FAILED,
            "error": problem.as_dict(),
            "finished_at": now,
            "spec": {},
            "notes": {},
            "result": None,
        }
        connection.execute(update(JOBS).where(JOBS.c.seq == number).values(worker=None, lease_until=None, **values))
        return None


def put_back(connection: Connection, now: Now, held: Job, reason: str, *, most: int | None) -> Job:
    """Queue the job again; as a death that counts towards `most`, or not as one when that is None."""
    deaths = held.deaths + (most is not None)
    if most is not None and deaths >= most:
        problem = Problem(f"tried {deaths} times; the last time {reason}" if deaths > 1 else reason)
        return end(connection, now, held, Event.FAIL, error=problem.as_dict(), deaths=deaths)
    if held.attempt >= MAX_ATTEMPTS:
        problem = Problem(f"tried {held.attempt} times; the last time {reason}")
        return end(connection, now, held, Event.FAIL, error=problem.as_dict(), deaths=deaths)
    return end(connection, now, held, Event.RETRY, stage=f"to be tried again: {reason}", deaths=deaths)


def postpone(connection: Connection, now: Now, held: Job, reason: str, *, most: int) -> Job:
    """Queue the job again after the world failed and not the work: no death, but bounded by `most` all the same."""
    outages = held.outages + 1
    notes = {**held.notes, "outages": outages}
    if outages >= most:
        problem = Problem(f"tried {outages} times: {reason}" if outages > 1 else reason)
        return end(connection, now, held, Event.FAIL, error=problem.as_dict(), notes=notes)
    return end(connection, now, held, Event.RETRY, stage=f"to be tried again: {reason}", notes=notes)
