"""One attempt at a job, from its claim until its end is stored: its process and its lease, each
watched by a thread.

`main` is what runs in the process.

Nothing that an attempt waits for (its process, the row of its job) holds up another attempt or the
worker's loop.
"""

import contextlib
import json
import math
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from time import monotonic
from typing import Any

import psutil
import structlog

from app.errors import NotFound, Unavailable, trace_of
from app.jobs.job import NOT_RENEWED, Died, Ending, Event, Failure, Job, Status
from app.jobs.processes import cap_threads, end_with, started
from app.jobs.queue import Queue
from payoff.errors import PayoffError
from payoff.progress import listen

Target = Callable[[Any, Job], None]

_BEAT_SECONDS = 0.5  # cancelling a job of another process takes this long to be seen
_RETRY_SECONDS = 0.5
_TICK_SECONDS = 0.2
_GRACE_SECONDS = 0.5  # between SIGTERM and SIGKILL
_NICENESS = 19  # requests go before training
_REPORT_SECONDS = 0.05  # between two messages of one stage

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JobLimits:
    """Maxima of one job: wall time, resident memory of all its processes, threads of the
    numerical libraries.
    """

    seconds: float = math.inf
    memory_bytes: float = math.inf
    threads: int = 1


@dataclass(eq=False)
class Attempt:
    """Runs `target(argument, job)` in a process, renews the lease meanwhile, and stores how it
    ended.

    The lease is `trusted_until` a moment of the monotonic clock; after it the process is killed.
    `notify` receives the job as it is after the attempt, `on_end` is called last. After an outage
    the job is held for `rest_seconds`.
    """

    queue: Queue
    job: Job
    target: Target
    argument: Any
    limits: JobLimits
    trusted_until: float
    notify: Callable[[Job], None]
    on_end: Callable[[], None]
    rest_seconds: float

    def __post_init__(self) -> None:
        self.log = log.bind(**self.job.named)
        self._fraction = 0.0
        self._stage = self.job.stage
        self._failure: Ending | None = None  # that the process reported
        self._stop: Ending | None = None
        self._stopped = threading.Event()
        self.over = threading.Event()
        self._abandoned = threading.Event()

    def start(self) -> None:
        for name, work in (("work", self._run), ("lease", self._renew)):
            threading.Thread(
                target=work, name=f"{self.job.id} {name}", daemon=True
            ).start()

    def stop(self, ending: Ending) -> None:
        """Have the process ended; the first call decides how the job goes on."""
        self._stop = self._stop or ending
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Wait at most so many `seconds` for the end; after that no write is repeated and the lease
        expires.
        """
        self.over.wait(seconds)
        self._abandoned.set()

    def _run(self) -> None:
        try:
            ending = self._ending()
            if ending.event is Event.MISS and self._stop is None:
                self._stage = f"waiting to be tried again: {ending.failure.detail}"
                self._stopped.wait(self.rest_seconds)
            self._store(ending)
        finally:
            self.over.set()
            self.on_end()

    # The process

    def _ending(self) -> Ending:
        """Start the process, unless it was stopped already, and wait for its end; never raises."""
        if self._stop is not None:
            return self._stop
        try:
            with started(
                main, self.target, self.argument, self.job, self.limits.threads
            ) as (
                process,
                reader,
            ):
                self._supervise(process, reader)
        except Exception as error:
            self.log.exception("the process of a job could not be run")
            return Ending(
                Event.DIE,
                Failure(f"its process could not be run ({type(error).__name__})"),
            )
        return self._failure or self._stop or _ending_of(process.exitcode)

    def _supervise(self, process: ForkServerProcess, reader: Connection) -> None:
        """Listen to the process, and stop it where needed, until it and its group have ended."""
        pid = process.pid
        assert pid is not None  # it was started
        deadline = monotonic() + self.limits.seconds
        kill_at = math.inf
        while not connection.wait([process.sentinel], _TICK_SECONDS):
            self._receive(reader)
            excess = self._excess(pid, deadline) if self._stop is None else None
            # Another thread may have stopped the process meanwhile: its ending stays.
            if excess is not None:
                self.stop(excess)
            if self._stop and kill_at == math.inf:
                kill_at = monotonic() + _GRACE_SECONDS
                _signal(pid, signal.SIGTERM)
            elif monotonic() >= kill_at:
                _signal(pid, signal.SIGKILL)
        self._receive(reader)
        # Kill the rest of the group; its leader runs only if the fork server died before it.
        _signal(pid, signal.SIGKILL)

    def _receive(self, reader: Connection) -> None:
        """Read the messages since the last call; the latest report counts."""
        with contextlib.suppress(EOFError, OSError):  # the other end is closed
            while reader.poll(0):
                message = json.loads(reader.recv_bytes())
                if "failure" in message:
                    self._failure = Ending(
                        Event(message["event"]),
                        Failure(**message["failure"]),
                        message["trace"],
                    )
                else:
                    self._fraction = message["fraction"]
                    self._stage = message["stage"]

    def _excess(self, pid: int, deadline: float) -> Ending | None:
        limits = self.limits
        if monotonic() > self.trusted_until:
            return NOT_RENEWED
        if monotonic() > deadline:
            return Ending(
                Event.FAIL,
                Failure(f"it took longer than the {limits.seconds:g} s allowed"),
            )
        if limits.memory_bytes < math.inf and _resident(pid) > limits.memory_bytes:
            return Ending(
                Event.FAIL,
                Failure(
                    f"it used more memory than the {limits.memory_bytes / 2**20:.0f} MB allowed"
                ),
            )
        return None

    # The row of the job

    def _renew(self) -> None:
        """Renew the lease until the attempt is over; if that fails, the process ends with the
        lease.
        """
        lease = self.queue.lease_seconds
        while not self.over.wait(min(_BEAT_SECONDS, lease / 4)):
            trusted_until = monotonic() + lease
            try:
                ending = self.queue.beat(self.job, self._fraction, self._stage)
            except Exception as error:  # the next beat may succeed
                self.log.warning(
                    "lease not renewed",
                    error=type(error).__name__,
                    exc_info=not isinstance(error, Unavailable),
                )
                continue
            if ending is None:
                self.trusted_until = trusted_until
            else:
                self.stop(ending)

    def _store(self, ending: Ending) -> None:
        """Store how the attempt ended, and try again while the database is unavailable.

        After another error the lease expires, which counts as a death.
        """
        while True:
            try:
                self._settle(ending)
            except Unavailable as error:
                self.log.warning(
                    "the end of an attempt is not stored yet",
                    error=type(error).__name__,
                )
            except Exception:  # other attempts go on
                self.log.exception("the end of an attempt could not be stored")
                return
            else:
                return
            if self._abandoned.wait(_RETRY_SECONDS):
                return

    def _settle(self, ending: Ending) -> None:
        """Store the end, unless the process finished the job itself or the job is another worker's
        by now.
        """
        job = self.job
        job_after = self.queue.end(job, ending)
        if job_after is not None:
            self.log.warning(
                "attempt ended",
                then=ending.event,
                why=ending.failure.detail,
                trace=ending.trace,
            )
            self.notify(job_after)
            return
        try:
            job_after = self.queue.get(job.id)
        except NotFound:
            self.log.warning("the job no longer exists")
            return
        self.log.info("job ended", status=job_after.status)
        if job_after.status is Status.SUCCEEDED and job_after.attempt == job.attempt:
            self.notify(job_after)  # otherwise the worker that took the job over does


def _ending_of(code: int | None) -> Ending:
    """The ending by the exit code of a process that reported no failure and was not stopped."""
    assert code is not None  # it was joined
    if code == 0:
        return Ending(Event.FAIL, Failure("its work ended without a result"))
    reason = f"its process ended unexpectedly with exit code {code}"
    if code < 0:
        hint = (
            " (perhaps it needed more memory than there is)"
            if -code == signal.SIGKILL
            else ""
        )
        reason = f"its process was killed by signal {-code}{hint}"
    return Ending(Event.DIE, Failure(reason))


def _signal(pid: int, number: signal.Signals) -> None:
    """Signal the job's process group, or the process alone while it has not made its group yet."""
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except ProcessLookupError:
            continue
        return


def _resident(pid: int) -> int:
    """Bytes of resident memory of the process and its descendants."""
    total = 0
    try:
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            total += member.memory_info().rss
    except psutil.Error:  # one of them ended meanwhile
        pass
    return total


# In the process


def main(
    target: Target,
    argument: Any,
    job: Job,
    threads: int,
    attempt_end: Connection,
    pipe: Connection,
) -> None:
    """Run `target(argument, job)`; its error is reported to its `Attempt`."""
    end_with(attempt_end)
    os.nice(_NICENESS)
    cap_threads(threads)
    reporter = Reporter(pipe)
    try:
        with listen(reporter.report):
            target(argument, job)
    except Exception as error:  # noqa: BLE001 - the attempt logs it; this process has no log
        reporter.report_failure(error)


class Reporter:
    """The job's side of the pipe to its `Attempt`; one JSON object per message."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._stage = ""
        self._silent_until = 0.0
        os.set_blocking(pipe.fileno(), False)

    def report(self, fraction: float, stage: str) -> None:
        """Send the progress of the job, at most once in `_REPORT_SECONDS` for a stage; never waits,
        as a full pipe drops the message.
        """
        moment = monotonic()
        if stage == self._stage and moment < self._silent_until:
            return
        self._stage = stage
        self._silent_until = moment + _REPORT_SECONDS
        with contextlib.suppress(
            BlockingIOError
        ):  # short enough to be written whole or not at all
            self._send({"fraction": fraction, "stage": stage[:200]})

    def report_failure(self, error: Exception) -> None:
        """Send why the job failed; or why it has to wait: an outage, not an error of the job."""
        os.set_blocking(self._pipe.fileno(), True)
        expected = isinstance(error, PayoffError)
        trace = "" if expected else trace_of(error)
        event = Event.FAIL
        if isinstance(error, Unavailable):
            event = Event.MISS
        elif isinstance(error, Died):
            event = Event.DIE
        self._send(
            {"event": event, "failure": asdict(Failure.of(error)), "trace": trace}
        )

    def _send(self, message: dict[str, Any]) -> None:
        self._pipe.send_bytes(json.dumps(message).encode())
