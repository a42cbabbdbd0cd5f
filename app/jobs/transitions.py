"""How a running job's row changes hands: each step checks ownership under a lock on that row."""

from __future__ import annotations

from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, RowMapping, and_, select, update

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
        raise Conflict(f"attempt {job.attempt} no longer owns {job.id}")
    return held


def move(connection: Connection, now: Now, held: Job, event: Event, **values: Any) -> Job:
    """Write what `event` makes of a held job; Conflict where the table of transitions does not have it."""
    return job_of(_write(connection, now, held.seq, after(held.status, event), **values))


def _write(connection: Connection, now: Now, number: int, status: Status, **values: Any) -> RowMapping:
    changes = {"status": status, **values}
    if status is not Status.RUNNING:
        changes |= {"worker": None, "lease_until": None}
    if status in ENDED:
        changes["finished_at"] = now
    if status is Status.QUEUED:
        changes |= {"started_at": None, "progress": 0.0}
    statement = update(JOBS).where(JOBS.c.seq == number).values(changes).returning(*JOB_COLUMNS)
    return connection.execute(statement).mappings().one()


def end(connection: Connection, now: Now, held: Job, event: Event, **values: Any) -> Job:
    """The same without success: the job is cancelled if that was requested."""
    if held.cancel_requested:
        return move(connection, now, held, Event.STOP)
    return move(connection, now, held, event, **values)


def read_or_fail(connection: Connection, now: Now, number: int) -> Job | None:
    """The locked row of a running job; None, and the job fails, where its content cannot be decoded."""
    try:
        return job_of(connection.execute(select(*JOB_COLUMNS).where(JOBS.c.seq == number)).mappings().one())
    except (ValueError, RecursionError) as error:
        log.exception("the row of a job cannot be read", seq=number)
        problem = Problem(f"what is stored of this job cannot be read ({type(error).__name__})")
        failed = after(Status.RUNNING, Event.FAIL)
        _write(connection, now, number, failed, error=problem.as_dict(), spec={}, notes={}, result=None)
        return None


def put_back(connection: Connection, now: Now, held: Job, reason: str, *, most: int | None) -> Job:
    """Queue the job again; as a death that counts towards `most`, or not as one when that is None."""
    deaths = held.deaths + (most is not None)
    if most is not None and deaths >= most:
        return _fail(connection, now, held, deaths, reason, deaths=deaths)
    if held.attempt >= MAX_ATTEMPTS:
        return _fail(connection, now, held, held.attempt, reason, deaths=deaths)
    return end(connection, now, held, Event.RETRY, stage=f"to be tried again: {reason}", deaths=deaths)


def postpone(connection: Connection, now: Now, held: Job, reason: str, *, most: int) -> Job:
    """Queue the job again after an outage, which is no error of the job; at most `most` times."""
    outages = held.outages + 1
    notes = {**held.notes, "outages": outages}
    if outages >= most:
        return _fail(connection, now, held, outages, reason, notes=notes)
    return end(connection, now, held, Event.RETRY, stage=f"to be tried again: {reason}", notes=notes)


def _fail(connection: Connection, now: Now, held: Job, times: int, reason: str, **values: Any) -> Job:
    problem = Problem(f"tried {times} times; the last time: {reason}" if times > 1 else reason)
    return end(connection, now, held, Event.FAIL, error=problem.as_dict(), **values)
