"""Workers and jobs killed without warning: every job is accounted for, once, and nothing is left running."""

import contextlib
import random
import subprocess
import sys
import time

import psutil
import pytest

from tests.jobs import targets
from tests.jobs.waiting import SOON, eventually, gone

LEASE = 1.1
PATIENCE = 60


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def queue(url):
    with targets.opened(url, attempts=50, lease_seconds=LEASE) as queue:
        targets.make_tables(queue)
        yield queue


@pytest.fixture
def serve(url):
    """Start workers as programs; those still there at the end are killed."""
    programs = []

    def begin(slots):
        code = f"from tests.jobs.targets import serve; serve({url!r}, {slots}, {LEASE})"
        programs.append(subprocess.Popen([sys.executable, "-c", code]))
        return programs[-1]

    yield begin
    for program in programs:
        program.kill()
        program.wait()


def family(program):
    """The processes that a worker has started: fork server, resource tracker, jobs."""
    return psutil.Process(program.pid).children(recursive=True)


@pytest.mark.parametrize("do", ["sleep", "hold the interpreter", "start a helper"])
@pytest.mark.thorough
def test_no_process_outlives_a_killed_worker(queue, serve, do):
    queue.submit("train", {"do": do, "seconds": 60})
    program = serve(1)
    eventually(lambda: len(targets.started(queue)) == 1 + (do == "start a helper"))
    processes = family(program)
    assert set(targets.started(queue)) <= {process.pid for process in processes}
    program.kill()
    program.wait()
    eventually(lambda: all(gone(process.pid) for process in processes), SOON)


@pytest.mark.thorough
def test_whatever_is_killed_whenever_each_job_succeeds_once(queue, serve):
    """Job processes are killed at random moments, and both workers in turn are killed and started again."""
    chance = random.Random(7)
    for _ in range(24):
        queue.submit("train", {"do": "sleep", "seconds": 0.15})
    programs = [serve(2), serve(2)]
    kills = 0
    until = time.monotonic() + PATIENCE
    while (queue.status().jobs["succeeded"] < 24) and time.monotonic() < until:
        time.sleep(chance.uniform(0.05, 0.3))
        if chance.random() < 0.7:
            jobs = {
                process.pid: process
                for program in programs
                for process in family(program)
            }
            hit = [jobs[pid] for pid in targets.started(queue) if pid in jobs]
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                chance.choice(hit).kill()
        elif kills < 4:
            kills += 1
            victim = programs.pop(0)
            victim.kill()
            victim.wait()
            programs.append(serve(2))
    assert queue.status().jobs == {
        "queued": 0,
        "running": 0,
        "succeeded": 24,
        "failed": 0,
        "cancelled": 0,
    }
    assert sorted(targets.published(queue).values()) == [1] * 24
    assert len(targets.started(queue)) > 24  # some of the kills did hit
    assert kills
