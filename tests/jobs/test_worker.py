"""A worker with real processes: what a job may do, how each attempt ends, and what goes wrong beside it."""

import os
import threading

import pytest

from app.jobs import attempt
from app.jobs import worker as worker_module
from app.jobs.attempt import JobLimits
from app.jobs.job import RELEASED, Status
from app.jobs.queue import Queue
from tests.jobs import targets
from tests.jobs.waiting import SOON, eventually, gone

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
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def queue(url):
    with targets.opened(url, attempts=3, outages=5, lease_seconds=30) as queue:
        targets.make_tables(queue)
        yield queue


@pytest.fixture
def start(url, queue):
    """Start workers, which end with the test."""
    started = []

    def start(**options):
        chosen = {
            "limits": JobLimits(seconds=60, memory_bytes=2**31),
            "slots": 2,
            **options,
        }
        started.append(
            targets.Worker(
                queue, targets.work, url, modules=["tests.jobs.targets"], **chosen
            )
        )
        started[-1].start()
        return started[-1]

    yield start
    for worker in started:
        worker.stop()


def run(queue, do, **spec):
    """Submit a job and wait for its end."""
    return ended(queue, queue.submit("train", {"do": do, **spec}))


def ended(queue, job):
    return eventually(lambda: (now := queue.get(job.id)).ended and now)


def running(queue, do, **spec):
    """Submit a job and wait until its process is in the midst of it."""
    before = len(targets.started(queue))
    job = queue.submit("train", {"do": do, **spec})
    eventually(lambda: len(targets.started(queue)) > before)
    return queue.get(job.id)


@pytest.mark.parametrize(
    ("do", "limits", "attempts", "deaths", "detail"),
    [
        ("sleep", {}, 1, 0, None),
        ("die once", {}, 2, 1, None),
        ("miss", {"times": 4}, 5, 0, None),  # more often than it may die
        ("miss", {"times": 1, "why": UNSTORABLE}, 2, 0, None),
        (
            "miss",
            {"times": 99},
            5,
            0,
            "tried 5 times; the last time: the cluster cannot be reached",
        ),
        ("refuse", {}, 1, 0, "must be positive"),
        ("break", {}, 1, 0, "RuntimeError"),
        ("end without a result", {}, 1, 0, "its work ended without a result"),
        (
            "die",
            {},
            3,
            3,
            "tried 3 times; the last time: its process was killed by signal 9",
        ),
        (
            "hold the interpreter",
            {"seconds": 0.5},
            1,
            0,
            "it took longer than the 0.5 s allowed",
        ),
        pytest.param(
            *(
                "eat",
                {"memory_bytes": 2**29},
                1,
                0,
                "it used more memory than the 512 MB allowed",
            ),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_how_a_job_ends(queue, start, do, limits, attempts, deaths, detail):
    """After so many attempts and deaths; with success, in a process of its own, or with a reason that tells no more."""
    spec = {name: limits.pop(name) for name in ("times", "why") if name in limits}
    start(
        limits=JobLimits(**{"seconds": 60, "memory_bytes": 2**31} | limits),
        rest_seconds=0.01,
    )
    job = run(queue, do, **spec)
    assert (job.attempt, job.deaths, job.progress == 1.0) == (
        attempts,
        deaths,
        detail is None,
    )
    assert targets.published(queue) == ({job.id: 1} if detail is None else {})
    assert os.getpid() not in targets.started(queue)
    if detail is None:
        assert (job.status, job.error) == (Status.SUCCEEDED, None)
        return
    assert job.status is Status.FAILED
    assert detail in job.error["detail"]
    assert "secret" not in str(job.error)
    assert job.error["errors"] == (
        [{"loc": "/learner/C", "msg": detail}] if do == "refuse" else []
    )


def test_what_broke_is_in_the_log_without_what_it_said(queue, start, capfd, caplog):
    start()
    run(queue, "break")
    logs = ""

    def logged():  # after the job has ended; by the standard handlers where an earlier test has configured the logs
        nonlocal logs
        logs += capfd.readouterr().out
        return "targets.py" in logs + caplog.text

    eventually(logged)
    assert "secret /etc/path" not in logs + caplog.text


@pytest.mark.parametrize("threads", [1, 2])
def test_a_job_leads_its_group_is_nice_and_uses_no_more_threads_than_allowed(
    queue, start, threads
):
    start(limits=JobLimits(threads=threads))
    result = run(queue, "threads").result
    assert result["pools"]
    assert set(result.pop("pools")) == {threads}
    assert result == {
        "variable": str(threads),
        "nice": min(os.nice(0) + 19, 19),
        "leader": True,
        "threads": 1,
    }


def test_progress_and_stage_come_from_inside_the_work(queue, start):
    start()
    job = queue.submit("train", {"do": "report"})
    seen = eventually(lambda: (now := queue.get(job.id)).stage == "calibration" and now)
    assert seen.progress == pytest.approx(0.7)


def test_a_job_that_rests_says_why_and_can_be_cancelled_at_once(queue, start):
    start(rest_seconds=60)
    job = queue.submit("train", {"do": "miss", "times": 1})
    resting = eventually(
        lambda: (now := queue.get(job.id)).stage.startswith("waiting") and now
    )
    assert resting.stage == "waiting to be tried again: the cluster cannot be reached"
    queue.cancel(job.id)
    assert ended(queue, job).status is Status.CANCELLED


def test_listeners_hear_of_every_attempt_and_hold_up_no_job(queue, start):
    heard = []

    def listen(job):
        heard.append((job.attempt, str(job.status)))
        raise RuntimeError("broken")

    start().listeners.append(listen)
    for do, expected in (
        ("die once", [(1, "running"), (1, "queued"), (2, "running"), (2, "succeeded")]),
        ("refuse", [(1, "running"), (1, "failed")]),
    ):
        heard.clear()
        run(queue, do)
        eventually(lambda expected=expected: heard == expected)


def test_a_process_killed_right_after_its_success_changes_nothing(queue, start):
    start()
    job = run(queue, "die after success")
    pid = targets.started(queue)[0]
    eventually(lambda: gone(pid))
    run(queue, "sleep")  # by now the worker has dealt with the first
    assert queue.get(job.id).status is Status.SUCCEEDED
    assert targets.published(queue)[job.id] == 1


@pytest.mark.parametrize(
    "do", ["sleep", "hold the interpreter", "ignore SIGTERM", "start a helper"]
)
@pytest.mark.thorough
def test_cancelling_ends_a_running_job_within_two_seconds_whatever_it_does(
    queue, start, do
):
    start()
    job = running(queue, do, seconds=60)
    if do == "start a helper":
        eventually(lambda: len(targets.started(queue)) == 2)
    assert queue.cancel(job.id).cancel_requested
    assert ended(queue, job).status is Status.CANCELLED
    eventually(lambda: all(gone(pid) for pid in targets.started(queue)))
    assert not targets.published(queue)


def test_stopping_a_worker_gives_its_jobs_back_without_counting_that(queue, start):
    worker = start()
    jobs = [running(queue, "sleep", seconds=60), running(queue, "hold the interpreter")]
    assert not worker.obstacle
    worker.stop()
    assert worker.obstacle
    eventually(lambda: all(gone(pid) for pid in targets.started(queue)))
    assert [(queue.get(job.id).status, queue.get(job.id).deaths) for job in jobs] == [
        (Status.QUEUED, 0)
    ] * 2


def test_a_job_taken_away_is_killed_and_left_to_its_new_owner(queue, start):
    start()
    job = running(queue, "sleep", seconds=60)
    assert queue.end(job, RELEASED)
    pid = targets.started(queue)[0]
    eventually(lambda: gone(pid), SOON)
    eventually(lambda: queue.get(job.id).attempt == 2)


@pytest.mark.thorough
def test_while_the_database_is_silent_a_job_is_killed_before_its_lease_ends(
    queue, start, monkeypatch
):
    """Nobody takes it meanwhile, and it is tried again: that was an outage, and no death."""
    beat, hung = queue.beat, threading.Event()

    def hang(*arguments):
        hung.wait(60)
        return beat(*arguments)

    queue.lease_seconds = LEASE
    monkeypatch.setattr(queue, "recover_from_dead_workers", list)
    start(rest_seconds=0.01)
    job = running(queue, "hold the interpreter")
    monkeypatch.setattr(queue, "beat", hang)
    eventually(lambda: gone(targets.started(queue)[0]))
    eventually(lambda: queue.get(job.id).attempt == 2)
    assert (queue.get(job.id).outages, queue.get(job.id).deaths) == (1, 0)
    queue.cancel(job.id)
    hung.set()


def fail_for(monkeypatch, queue, method, job, times=10**9):
    """Let a method of the queue raise what is no outage for one job, and for no other."""
    works, left = getattr(queue, method), iter(range(times))

    def broken(which, *rest, **named):
        if (
            job.id in (which, getattr(which, "id", None))
            and next(left, None) is not None
        ):
            raise RuntimeError("cannot be stored")
        return works(which, *rest, **named)

    monkeypatch.setattr(queue, method, broken)


@pytest.mark.parametrize("do", ["refuse", "die", "miss"])
@pytest.mark.thorough
def test_an_end_that_cannot_be_stored_ends_that_job_alone(
    queue, start, monkeypatch, do
):
    queue.lease_seconds = LEASE
    poison = queue.submit("train", {"do": do, "times": 99})
    fail_for(monkeypatch, queue, "end", poison)
    worker = start(rest_seconds=0.01)
    others = [queue.submit("train", {"do": "sleep"}) for _ in range(3)]
    assert [ended(queue, job).status for job in others] == [Status.SUCCEEDED] * 3
    failed = ended(Queue(queue.database), poison)
    assert failed.status is Status.FAILED
    assert failed.attempt <= 3
    assert "its worker stopped responding" in failed.error["detail"]
    assert not worker.obstacle


def test_a_failure_that_passes_costs_nothing(queue, start, monkeypatch):
    job = queue.submit("train", {"do": "sleep", "seconds": 1})
    fail_for(monkeypatch, queue, "beat", job, times=2)
    start()
    assert (ended(queue, job).status, queue.get(job.id).attempt) == (
        Status.SUCCEEDED,
        1,
    )


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
        assert not worker.obstacle
        eventually(lambda: worker.obstacle)
        assert worker.turn_age > 0.5
    eventually(lambda: not worker.obstacle)
