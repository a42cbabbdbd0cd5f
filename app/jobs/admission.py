"""How many jobs a client may have at once, counted in the transaction that adds one."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from app.errors import TooMany
from app.jobs.job import ENDED, Status
from app.jobs.tables import JOBS

PENDING = JOBS.c.status.in_([status for status in Status if status not in ENDED])
_SECONDS = 5  # jobs end in their own time; asking more often does not help


def admit(connection: Connection, job_id: str, client: str, most: int) -> None:
    """TooMany where the client has `most` jobs queued or running, unless one of its jobs is `job_id` already.

    To be called after `fairness.next_turn`, which makes the client's other orders wait.
    """
    if connection.execute(select(JOBS.c.seq).where(JOBS.c.id == job_id)).first() is not None:
        return
    count = connection.execute(select(func.count()).where(PENDING, JOBS.c.client == client)).scalar_one()
    if count >= most:
        raise TooMany(
            f"{count} jobs of this key are queued or running, and {most} may be: wait for one, or cancel one",
            seconds=_SECONDS,
        )
