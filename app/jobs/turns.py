"""The turns of clients: each job gets one when it is submitted, and jobs begin in their order.

This is start-time fair queueing (P. Goyal, H. M. Vin and H. Cheng, 1997) of jobs of equal cost. A
client's jobs have turns one apart; the first job of a client that was idle gets the turn that is
being served. So a client with 10,000 queued jobs delays another client by one job, and claiming is
one step in an index.
"""

from sqlalchemy import ColumnElement, Connection, ScalarSelect, func, select

from app.errors import TooMany
from app.jobs.job import ENDED, Status
from app.jobs.tables import JOBS

PENDING = JOBS.c.status.in_([status for status in Status if status not in ENDED])
# a cancelled job may never have begun
_BEGUN = (Status.RUNNING, Status.SUCCEEDED, Status.FAILED)
_RETRY_SECONDS = 5  # jobs end in their own time; more frequent requests do not help


def next_turn(connection: Connection, client: str | None) -> int:
    """The turn of a job that `client` submits now; O(log n) in the number of jobs.

    Requests of one client wait here for each other until the transaction ends, so that no two get
    the same turn; on SQLite a writer is alone anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(
            select(func.pg_advisory_xact_lock(func.hashtext(f"jobs of {client}")))
        )
    of_client = JOBS.c.client.is_(None) if client is None else JOBS.c.client == client
    served = [_latest(JOBS.c.status == status) for status in _BEGUN]
    first = (
        select(func.min(JOBS.c.turn))
        .where(JOBS.c.status == Status.QUEUED)
        .scalar_subquery()
    )
    last = [
        _latest(of_client, JOBS.c.status == status)
        for status in (*_BEGUN, Status.QUEUED)
    ]
    row = connection.execute(select(*served, first, *last)).one()
    current = max(
        (turn for turn in row[: len(served) + 1] if turn is not None), default=0
    )
    next_of_client = max(
        (turn + 1 for turn in row[len(served) + 1 :] if turn is not None), default=0
    )
    return max(current, next_of_client)


def admit(connection: Connection, job_id: str, client: str, max_jobs: int) -> None:
    """TooMany where the client has `max_jobs` jobs queued or running, unless one of its jobs is
    `job_id` already.

    To be called after `next_turn`, which makes the client's other requests wait.
    """
    if (
        connection.execute(select(JOBS.c.seq).where(JOBS.c.id == job_id)).first()
        is not None
    ):
        return
    count = connection.execute(
        select(func.count()).where(PENDING, JOBS.c.client == client)
    ).scalar_one()
    if count >= max_jobs:
        raise TooMany(
            f"{count} jobs of this key are queued or running, and {max_jobs} may be:"
            " wait for one, or cancel one",
            seconds=_RETRY_SECONDS,
        )


def _latest(*conditions: ColumnElement[bool]) -> ScalarSelect[int | None]:
    return select(func.max(JOBS.c.turn)).where(*conditions).scalar_subquery()
