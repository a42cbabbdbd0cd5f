"""Forgetting jobs that ended long ago, some at a time, and never one that has not ended."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from app.errors import NotFound
from app.jobs import queue as queue_module
from app.jobs.job import Ending, Event, Failure, Status
from app.jobs.tables import JOBS

DAY = 86_400.0


def ended(queue, days_ago, how=Status.FAILED):
    """The id of a job that ended so long ago."""
    job = queue.submit("train", {})
    queue.end(queue.claim("worker"), Ending(Event.FAIL, Failure("no")))
    with queue.database.writing() as connection:
        at = queue.database.now - days_ago * DAY
        connection.execute(update(JOBS).where(JOBS.c.id == job.id).values(finished_at=at, status=how))
    return job.id


def there(queue):
    with queue.database.reading() as connection:
        return set(connection.execute(select(JOBS.c.id)).scalars())


def test_only_jobs_that_ended_long_ago_go(queue):
    old = {ended(queue, 9, how) for how in (Status.FAILED, Status.SUCCEEDED, Status.CANCELLED)}
    young = {ended(queue, 2), ended(queue, 6.9)}
    running, queued = queue.submit("train", {}).id, queue.submit("train", {}).id
    queue.claim("worker")
    with queue.database.writing() as connection:
        connection.execute(update(JOBS).where(JOBS.c.id.in_([running, queued])).values(created_at=0, started_at=0))
    assert old <= there(queue)

    assert queue.expire(7 * DAY) == 3

    assert there(queue) == young | {running, queued}
    with pytest.raises(NotFound):
        queue.get(old.pop())


def test_many_go_in_several_batches(queue, monkeypatch):
    monkeypatch.setattr(queue_module, "_EXPIRED", 2)
    for _ in range(5):
        ended(queue, 9)

    assert [queue.expire(7 * DAY) for _ in range(4)] == [2, 2, 1, 0]


def test_the_key_of_an_expired_job_can_be_used_again(queue):
    first = queue.submit("train", {"seed": 1}, key="mine")
    queue.end(queue.claim("worker"), Ending(Event.FAIL, Failure("no")))
    queue.expire(-1.0)

    second = queue.submit("train", {"seed": 2}, key="mine")

    assert (second.id, second.status) == (first.id, Status.QUEUED)
