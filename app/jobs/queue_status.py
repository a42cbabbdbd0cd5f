"""The state of the job table as a whole, for monitoring."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

from app.jobs.job import Status
from app.jobs.queue import Queue
from app.jobs.tables import JOBS, WORKERS


@dataclass(frozen=True)
class QueueStatus:
    """Jobs by status, how long the oldest queued one has waited (0 without any), and how many workers are alive."""

    jobs: dict[str, int]
    oldest_seconds: float
    workers: int


def queue_status(queue: Queue) -> QueueStatus:
    """Three small queries in one snapshot, all times by the database's clock."""
    now = queue.database.now
    by_status = select(JOBS.c.status, func.count()).group_by(JOBS.c.status)
    oldest = select(now - func.min(JOBS.c.created_at)).where(JOBS.c.status == Status.QUEUED)
    alive = select(func.count()).where(WORKERS.c.seen_at >= now - queue.lease_seconds)
    with queue.database.reading() as connection:
        found = {row[0]: int(row[1]) for row in connection.execute(by_status)}
        age = connection.execute(oldest).scalar()
        workers = connection.execute(alive).scalar_one()
    jobs = {status.value: found.get(status, 0) for status in Status}
    return QueueStatus(jobs, max(float(age or 0.0), 0.0), int(workers))
