"""Expired jobs are deleted, where PAYOFF_KEEP_JOBS_DAYS asks for it."""

from __future__ import annotations

from sqlalchemy import delete, select

from app.database import Database
from app.jobs.job import ENDED
from app.jobs.tables import JOBS

_BATCH = 500  # rows that one look takes, so that no transaction is long


def expire(database: Database, older_than_seconds: float) -> int:
    """Remove some of the jobs that ended longer ago than that; how many. 0: there are none left.

    Looks at the first few of each status only, in the order of submission, which the index gives: a look costs the same
    however many jobs there are. What is queued or runs is never removed.
    """
    removed = 0
    long_ago = database.now - older_than_seconds
    for status in sorted(ENDED):
        first = (
            select(JOBS.c.seq)
            .where(JOBS.c.status == status)
            .order_by(JOBS.c.seq)
            .limit(_BATCH)
            .with_for_update(skip_locked=True)
        )
        with database.writing() as connection:
            numbers = list(connection.execute(first).scalars())
            old = delete(JOBS).where(JOBS.c.seq.in_(numbers), JOBS.c.status == status, JOBS.c.finished_at < long_ago)
            removed += connection.execute(old).rowcount
    return removed
