"""A worker with real processes: what a job may do, and how each attempt ends."""

import os
import threading

import pytest
from sqlalchemy.exc import OperationalError

from app.jobs.attempt import JobLimits
from app.jobs.job import RELEASED, Status
from tests.jobs import targets
from tests.jobs.waiting import SOON, eventually, gone
from tests.jobs.workers import workers

PATIENCE = 30


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def queue(url):
    with targets.opened(url, attempts=3, outages=5, lease_seconds=2) as queue:
        targets.make_tables(queue)
        yield queue


@pytest.fixture
def start(url, queue):
    with workers(queue, url) as start:
        yield start


def run(queue, do, **spec):
    """Submit a job and wait for its end."""
    job = queue.submit("train", {"do": do, **spec})
    return eventually(lambda: (now := queue.get(job.id)).ended and now)


def running(queue, do, **spec):
    """Submit a job and wait until its process is in the midst of it."""
    before = len(targets.started(queue))
    job = queue.submit("train", {"do": do, **spec})
    eventually(lambda: len(targets.started(queue)) > before)
    return queue.get(job.id)


def test_a_job_succeeds_in_a_process_of_its_own(queue, start):
    start()
    job = run(queue, "sleep")
    assert (job.status, job.progress, job.attempt, job.error) == (Status.SUCCEEDED, 1.0, 1, None)
    assert targets.started(queue) != [os.getpid()]
    assert targets.published(queue) == {job.id: 1}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_job_leads_its_group_is_nice_and_uses_no_more_threads_than_allowed(queue, start, threads):
    start(limits=JobLimits(threads=threads))
    result = run(queue, "threads").result
    assert result["pools"]
    assert set(result.pop("pools")) == {threads}
    assert result == {"variable": str(threads), "nice": min(os.nice(0) + 19, 19), "leader": True, "threads": 1}


def test_progress_and_stage_come_from_inside_the_work(queue, start):
    start()
    job = queue.submit("train", {"do": "report"})
    seen = eventually(lambda: (now := queue.get(job.id)).stage == "calibration" and now)
    assert seen.progress == pytest.approx(0.7)


def test_an_error_made_for_callers_fails_the_job_in_its_own_words(queue, start):
    start()
    job = run(queue, "refuse")
    assert job.status is Status.FAILED
    assert job.error == {
        "title": "Invalid request",
        "detail": "must be positive",
        "errors": [{"loc": "/learner/C", "msg": "must be positive"}],
        "status": 422,
    }


def test_any_other_error_names_its_class_and_leaves_the_rest_to_the_log(queue, start, capfd, caplog):
    start()
    job = run(queue, "break")
    assert job.status is Status.FAILED
    assert "RuntimeError" in job.error["detail"]
    assert "secret" not in str(job.error)
    logs = ""

    def logged():  # after the job has ended; by the standard handlers where an earlier test has configured the logs
        nonlocal logs
        logs += capfd.readouterr().out
        return "targets.py" in logs + caplog.text

    eventually(logged)
    assert "secret /etc/path" not in logs + caplog.text


def test_a_job_that_dies_is_tried_a_bounded_number_of_times(queue, start):
    start()
    job = run(queue, "die")
    assert (job.status, job.attempt, job.deaths) == (Status.FAILED, 3, 3)
    assert job.error["detail"].startswith("tried 3 times; the last time: its process was killed by signal 9")


def test_a_job_that_finds_a_part_of_the_service_away_is_tried_again_without_dying(queue, start):
    """More often than it may die; what stays away fails it in clear words."""
    start(rest_seconds=0.01)
    back, away = run(queue, "miss", times=4), run(queue, "miss", times=99)
    assert (back.status, back.attempt, back.deaths, back.outages) == (Status.SUCCEEDED, 5, 0, 4)
    assert (away.status, away.attempt, away.deaths, away.outages) == (Status.FAILED, 5, 0, 5)
    assert away.error["detail"] == "tried 5 times; the last time: the cluster cannot be reached"


def test_a_job_that_rests_says_why_and_can_be_cancelled_at_once(queue, start):
    start(rest_seconds=60)
    job = queue.submit("train", {"do": "miss", "times": 1})
    resting = eventually(lambda: (now := queue.get(job.id)).stage.startswith("waiting") and now)
    assert resting.stage == "waiting to be tried again: the cluster cannot be reached"
    queue.cancel(job.id)
    ended = eventually(lambda: (now := queue.get(job.id)).ended and now, SOON)
    assert ended.status is Status.CANCELLED


def test_listeners_hear_what_becomes_of_every_attempt(queue, start):
    heard = []
    start().listeners.append(lambda job: heard.append((job.attempt, job.status)))
    run(queue, "die once")
    eventually(lambda: len(heard) == 4)
    run(queue, "refuse")
    eventually(lambda: len(heard) == 6)
    assert heard == [
        (1, Status.RUNNING),
        (1, Status.QUEUED),
        (2, Status.RUNNING),
        (2, Status.SUCCEEDED),
        (1, Status.RUNNING),
        (1, Status.FAILED),
    ]


def test_work_that_ends_without_a_result_is_a_failure(queue, start):
    start(targets.return_unfinished)
    job = run(queue, "sleep")
    assert (job.status, job.attempt) == (Status.FAILED, 1)
    assert job.error["detail"] == "its work ended without a result"


def test_a_process_killed_right_after_its_success_changes_nothing(queue, start):
    start()
    job = run(queue, "die after success")
    pid = targets.started(queue)[0]
    eventually(lambda: gone(pid))
    run(queue, "sleep")  # by now the worker has dealt with the first
    assert queue.get(job.id).status is Status.SUCCEEDED
    assert targets.published(queue)[job.id] == 1


@pytest.mark.parametrize("do", ["sleep", "hold the interpreter", "ignore SIGTERM", "start a helper"])
@pytest.mark.thorough
def test_cancelling_ends_a_running_job_within_two_seconds_whatever_it_does(queue, start, do):
    start()
    job = running(queue, do, seconds=60)
    if do == "start a helper":
        eventually(lambda: len(targets.started(queue)) == 2)
    assert queue.cancel(job.id).cancel_requested
    ended = eventually(lambda: (now := queue.get(job.id)).ended and now, SOON)
    assert ended.status is Status.CANCELLED
    eventually(lambda: all(gone(pid) for pid in targets.started(queue)))
    assert not targets.published(queue)


def test_a_job_beyond_its_wall_time_fails_without_another_try(queue, start):
    start(limits=JobLimits(seconds=0.5))
    job = run(queue, "hold the interpreter")
    assert (job.status, job.attempt) == (Status.FAILED, 1)
    assert job.error["detail"] == "it took longer than the 0.5 s allowed"


@pytest.mark.thorough
def test_a_job_beyond_its_memory_fails_without_another_try(queue, start):
    start(limits=JobLimits(memory_bytes=2**29))
    job = run(queue, "eat")
    assert (job.status, job.attempt) == (Status.FAILED, 1)
    assert job.error["detail"] == "it used more memory than the 512 MB allowed"


def test_stopping_a_worker_gives_its_jobs_back_without_counting_that(queue, start):
    worker = start(slots=2)
    jobs = [running(queue, "sleep", seconds=60), running(queue, "hold the interpreter")]
    assert not worker.problem
    worker.stop()
    assert worker.problem
    eventually(lambda: all(gone(pid) for pid in targets.started(queue)))
    assert [(queue.get(job.id).status, queue.get(job.id).deaths) for job in jobs] == [(Status.QUEUED, 0)] * 2


def test_a_job_taken_away_is_killed_and_left_to_its_new_owner(queue, start):
    start()
    job = running(queue, "sleep", seconds=60)
    assert queue.end(job, RELEASED)
    pid = targets.started(queue)[0]
    eventually(lambda: gone(pid))
    eventually(lambda: queue.get(job.id).attempt == 2)


@pytest.mark.thorough
def test_a_job_is_killed_before_its_lease_ends_when_the_database_stays_silent(queue, start, monkeypatch):
    hung = threading.Event()
    start()
    job = running(queue, "hold the interpreter")

    def hang(*_):
        hung.wait(PATIENCE)
        raise OperationalError("UPDATE jobs", {}, Exception("server closed the connection"))

    monkeypatch.setattr(queue, "beat", hang)
    monkeypatch.setattr(queue, "recover_from_dead_workers", list)  # nobody takes the job away meanwhile
    eventually(lambda: gone(targets.started(queue)[0]))
    assert queue.get(job.id).status is Status.RUNNING
    hung.set()
    monkeypatch.undo()
    eventually(lambda: queue.get(job.id).attempt == 2)
    queue.cancel(job.id)
