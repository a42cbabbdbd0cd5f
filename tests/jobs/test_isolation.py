"""One job that goes wrong, at whatever step of a worker's turn, stops neither the others nor the worker."""

import math
import threading

import psutil
import pytest
from sqlalchemy import select

from app.jobs import attempt
from app.jobs import worker as worker_module
from app.jobs.attempt import Attempt, JobLimits
from app.jobs.job import RELEASED, Status
from app.jobs.queue import Queue
from app.jobs.tables import JOBS
from tests.jobs import targets
from tests.jobs.waiting import eventually
from tests.jobs.workers import workers

LEASE = 1.2  # seconds, where a test waits until one runs out
UNSTORABLE = "class \0 \ud800 of ü"


@pytest.fixture(autouse=True)
def _short_periods(monkeypatch):
    """Workers look and beat more often; no test here depends on how often."""
    monkeypatch.setattr(worker_module, "_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(attempt, "_BEAT_SECONDS", 0.1)
    monkeypatch.setattr(attempt, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(attempt, "_TICK_SECONDS", 0.05)
    monkeypatch.setattr(attempt, "_GRACE_SECONDS", 0.1)


@pytest.fixture
def queue(database_url):
    with targets.opened(database_url, attempts=2, lease_seconds=30) as queue:
        targets.make_tables(queue)
        yield queue


@pytest.fixture
def start(database_url, queue):
    with workers(queue, database_url, slots=2) as start:
        yield start


def ended(queue, job):
    return eventually(lambda: (now := queue.get(job.id)).ended and now)


def fail_for(monkeypatch, queue, method, job, times=10**9):
    """Let a method of the queue raise what is no outage for one job, and for no other."""
    works, left = getattr(queue, method), iter(range(times))

    def broken(which, *rest, **named):
        if job.id in (which, getattr(which, "id", None)) and next(left, None) is not None:
            raise RuntimeError("cannot be stored")
        return works(which, *rest, **named)

    monkeypatch.setattr(queue, method, broken)


def test_a_stage_and_reason_of_any_text_are_stored(queue, start):
    start(rest_seconds=0.01)
    job = queue.submit("train", {"do": "miss", "times": 1, "why": UNSTORABLE})
    assert (ended(queue, job).status, queue.get(job.id).attempt) == (Status.SUCCEEDED, 2)


@pytest.mark.parametrize("do", ["refuse", "die", "miss"])
@pytest.mark.thorough
def test_an_end_that_cannot_be_stored_ends_that_job_alone(queue, start, monkeypatch, do):
    queue.lease_seconds = LEASE
    poison = queue.submit("train", {"do": do, "seconds": 60, "times": 99})
    fail_for(monkeypatch, queue, "end", poison)
    worker = start(rest_seconds=0.01)
    others = [queue.submit("train", {"do": "sleep"}) for _ in range(3)]
    assert [ended(queue, job).status for job in others] == [Status.SUCCEEDED] * 3
    failed = ended(Queue(queue.database), poison)
    assert failed.status is Status.FAILED
    assert failed.attempt <= 2
    assert "its worker stopped responding" in failed.error["detail"]
    assert not worker.problem


def test_a_failure_that_passes_costs_nothing(queue, start, monkeypatch):
    job = queue.submit("train", {"do": "sleep", "seconds": 1})
    fail_for(monkeypatch, queue, "beat", job, times=2)
    start()
    assert (ended(queue, job).status, queue.get(job.id).attempt) == (Status.SUCCEEDED, 1)


def test_a_listener_that_raises_holds_up_no_job(queue, start):
    def broken(_job):
        raise RuntimeError("broken")

    worker = start()
    worker.listeners.append(broken)
    jobs = [queue.submit("train", {"do": do}) for do in ("refuse", "sleep")]
    assert [ended(queue, job).status for job in jobs] == [Status.FAILED, Status.SUCCEEDED]


@pytest.mark.parametrize("method", ["claim", "recover_from_dead_workers"])
@pytest.mark.thorough
def test_a_worker_whose_turns_fail_is_not_alive(queue, start, monkeypatch, method):
    monkeypatch.setattr(worker_module, "_ALIVE_SECONDS", 0.5)
    queue.lease_seconds = 0.2

    def broken(*_arguments):
        raise RuntimeError("broken")

    with monkeypatch.context() as broken_for_now:
        broken_for_now.setattr(queue, method, broken)
        worker = start()
        assert not worker.problem
        eventually(lambda: worker.problem)
        assert worker.turn_age > 0.5
    eventually(lambda: not worker.problem)


@pytest.mark.thorough
def test_a_lost_lease_counts_as_an_outage(queue, start, monkeypatch):
    """The database is silent for longer than the lease, nobody takes the job, and it answers again."""
    beat, hung = queue.beat, threading.Event()

    def hang(*arguments):
        if not hung.is_set():
            hung.wait(60)
        return beat(*arguments)

    queue.lease_seconds = LEASE
    monkeypatch.setattr(queue, "recover_from_dead_workers", list)
    start(rest_seconds=0.01)
    job = queue.submit("train", {"do": "hold the interpreter"})
    eventually(lambda: targets.started(queue))
    monkeypatch.setattr(queue, "beat", hang)
    with queue.database.reading() as connection:
        lease_until = connection.execute(select(JOBS.c.lease_until)).scalar_one()
    eventually(lambda: now(queue) > lease_until + 0.5)
    hung.set()
    eventually(lambda: queue.get(job.id).attempt == 2)
    assert (queue.get(job.id).outages, queue.get(job.id).deaths) == (1, 0)
    queue.cancel(job.id)


def now(queue):
    with queue.database.reading() as connection:
        return connection.execute(select(queue.database.now)).scalar_one()


def test_a_stop_while_the_memory_of_a_job_is_measured_is_not_lost(queue, database_url, monkeypatch):
    job = queue.submit("train", {"do": "sleep", "seconds": 20})
    told = []
    attempt = Attempt(
        queue,
        queue.claim("one"),
        targets.work,
        database_url,
        JobLimits(memory_bytes=2**31),
        trusted_until=math.inf,
        tell=told.append,
        on_end=lambda: None,
        rest=0.0,
    )

    def stop_meanwhile(_process, **_options):
        attempt.stop(RELEASED)
        return []

    monkeypatch.setattr(psutil.Process, "children", stop_meanwhile)
    attempt.start()
    assert attempt.over.wait(60)
    assert [(now.status, now.deaths, now.stage) for now in told] == [
        (Status.QUEUED, 0, "to be tried again: its worker was stopped")
    ]
    assert not targets.published(queue)
    assert queue.get(job.id).attempt == 1
