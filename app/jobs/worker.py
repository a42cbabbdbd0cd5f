"""The loop that claims jobs and runs them, in a thread of the service or of its own program."""

import math
import os
import secrets
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import structlog

from app.database.polling import Poller
from app.errors import Unavailable
from app.jobs.attempt import Attempt, JobLimits, Target
from app.jobs.job import RELEASED, Job
from app.jobs.processes import preload
from app.jobs.queue import Queue

# between two looks for jobs that other processes queued; those of this process wake the loop
_IDLE_SECONDS = 0.5
_STOP_SECONDS = 5.0
_LONGEST_REST_SECONDS = 30.0
# A turn takes milliseconds, and waits for a busy SQLite file at most half of this.
_ALIVE_SECONDS = 30.0

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Worker:
    """Runs jobs of a queue, up to `slots` at once.

    `target(argument, job)` does the work in a process of its own and finishes the job itself, with
    `Queue.succeed` in the transaction that publishes its result. Both the target and the argument
    are pickled; `modules` are imported once, in the fork server that all jobs start from.
    `listeners` are called with each job that begins (it is running), ends, or waits for another
    attempt (it is queued); they are called in the worker's threads, so they return at once.

    A target that raises Unavailable (or whose database does not answer) is tried again: its slot
    rests before, first for `rest_seconds`, then twice as long each time, at most for
    `_LONGEST_REST_SECONDS`. Meanwhile no other job of the slot meets the same outage.
    """

    queue: Queue
    target: Target
    argument: Any
    slots: int = 1
    limits: JobLimits = field(default_factory=JobLimits)
    modules: Iterable[str] = ()
    rest_seconds: float = 1.0

    def __post_init__(self) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.listeners: list[Callable[[Job], None]] = []
        self._running: list[Attempt] = []
        self._recover_at = 0.0
        self._turned_at = -math.inf
        self._poller = Poller(self.name, self._turn, _IDLE_SECONDS)

    @property
    def obstacle(self) -> str:
        """Why the loop is not alive, as a clause; empty while it runs and one of its turns went
        well recently.
        """
        alive = self.turn_age < max(_ALIVE_SECONDS, 3 * self.queue.lease_seconds)
        return "" if alive else "the worker's loop fails, hangs or has ended"

    @property
    def turn_age(self) -> float:
        """Seconds since the loop's start or its last turn that went well; infinite while it does
        not run.
        """
        return monotonic() - self._turned_at

    def start(self) -> None:
        """Run in a thread; an error in it is logged, and the next turn follows."""
        preload(["app.jobs.single", "app.jobs.attempt", *self.modules])
        self.queue.wake = self._poller.wake
        self._turned_at = monotonic()
        self._poller.start()

    def stop(self) -> None:
        """End the thread; its jobs are killed and go back to the queue. Takes at most a few
        seconds.

        Where the database cannot be reached their leases expire instead.
        """
        self._poller.stop()
        self._turned_at = -math.inf
        for attempt in self._running:
            attempt.stop(RELEASED)
        until = monotonic() + _STOP_SECONDS
        for attempt in self._running:
            attempt.join(max(until - monotonic(), 0.0))
        self._running.clear()

    def _turn(self) -> None:
        """Recover the jobs of dead workers, if that is due, and claim jobs."""
        self._running = [
            attempt for attempt in self._running if not attempt.over.is_set()
        ]
        with suppress(Unavailable):  # the database has logged it
            if monotonic() >= self._recover_at:
                for job in self.queue.recover_from_dead_workers():
                    log.warning(
                        "the worker of a job stopped responding",
                        status=job.status,
                        **job.named,
                    )
                    self._notify(job)
                self._recover_at = monotonic() + self.queue.lease_seconds / 4
            self._claim()
            self._turned_at = monotonic()

    def _claim(self) -> None:
        """Claim jobs until all slots are in use or no job is queued."""
        while len(self._running) < self.slots:
            trusted_until = monotonic() + self.queue.lease_seconds
            job = self.queue.claim(self.name)
            if job is None:
                return
            log.info("job begins", kind=job.kind, model=job.model, **job.named)
            self._notify(job)
            rest_seconds = self.rest_seconds * 2 ** min(job.outages, 10)
            attempt = Attempt(
                self.queue,
                job,
                self.target,
                self.argument,
                self.limits,
                trusted_until=trusted_until,
                notify=self._notify,
                on_end=self._poller.wake,
                rest_seconds=min(rest_seconds, _LONGEST_REST_SECONDS),
            )
            attempt.start()
            self._running.append(attempt)

    def _notify(self, job: Job) -> None:
        for listener in self.listeners:
            try:
                listener(job)
            except Exception:  # it must not stop the work
                log.exception("a listener failed", job=job.id)
