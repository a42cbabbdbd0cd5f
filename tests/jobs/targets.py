"""What the jobs of these tests do; imported in the jobs' processes, too."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager

import numpy as np
import threadpoolctl
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select

from app.database.engine import Database
from app.database.migrations import migrate
from app.errors import Unavailable
from app.jobs.attempt import JobLimits
from app.jobs.queue import Queue
from app.jobs.worker import Worker
from payoff import progress
from payoff.errors import Invalid

TABLES = MetaData()
PUBLISHED = Table(
    "published", TABLES, Column("job", String), Column("attempt", Integer)
)
STARTED = Table("started", TABLES, Column("job", String), Column("pid", Integer))


@contextmanager
def opened(url, **options):
    """A queue for as long as it is needed."""
    queue = Queue(Database(url), **options)
    try:
        yield queue
    finally:
        queue.database.close()


def make_tables(queue):
    migrate(queue.database)
    with queue.database.writing() as connection:
        TABLES.create_all(connection)


def published(queue):
    """How often each job's result was published."""
    with queue.database.reading() as connection:
        return Counter(connection.execute(select(PUBLISHED.c.job)).scalars())


def started(queue):
    """The processes in which attempts began."""
    with queue.database.reading() as connection:
        return list(
            connection.execute(select(STARTED.c.pid).order_by(STARTED.c.pid)).scalars()
        )


def work(url, job):
    """Do what the job's spec asks for, then publish a line together with the success."""
    with opened(url) as queue:
        with queue.database.writing() as connection:
            connection.execute(insert(STARTED).values(job=job.id, pid=os.getpid()))
        if job.spec["do"] == "end without a result":
            return
        result = DEEDS[job.spec["do"]](queue, job) or {}
        with queue.database.writing() as connection:
            connection.execute(
                insert(PUBLISHED).values(job=job.id, attempt=job.attempt)
            )
            queue.succeed(connection, job, result)
    if job.spec["do"] == "die after success":
        os.kill(os.getpid(), signal.SIGKILL)


def _sleep(_queue, job):
    progress.report(0.5, "asleep")
    time.sleep(job.spec.get("seconds", 0))


def _hold_interpreter(_queue, _job):
    sum(range(10**12))  # one C call that never lets another thread run


def _ignore_sigterm(queue, job):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _sleep(queue, job)


def _helper(queue, job):
    """Start another process, too."""
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with queue.database.writing() as connection:
        connection.execute(insert(STARTED).values(job=job.id, pid=helper.pid))
    _hold_interpreter(queue, job)


def _eat(_queue, _job):
    hoard = []
    while True:
        hoard.append(np.ones(2_000_000))
        time.sleep(0.005)


def _refuse(_queue, _job):
    raise Invalid.at("/learner/C", "must be positive")


def _break(_queue, _job):
    what = "secret"  # a traceback quotes the line below, which must not hold the words themselves
    raise RuntimeError(f"{what} /etc/path")


def _miss(_queue, job):
    """Find a part of the service away, as many times as the job says."""
    if job.attempt <= job.spec["times"]:
        raise Unavailable(job.spec.get("why", "the cluster cannot be reached"))


def _die(_queue, _job):
    os.kill(os.getpid(), signal.SIGKILL)


def _die_once(_queue, job):
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def _report_from_within(_queue, _job):
    with progress.part(0.2, 0.6, "forest"):
        progress.report(0.5)
    for number in range(
        20_000
    ):  # a flood fills the pipe and is dropped: it neither waits nor fails
        progress.report(0.6, f"fold {number}")
    time.sleep(0.5)
    progress.report(0.7, "calibration")
    time.sleep(2)


def pools():
    """How many threads each numerical library would use."""
    np.ones((2, 2)) @ np.ones((2, 2))
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}


def _threads(_queue, _job):
    np.ones((2, 2)) @ np.ones((2, 2))
    return {
        "pools": [pool["num_threads"] for pool in threadpoolctl.threadpool_info()],
        "variable": os.environ["OMP_NUM_THREADS"],
        "nice": os.nice(0),
        "leader": os.getpgrp() == os.getpid(),
        "threads": threading.active_count(),
    }


DEEDS = {
    "sleep": _sleep,
    "die after success": _sleep,
    "hold the interpreter": _hold_interpreter,
    "ignore SIGTERM": _ignore_sigterm,
    "start a helper": _helper,
    "eat": _eat,
    "refuse": _refuse,
    "break": _break,
    "miss": _miss,
    "die": _die,
    "die once": _die_once,
    "report": _report_from_within,
    "threads": _threads,
}


def serve(url, slots, lease):
    """A worker as a program of its own; ended by SIGTERM or SIGKILL."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    limits = JobLimits(seconds=60, memory_bytes=2**31)
    with opened(url, attempts=50, lease_seconds=lease) as queue:
        worker = Worker(
            queue, work, url, slots=slots, limits=limits, modules=["tests.jobs.targets"]
        )
        worker.start()
        stop.wait()
        worker.stop()


def claim_all(url, name):
    """Claim and finish until nothing is left; used by several processes at once."""
    with opened(url) as queue:
        while job := queue.claim(name):
            with queue.database.writing() as connection:
                connection.execute(
                    insert(PUBLISHED).values(job=job.id, attempt=job.attempt)
                )
                queue.succeed(connection, job, {})
