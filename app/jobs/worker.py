"""The loop that claims jobs and sees each one through: in a thread of the service, or as a program of its own."""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any

import structlog

from app.errors import Unavailable
from app.jobs.attempt import Attempt, JobLimits, Target
from app.jobs.job import RELEASED, Job
from app.jobs.queue import Queue
from app.processes import preload

_IDLE_SECONDS = 0.5  # between two looks for jobs that other processes queued; those of this one wake it
_BUSY_SECONDS = 0.1
_MAX_BACKOFF_SECONDS = 2.0
_STOP_SECONDS = 5.0
_LONGEST_REST_SECONDS = 30.0
_ALIVE_SECONDS = 30.0  # a turn takes milliseconds, and waits for a busy SQLite file at most half of this

log = structlog.get_logger(__name__)


class Worker:
    """Runs jobs of a queue, up to `slots` at once.

    `target(argument, job)` does the work in a process of its own and finishes the job itself, with
    `Queue.succeed` in the transaction that publishes its result. Both the target and the argument are pickled;
    `modules` are imported once, in the fork server that all jobs start from. `listeners` hear of each job that begins
    (it is running), ends, or waits for another attempt (it is queued); they are called in the worker's threads, so they
    return at once.

    A target that raises Unavailable (or whose database does not answer) is tried again: its slot rests before, first
    for `rest_seconds`, then twice as long each time, at most half a minute. Meanwhile no other job of the slot meets
    the same outage.
    """

    def __init__(
        self,
        queue: Queue,
        target: Target,
        argument: Any,
        *,
        slots: int = 1,
        limits: JobLimits | None = None,
        modules: Iterable[str] = (),
        rest_seconds: float = 1.0,
    ) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.listeners: list[Callable[[Job], None]] = []
        self._queue = queue
        self._target = target
        self._argument = argument
        self._slots = slots
        self._limits = limits or JobLimits()
        self._modules = tuple(modules)
        self._rest_seconds = rest_seconds
        self._running: list[Attempt] = []
        self._check_in_at = 0.0
        self._turned_at = -math.inf
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str:
        """Why it is not alive, as a clause; empty while the loop runs and one of its turns went well recently."""
        alive = self.turn_age < max(_ALIVE_SECONDS, 3 * self._queue.lease_seconds)
        return "" if alive else "the worker's loop fails, hangs or has ended"

    @property
    def turn_age(self) -> float:
        """Seconds since the loop's start or its last turn that went well; infinite while it does not run."""
        return monotonic() - self._turned_at

    def wake(self) -> None:
        """Look for work at once."""
        self._awake.set()

    def start(self) -> None:
        """Run in a thread."""
        self._stopping.clear()
        self._turned_at = monotonic()
        self._thread = threading.Thread(target=self.run, args=(self._stopping,), name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; its jobs are killed and go back to the queue. Takes at most a few seconds."""
        self._stopping.set()
        self.wake()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; whatever goes wrong meanwhile is logged and tried again."""
        preload(["app.jobs.single", "app.jobs.attempt", *self._modules])
        self._queue.listeners.append(self.wake)
        self._turned_at = monotonic()
        backoff = 0.0
        try:
            while not stop.is_set():
                backoff = 0.0 if self._turn() else min(2 * backoff + 0.1, _MAX_BACKOFF_SECONDS)
                self._awake.wait(backoff or (_BUSY_SECONDS if self._running else _IDLE_SECONDS))
                self._awake.clear()
        finally:
            self._turned_at = -math.inf
            self._queue.listeners.remove(self.wake)
            self._leave()

    def _turn(self) -> bool:
        """Do what is due; whether all went well.

        A worker checks in after all else went well: one that does nothing useful is not counted.
        """
        self._running = [attempt for attempt in self._running if not attempt.over]
        due = monotonic() >= self._check_in_at
        try:
            for job in self._queue.recover_lost() if due else ():
                log.warning("the worker of a job stopped responding", status=job.status, **job.named)
                self._tell(job)
            self._claim()
            if due:
                self._queue.check_in(self.name)
                self._check_in_at = monotonic() + self._queue.lease_seconds / 4
        except Exception:
            with suppress(Exception):  # a line that cannot be written ends no loop
                log.exception("worker failed, trying again", worker=self.name)
            return False
        self._turned_at = monotonic()
        return True

    def _claim(self) -> None:
        """Claim jobs until all slots are in use or no job is queued."""
        while len(self._running) < self._slots:
            trusted_until = monotonic() + self._queue.lease_seconds
            job = self._queue.claim(self.name)
            if job is None:
                return
            log.info("job begins", kind=job.kind, model=job.model, **job.named)
            self._tell(job)
            attempt = Attempt(
                self._queue,
                job,
                self._target,
                self._argument,
                self._limits,
                trusted_until=trusted_until,
                tell=self._tell,
                on_end=self.wake,
                rest=min(self._rest_seconds * 2 ** min(job.outages, 10), _LONGEST_REST_SECONDS),
            )
            attempt.start()
            self._running.append(attempt)

    def _tell(self, job: Job) -> None:
        for listener in self.listeners:
            try:
                listener(job)
            except Exception:  # it must not stop the work
                log.exception("a listener failed", job=job.id)

    def _leave(self) -> None:
        """Kill what runs and give it back; where the database cannot be reached the leases run out instead."""
        for attempt in self._running:
            attempt.stop(RELEASED)
        until = monotonic() + _STOP_SECONDS
        for attempt in self._running:
            attempt.join(max(until - monotonic(), 0.0))
        self._running.clear()
        with suppress(Unavailable):  # its line goes with those of workers that fell silent
            self._queue.check_out(self.name)
