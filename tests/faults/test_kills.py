"""SIGKILL to each part in turn while clients train, predict and move aliases.

After each, every job accepted has succeeded exactly once, the alias points at a version that answers, and no prediction
failed but on a connection to the replica that was killed.
"""

from __future__ import annotations

import contextlib
import time

import psutil
import pytest

from tests.faults.life import life_goes_on
from tests.jobs.waiting import eventually, gone

pytestmark = pytest.mark.thorough

AWAY_SECONDS = 0.5


def test_a_replica(system):
    """The other one answers; what the dead one ran is run by others; it comes back with all there is."""
    with life_goes_on(system):
        for replica in system.replicas:
            replica.kill()
            time.sleep(AWAY_SECONDS)
            replica.start()


def test_a_worker(system):
    """Its jobs are taken over when its lease has run out, and the processes it left are gone."""
    with life_goes_on(system):
        for _ in range(2):
            left = system.worker.descendants()
            system.worker.kill()
            system.worker.start()
            eventually(lambda left=left: all(gone(process.pid) for process in left), seconds=30)


def test_the_process_of_a_job(system):
    """The job is tried again."""
    with life_goes_on(system, jobs=8):
        assert sum(hit_when_there(system, lambda host: host.jobs()) for _ in range(2)) == 2


def test_a_fork_server(system):
    """Its jobs are tried again, from a new one."""
    with life_goes_on(system, jobs=8):
        assert sum(hit_when_there(system, lambda host: host.fork_servers()) for _ in range(2)) == 2


def test_the_database(system):
    """Predictions go on from memory; orders and moves wait, and what was committed is there afterwards."""
    with life_goes_on(system):
        for _ in range(2):
            system.postgres.kill()
            time.sleep(AWAY_SECONDS)
            system.postgres.start()
            time.sleep(AWAY_SECONDS)


def test_the_way_to_the_store(system):
    """Predictions go on from memory; jobs wait and are tried again; no version is half there."""
    with life_goes_on(system):
        for _ in range(2):
            system.to_store.kill()
            time.sleep(AWAY_SECONDS)
            system.to_store.start()
            time.sleep(AWAY_SECONDS)


@pytest.mark.parametrize("part", ["scheduler", "a worker"])
def test_dask(system, part):
    """A job that it was busy with is tried again; nothing else notices."""
    with life_goes_on(system):
        for program in [system.scheduler] if part == "scheduler" else system.dask_workers:
            program.kill()
            time.sleep(AWAY_SECONDS)
            program.start()


def hit_when_there(system, find) -> bool:
    """Kill the first process that is found, as soon as there is one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for host in (*system.replicas, system.worker):
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in find(host):
                    process.kill()
                    return True
        time.sleep(0.01)
    return False
