"""How fast the job table is: submitting, and claiming by several processes at once, on SQLite and PostgreSQL.

`.venv/bin/python benchmarks/jobs.py [URL]`: with the URL of an empty PostgreSQL database, or with the one that this
script starts where Debian's PostgreSQL is installed. Submitting includes the durable commit of each job, one client;
claiming is one transaction for the claim and one for its end, by as many processes as there are cores, and at least
two.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.database import Database
from app.jobs.job import Ending, Event, Problem
from app.jobs.queue import Queue
from app.migrations import migrate

JOBS = 600
PROCESSES = max(2, os.cpu_count() or 2)


def submit(url: str) -> None:
    database = Database(url)
    migrate(database)
    queue = Queue(database)
    seconds = []
    for number in range(JOBS):
        began = time.perf_counter()
        queue.submit("bench", {"number": number})
        seconds.append(time.perf_counter() - began)
    p50, p99 = 1000 * np.percentile(seconds, [50, 99])
    print(f"  submit: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    database.close()


def claim_all(url: str, all_there: object, found: object) -> None:
    database = Database(url)
    queue = Queue(database)
    queue.status()  # connected before the clock starts
    all_there.wait()
    claimed = []
    while (job := queue.claim(str(os.getpid()))) is not None:
        claimed.append(job.id)
        queue.end(job, Ending(Event.FAIL, Problem("done")))
    found.put(claimed)
    database.close()


def claim(url: str) -> None:
    context = multiprocessing.get_context("spawn")
    all_there, found = context.Barrier(PROCESSES + 1), context.Queue()
    processes = [context.Process(target=claim_all, args=(url, all_there, found)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    all_there.wait()
    began = time.perf_counter()
    shares = [found.get() for _ in processes]
    seconds = time.perf_counter() - began
    for process in processes:
        process.join()
    jobs = [job for share in shares for job in share]
    assert len(set(jobs)) == len(jobs) == JOBS, "each job is claimed once"
    least = min(map(len, shares))
    print(f"  claim and end: {JOBS / seconds:.0f}/s by {PROCESSES} processes, of which the slowest got {least}")


@contextmanager
def postgres() -> Iterator[str | None]:
    """A server of the benchmark's own, durable as a real one: fsync is on."""
    from tests.servers.postgres import Postgres, installed  # noqa: PLC0415 - its client is an extra

    class Durable(Postgres):
        def command(self) -> list[str]:
            return [word.replace("fsync=off", "fsync=on") for word in super().command()]

    if not installed():
        yield None
        return
    server = Durable()
    server.start()
    try:
        yield server.create_database()
    finally:
        server.close()


def measure(name: str, url: str) -> None:
    print(name)
    submit(url)
    claim(url)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure("SQLite", f"sqlite:///{folder}/jobs.db")
    if len(sys.argv) > 1:
        measure("PostgreSQL", sys.argv[1])
        return
    with postgres() as url:
        if url is None:
            print("PostgreSQL is not installed")
        else:
            measure("PostgreSQL on loopback", url)


if __name__ == "__main__":
    main()
