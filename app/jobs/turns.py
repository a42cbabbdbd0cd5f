"""Which orders are accepted, and in which order their jobs begin: the clients take turns.

Each job gets a turn when it is submitted, and jobs begin in the order of their turns (start-time fair queueing,
P. Goyal, H. M. Vin and H. Cheng, 1997, with jobs of equal cost). A client's jobs have turns one apart; the first job of
a client that was idle gets the turn that is being served. So a client with 10,000 queued jobs delays another client by
one job, and claiming is one step in an index.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, ScalarSelect, func, select

from app.errors import TooMany
from app.jobs.job import ENDED, Status
from app.jobs.tables import JOBS

PENDING = JOBS.c.status.in_([status for status in Status if status not in ENDED])

_BEGUN = (Status.RUNNING, Status.SUCCEEDED, Status.FAILED)  # a cancelled job may never have begun
_SECONDS = 5  # jobs end in their own time; asking more often does not help


def next_turn(connection: Connection, client: str | None) -> int:
    """The turn of a job that `client` submits now; O(log n) in the number of jobs.

    Orders of one client wait here for each other until the transaction ends, so that no two get the same turn; on
    SQLite a writer is alone anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"jobs of {client}"))))
    own = JOBS.c.client.is_(None) if client is None else JOBS.c.client == client
    served = [_latest(JOBS.c.status == status) for status in _BEGUN]
    first = select(func.min(JOBS.c.turn)).where(JOBS.c.status == Status.QUEUED).scalar_subquery()
    last = [_latest(own, JOBS.c.status == status) for status in (*_BEGUN, Status.QUEUED)]
    row = connection.execute(select(*served, first, *last)).one()
    now = max((turn for turn in row[: len(served) + 1] if turn is not None), default=0)
    after = max((turn + 1 for turn in row[len(served) + 1 :] if turn is not None), default=0)
    return max(now, after)


def admit(connection: Connection, job_id: str, client: str, most: int) -> None:
    """TooMany where the client has `most` jobs queued or running, unless one of its jobs is `job_id` already.

    To be called after `next_turn`, which makes the client's other orders wait.
    """
    if connection.execute(select(JOBS.c.seq).where(JOBS.c.id == job_id)).first() is not None:
        return
    count = connection.execute(select(func.count()).where(PENDING, JOBS.c.client == client)).scalar_one()
    if count >= most:
        raise TooMany(
            f"{count} jobs of this key are queued or running, and {most} may be: wait for one, or cancel one",
            seconds=_SECONDS,
        )


def _latest(*which: ColumnElement[bool]) -> ScalarSelect[int | None]:
    return select(func.max(JOBS.c.turn)).where(*which).scalar_subquery()
