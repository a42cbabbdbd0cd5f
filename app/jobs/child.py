"""What runs in a job's process."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from app.errors import PayoffError, Unavailable, trace_of
from app.jobs.job import Cause, Died, Job, Problem
from app.jobs.threads import cap_threads
from app.processes import end_with
from app.progress import listen

Target = Callable[[Any, Job], None]

_NICENESS = 19  # requests go before training
_REPORT_SECONDS = 0.05
_LONGEST_TRACE = 20_000


def main(target: Target, argument: Any, job: Job, threads: int, attempt_end: Connection, pipe: Connection) -> None:
    """Run `target(argument, job)`; what it raises is reported to its `Attempt`."""
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
        """Send how far the job is unless that was just done; never waits, a full pipe drops the message."""
        now = monotonic()
        if stage == self._stage and now < self._silent_until:
            return
        self._stage, self._silent_until = stage, now + _REPORT_SECONDS
        with contextlib.suppress(BlockingIOError):  # short enough to be written whole or not at all
            self._send({"fraction": fraction, "stage": stage[:200]})

    def report_failure(self, error: Exception) -> None:
        """Send why the job failed; or why it has to wait: an outage, not an error of the job."""
        os.set_blocking(self._pipe.fileno(), True)
        expected = isinstance(error, PayoffError)
        trace = "" if expected else trace_of(error)[-_LONGEST_TRACE:]
        cause = Cause.OUTAGE if isinstance(error, Unavailable) else Cause.DEATH if isinstance(error, Died) else None
        self._send({"problem": Problem.of(error).as_dict(), "trace": trace, "cause": cause})

    def _send(self, message: dict[str, Any]) -> None:
        self._pipe.send_bytes(json.dumps(message).encode())
