"""The loop that claims jobs and sees each one through: in a thread of the service, or as a program of its own."""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

import structlog

from app.jobs.child import Target
from app.jobs.job import Event, Job, Status
from app.jobs.process import Ending, Execution, JobLimits, Stop, preload
from app.jobs.queue import Beat, Queue
from app.jobs.retention import forget
from app.jobs.watcher import Watcher

Cleanup = Callable[[Any, Job], None]

_IDLE_SECONDS = 0.25
_BUSY_SECONDS = 0.1
_BEAT_SECONDS = 0.5  # cancelling a job of another process takes this long to be seen
_MOST_BACKOFF_SECONDS = 2.0
_STOP_SECONDS = 3.0
_LONGEST_REST_SECONDS = 30.0

log = structlog.get_logger(__name__)


class Worker:
    """Runs jobs of a queue, up to `slots` at once.

    `target(argument, job, report)` does the work in a process of its own and finishes the job itself, with
    `Queue.succeed` in the transaction that publishes its result. `cleanup(argument, job)` removes what an attempt that
    did not succeed may have left; it is called while no process works on the job. Both the target and the argument
    are pickled; `modules` are imported once, in the fork server that all jobs start from. Jobs that ended
    longer ago than `keep_seconds` are forgotten, some at a time.

    A target that raises Unavailable (or whose database does not answer) is tried again: its slot rests before, first
    for `rest_seconds`, then twice as long each time, at most half a minute. Who waits for a part of the service keeps
    the next job from running into the same gap.
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
        cleanup: Cleanup | None = None,
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
        self._cleanup = cleanup
        self._rest_seconds = rest_seconds
        self._keep_seconds = keep_seconds
        self.watchers: list[Watcher] = []
        self._running: list[Execution] = []
        self._housekeeping_at = 0.0
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._looping = False
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        return self._looping

    def wake(self) -> None:
        """Look for work at once."""
        self._awake.set()

    def start(self) -> None:
        """Run in a thread."""
        self._stopping.clear()
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
        self._looping = True
        backoff = 0.0
        try:
            while not stop.is_set():
                backoff = self._turn(backoff)
                self._awake.wait(backoff or (_BUSY_SECONDS if self._running else _IDLE_SECONDS))
                self._awake.clear()
        finally:
            self._looping = False
            self._queue.listeners.remove(self.wake)
            self._leave()

    def _turn(self, backoff: float) -> float:
        """Do what is due; returns how long to hold off after a failure, 0 when all went well."""
        try:
            for execution in list(self._running):
                self._tend(execution)
            if monotonic() >= self._housekeeping_at:
                self._keep_house()
            while len(self._running) < self._slots and self._begin():
                pass
        except Exception:
            log.exception("worker failed, trying again", worker=self.name)
            return min(2 * backoff + 0.1, _MOST_BACKOFF_SECONDS)
        return 0.0

    def _begin(self) -> bool:
        trusted_until = monotonic() + self._queue.lease_seconds
        job = self._queue.claim(self.name)
        if job is None:
            return False
        _log_of(job).info("job begins", kind=job.kind, model=job.model)
        for watcher in self.watchers:
            watcher.begun(job)
        if job.attempt > 1:
            self._clean(job)  # a worker that died has left things as they were
        execution = Execution(
            job,
            self._target,
            self._argument,
            self._limits,
            rest=min(self._rest_seconds * 2**job.outages, _LONGEST_REST_SECONDS),
            trusted_until=trusted_until,
            on_end=self.wake,
        )
        self._running.append(execution)
        return True

    def _tend(self, execution: Execution) -> None:
        if execution.ending is not None and not execution.rests:
            self._settle(execution, execution.ending)
            self._running.remove(execution)
        elif monotonic() >= execution.beat_at:
            trusted_until = monotonic() + self._queue.lease_seconds
            match self._queue.beat(execution.job, execution.fraction, execution.stage):
                case Beat.GO_ON:
                    execution.trust(trusted_until)
                case Beat.CANCEL:
                    execution.stop(Stop.CANCELLED)
                case Beat.LOST:
                    execution.stop(Stop.LOST)
            execution.beat_at = monotonic() + min(_BEAT_SECONDS, self._queue.lease_seconds / 4)

    def _settle(self, execution: Execution, ending: Ending) -> None:
        """Say how the attempt ended, unless it finished the job itself or the job is another worker's by now.

        With the process dead and the lease renewed nobody can finish the job during the clean-up.
        """
        job = execution.job
        if self._queue.beat(job, execution.fraction, execution.stage) is Beat.LOST:
            now = self._queue.get(job.id)
            _log_of(job).info("job ended", status=now.status)
            if now.status is Status.SUCCEEDED and now.attempt == job.attempt:  # else who took it away tells
                self._tell(now)
            return
        detail = ending.problem.detail if ending.problem else ending.reason
        _log_of(job).warning("attempt ended", then=ending.event, why=detail, trace=ending.trace)
        self._clean(self._queue.get(job.id))  # with the notes of this attempt
        if ending.problem is not None:
            self._queue.fail(job, ending.problem)
        elif ending.event is Event.STOP:
            self._queue.cancelled(job)
        elif ending.outage:
            self._queue.postpone(job, ending.reason)
        else:
            self._queue.retry(job, ending.reason, died=ending.died)
        self._tell(self._queue.get(job.id))

    def _tell(self, job: Job) -> None:
        for watcher in self.watchers:
            (watcher.ended if job.ended else watcher.put_back)(job)

    def _keep_house(self) -> None:
        """Say that this worker is there, and take jobs from those that are not any more."""
        self._queue.check_in(self.name)
        for job in self._queue.reap():
            _log_of(job).warning("job's worker fell silent", status=job.status)
            self._tell(job)
            if job.ended:
                self._clean(job)
        if self._keep_seconds < math.inf and (forgotten := forget(self._queue.database, self._keep_seconds)):
            log.info("jobs of long ago are forgotten", jobs=forgotten)
        self._housekeeping_at = monotonic() + self._queue.lease_seconds / 4

    def _clean(self, job: Job) -> None:
        if self._cleanup is None:
            return
        try:
            self._cleanup(self._argument, job)
        except Exception as error:  # noqa: BLE001 - whatever it is: the job's end does not hang on it
            _log_of(job).error("clean-up failed", exc_info=error)

    def _leave(self) -> None:
        """Kill what runs and give it back; where the database cannot be reached the leases run out instead."""
        for execution in self._running:
            execution.stop(Stop.RELEASED)
        for execution in self._running:
            execution.join(_STOP_SECONDS)
        try:
            for execution in list(self._running):
                self._tend(execution)
            self._queue.check_out(self.name)
        except Exception:
            log.exception("worker could not give back its jobs", worker=self.name)
        self._running.clear()


def _log_of(job: Job) -> Any:
    """A log whose lines tell the attempt, and the request that ordered the job."""
    request_id = job.origin.get("request_id")
    known = {} if request_id is None else {"request_id": request_id}
    return log.bind(job=job.id, attempt=job.attempt, **known)
