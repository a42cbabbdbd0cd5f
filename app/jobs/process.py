"""One attempt at a job, in a process of its own, seen from the supervisor. Nothing here knows the queue."""

from __future__ import annotations

import json
import math
import os
import signal
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from time import monotonic, sleep
from typing import Any

import psutil

from app import processes
from app.jobs import child
from app.jobs.child import Cause, Target
from app.jobs.job import Event, Job, Problem
from app.processes import CONTEXT, LOCK

_TICK_SECONDS = 0.2
_GRACE_SECONDS = 0.5  # between SIGTERM and SIGKILL
_MAX_MESSAGES = 10_000  # taken at once, so that no flood of reports holds up the rest


@dataclass(frozen=True)
class JobLimits:
    """What one job may use: wall time, resident memory of all its processes, threads of the numerical libraries."""

    seconds: float = math.inf
    memory_bytes: float = math.inf
    threads: int = 1


@dataclass(frozen=True)
class Ending:
    """How the job goes on after the end of its process, and why; a retry has a `cause`, unless it was stopped."""

    event: Event
    problem: Problem
    cause: Cause | None = None
    trace: str = ""


CANCELLED = Ending(Event.STOP, Problem("it was cancelled"))
RELEASED = Ending(Event.RETRY, Problem("its worker was stopped"))
LOST = Ending(Event.RETRY, Problem("its worker could not renew the lease in time"), Cause.OUTAGE)


def preload(modules: Iterable[str]) -> None:
    """Name what the fork server imports once for all jobs; it starts with the first job, so call this before."""
    processes.preload(["app.jobs.single", "app.jobs.child", *modules])


class Execution:
    """The process of one attempt; `run` watches it, and other threads may `trust` and `stop` meanwhile."""

    def __init__(self, job: Job, target: Target, argument: Any, limits: JobLimits, *, trusted_until: float) -> None:
        self.job = job
        self.fraction = 0.0
        self.stage = job.stage
        self.stopped: Ending | None = None
        self._work = (target, argument, job, limits.threads)
        self._limits = limits
        self._trusted_until = trusted_until
        self._failure: dict[str, Any] | None = None

    def trust(self, until: float) -> None:
        """The lease holds until this moment of the monotonic clock; beyond it the process is killed."""
        self._trusted_until = until

    def stop(self, ending: Ending) -> None:
        """Have the process ended; the first who asks says how the job goes on."""
        self.stopped = self.stopped or ending

    def run(self) -> Ending:
        """Start the process, unless it was stopped already, and see it through; never raises."""
        try:
            return self.stopped or self._conclude(self._watch())
        except Exception as error:  # noqa: BLE001 - the ending contains it, and the worker logs it
            problem = Problem(f"its process could not be run ({type(error).__name__})")
            return Ending(Event.RETRY, problem, Cause.DEATH, traceback.format_exc())

    def _watch(self) -> int:
        """Start the process and see it through; returns its exit code."""
        reader, writer = CONTEXT.Pipe(duplex=False)
        supervisor_end, kept_end = CONTEXT.Pipe(duplex=False)
        with reader, kept_end:
            with writer, supervisor_end:
                process = CONTEXT.Process(
                    target=child.main, args=(*self._work, supervisor_end, writer), name=self.job.id
                )
                with LOCK:
                    process.start()
            self._supervise(process, reader)
        with LOCK:
            process.join()
        assert process.exitcode is not None  # it was joined
        return process.exitcode

    def _supervise(self, process: ForkServerProcess, reader: connection.Connection) -> None:
        """Listen to the process, and stop it where needed, until neither it nor its group is there."""
        pid = process.pid
        assert pid is not None  # it was started
        deadline = monotonic() + self._limits.seconds
        kill_at = math.inf
        while not connection.wait([process.sentinel], _TICK_SECONDS):
            self._receive(reader)
            if self.stopped is None and (excess := self._excess(pid, deadline)):
                self.stop(excess)  # and never None: another thread may have stopped it while memory was measured
            if self.stopped and kill_at == math.inf:
                kill_at = monotonic() + _GRACE_SECONDS
                _signal(pid, signal.SIGTERM)
            elif monotonic() >= kill_at:
                _signal(pid, signal.SIGKILL)
        self._receive(reader)
        _clear(pid)

    def _receive(self, reader: connection.Connection) -> None:
        """Read the messages since the last call; the latest report counts."""
        for _ in range(_MAX_MESSAGES):
            try:
                if not reader.poll(0):
                    return
                message = json.loads(reader.recv_bytes())
            except (EOFError, OSError):  # the other end is closed
                return
            if "problem" in message:
                self._failure = message
            else:
                self.stage = str(message["stage"])
                if math.isfinite(fraction := float(message["fraction"])):
                    self.fraction = fraction

    def _excess(self, pid: int, deadline: float) -> Ending | None:
        limits = self._limits
        if monotonic() > self._trusted_until:
            return LOST
        if monotonic() > deadline:
            return Ending(Event.FAIL, Problem(f"it took longer than the {limits.seconds:g} s allowed"))
        if limits.memory_bytes < math.inf and _resident(pid) > limits.memory_bytes:
            return Ending(
                Event.FAIL, Problem(f"it used more memory than the {limits.memory_bytes / 2**20:.0f} MB allowed")
            )
        return None

    def _conclude(self, code: int) -> Ending:
        if self._failure is not None:
            problem, cause = Problem(**self._failure["problem"]), self._failure["cause"]
            event = Event.RETRY if cause else Event.FAIL
            return Ending(event, problem, Cause(cause) if cause else None, self._failure["trace"])
        if self.stopped is not None:
            return self.stopped
        if code == 0:
            return Ending(Event.FAIL, Problem("its work ended without a result"))
        reason = f"its process ended unexpectedly with exit code {code}"
        if code < 0:
            hint = " (perhaps it needed more memory than there is)" if -code == signal.SIGKILL else ""
            reason = f"its process was killed by signal {-code}{hint}"
        return Ending(Event.RETRY, Problem(reason), Cause.DEATH)


def _signal(pid: int, number: signal.Signals) -> None:
    """Signal the job's process group, or the process alone while it has not made its group yet."""
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except ProcessLookupError:
            continue
        return


def _clear(pid: int) -> None:
    """Kill what is left of the group; the leader itself is left only if the fork server died before it."""
    _signal(pid, signal.SIGKILL)
    for _ in range(100):
        if not psutil.pid_exists(pid):
            return
        sleep(0.01)


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
