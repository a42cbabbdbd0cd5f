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

from app.jobs.attempt import Attempt, log_of
from app.jobs.child import Target
from app.jobs.job import Job
from app.jobs.process import Execution, JobLimits, Stop, preload
from app.jobs.queue import Queue
from app.jobs.retention import expire
from app.jobs.watcher import Watcher

CleanUp = Callable[[Any, Job, int], None]
CleanUpLeftovers = Callable[[Any], None]

_IDLE_SECONDS = 0.5  # between two looks for jobs that other processes queued; those of this one wake it
_BUSY_SECONDS = 0.1
_MAX_BACKOFF_SECONDS = 2.0
_STOP_SECONDS = 5.0
_LONGEST_REST_SECONDS = 30.0
_LEFTOVERS_SECONDS = 600.0
_ALIVE_SECONDS = 30.0  # a turn takes milliseconds, and waits for a busy SQLite file at most half of this

log = structlog.get_logger(__name__)


class Worker:
    """Runs jobs of a queue, up to `slots` at once.

    `target(argument, job, report)` does the work in a process of its own and finishes the job itself, with
    `Queue.succeed` in the transaction that publishes its result. `clean_up(argument, job, through)` removes what the
    attempts up to the number `through` left, all of which are over and did not succeed. `clean_up_leftovers(argument)`
    is called every ten minutes, for what clean-ups that failed have left. Both the target and the argument are pickled;
    `modules` are imported once, in the fork server that all jobs start from. Jobs that ended longer ago than
    `keep_seconds` are deleted, some at a time.

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
        name: str = "",
        modules: Iterable[str] = (),
        clean_up: CleanUp | None = None,
        clean_up_leftovers: CleanUpLeftovers | None = None,
        rest_seconds: float = 1.0,
        keep_seconds: float = math.inf,
    ) -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._queue = queue
        self._target = target
        self._argument = argument
        self._slots = slots
        self._limits = limits or JobLimits()
        self._modules = tuple(modules)
        self._clean_up = clean_up
        self._clean_up_leftovers = clean_up_leftovers
        self._rest_seconds = rest_seconds
        self._keep_seconds = keep_seconds
        self.watchers: list[Watcher] = []
        self._running: list[Attempt] = []
        self._check_in_at = 0.0
        self._leftovers_at = 0.0
        self._leftovers_thread: threading.Thread | None = None
        self._turned_at = 0.0
        self._failed = ""
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._looping = False
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str:
        """Why it is not alive, as a clause; empty while the loop runs and one of its turns went well recently."""
        if not self._looping:
            return "the worker's loop has ended"
        if self.turn_age < max(_ALIVE_SECONDS, 3 * self._queue.lease_seconds):
            return ""
        return f"the worker's loop fails at {self._failed}" if self._failed else "the worker's loop hangs"

    @property
    def turn_age(self) -> float:
        """Seconds since the last turn of the loop that went well, or since the start."""
        return monotonic() - self._turned_at

    def wake(self) -> None:
        """Look for work at once."""
        self._awake.set()

    def start(self) -> None:
        """Run in a thread."""
        self._stopping.clear()
        self._turned_at, self._looping = monotonic(), True
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
        preload(self._modules)
        self._queue.listeners.append(self.wake)
        self._turned_at, self._looping = monotonic(), True
        backoff = 0.0
        try:
            while not stop.is_set():
                backoff = 0.0 if self._turn() else min(2 * backoff + 0.1, _MAX_BACKOFF_SECONDS)
                self._awake.wait(backoff or (_BUSY_SECONDS if self._running else _IDLE_SECONDS))
                self._awake.clear()
        finally:
            self._looping = False
            self._queue.listeners.remove(self.wake)
            self._leave()

    def _turn(self) -> bool:
        """Do what is due, each part by itself, so that one that fails holds up no other; whether all went well.

        A worker checks in only after all else went well: one that does nothing useful is not counted.
        """
        self._running = [attempt for attempt in self._running if not attempt.over]
        due = monotonic() >= self._check_in_at
        well = not due or self._try(self._recover_lost)
        well = self._try(self._claim) and well
        if due and well and (well := self._try(self._check_in)):
            self._check_in_at = monotonic() + self._queue.lease_seconds / 4
            self._try(self._expire)
        if monotonic() >= self._leftovers_at:
            self._try(self._begin_leftovers)
        if well:
            self._turned_at, self._failed = monotonic(), ""
        return well

    def _try(self, part: Callable[[], None]) -> bool:
        try:
            part()
        except Exception:
            self._failed = part.__name__.lstrip("_")
            with suppress(Exception):  # a line that cannot be written ends no loop
                log.exception("worker failed, trying again", worker=self.name, part=self._failed)
            return False
        return True

    def _claim(self) -> None:
        """Claim jobs until all slots are in use or no job is queued."""
        while len(self._running) < self._slots and self._begin():
            pass

    def _begin(self) -> bool:
        trusted_until = monotonic() + self._queue.lease_seconds
        job = self._queue.claim(self.name)
        if job is None:
            return False
        log_of(job).info("job begins", kind=job.kind, model=job.model)
        self._tell(job, "begun")
        attempt = Attempt(
            self._queue,
            Execution(job, self._target, self._argument, self._limits, trusted_until=trusted_until),
            clean_up=self._clean_up_after,
            tell=self._tell,
            on_end=self.wake,
            rest=min(self._rest_seconds * 2 ** min(job.outages, 10), _LONGEST_REST_SECONDS),
        )
        try:
            attempt.start()
        except RuntimeError:  # this process has as many threads as it may
            self._queue.retry(job, "its worker could not start a thread")
            raise
        self._running.append(attempt)
        return True

    def _tell(self, job: Job, what: str = "") -> None:
        for watcher in self.watchers:
            try:
                getattr(watcher, what or ("ended" if job.ended else "put_back"))(job)
            except Exception as error:  # noqa: BLE001 - a watcher must not stop the work
                log_of(job).error("a watcher failed", exc_info=error)

    def _recover_lost(self) -> None:
        """Take jobs from workers that stopped responding."""
        lost = self._queue.recover_lost()
        for job in lost:
            log_of(job).warning("the worker of a job stopped responding", status=job.status)
            self._tell(job)
        if ended := [job for job in lost if job.ended]:
            threading.Thread(target=self._clean_up_each, args=(ended,), name="clean-up", daemon=True).start()

    def _clean_up_each(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._clean_up_after(job, job.attempt)

    def _expire(self) -> None:
        if self._keep_seconds < math.inf and (expired := expire(self._queue.database, self._keep_seconds)):
            log.info("expired jobs deleted", jobs=expired)

    def _check_in(self) -> None:
        self._queue.check_in(self.name)

    def _clean_up_after(self, job: Job, through: int) -> None:
        if self._clean_up is None:
            return
        try:
            self._clean_up(self._argument, job, through)
        except Exception as error:  # noqa: BLE001 - whatever it is: the job's end does not hang on it
            log_of(job).error("clean-up failed", exc_info=error)

    def _begin_leftovers(self) -> None:
        """Begin the clean-up of leftovers unless one still runs: a store that hangs must not hold up the loop."""
        self._leftovers_at = monotonic() + _LEFTOVERS_SECONDS
        running = self._leftovers_thread is not None and self._leftovers_thread.is_alive()
        if self._clean_up_leftovers is None or running:
            return
        self._leftovers_thread = threading.Thread(target=self._clean_up_leftovers_once, name="leftovers", daemon=True)
        self._leftovers_thread.start()

    def _clean_up_leftovers_once(self) -> None:
        assert self._clean_up_leftovers is not None  # it was asked before
        try:
            self._clean_up_leftovers(self._argument)
        except Exception as error:
            log.error("clean-up of leftovers failed", exc_info=error)  # noqa: TRY400 - not inside the loop

    def _leave(self) -> None:
        """Kill what runs and give it back; where the database cannot be reached the leases run out instead."""
        for attempt in self._running:
            attempt.stop(Stop.RELEASED)
        until = monotonic() + _STOP_SECONDS
        for attempt in self._running:
            attempt.join(max(until - monotonic(), 0.0))
        self._running.clear()
        try:
            self._queue.check_out(self.name)
        except Exception:
            log.exception("worker could not check out", worker=self.name)
