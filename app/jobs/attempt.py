"""One attempt at a job, from its claim until its end is stored, in threads of its own.

Nothing that an attempt waits for (its process, the row of its job) holds up another attempt or the worker's loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError

from app.errors import NotFound, Unavailable
from app.jobs.child import Cause
from app.jobs.job import Event, Job, Status
from app.jobs.process import CANCELLED, LOST, Ending, Execution
from app.jobs.queue import Beat, Queue

_BEAT_SECONDS = 0.5  # cancelling a job of another process takes this long to be seen
_RETRY_SECONDS = 0.5

log = structlog.get_logger(__name__)


class Attempt:
    """Runs `execution`, renews the lease meanwhile, and stores how it ended.

    `tell` receives the job as it is after the attempt, `on_end` is called last. After an outage the job is held for
    `rest` seconds.
    """

    def __init__(
        self,
        queue: Queue,
        execution: Execution,
        *,
        tell: Callable[[Job], None],
        on_end: Callable[[], None],
        rest: float,
    ) -> None:
        self.job = execution.job
        self._queue = queue
        self._execution = execution
        self._tell = tell
        self._on_end = on_end
        self._rest = rest
        self._over = threading.Event()
        self._stopped = threading.Event()
        self._abandoned = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"{self.job.id} {name}", daemon=True)
            for name, work in (("work", self._run), ("lease", self._renew))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def stop(self, ending: Ending) -> None:
        self._execution.stop(ending)
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Wait for the end, at most so long; after that nothing is tried again and the lease runs out."""
        self._over.wait(seconds)
        self._abandoned.set()

    def _run(self) -> None:
        try:
            ending = self._execution.run()
            if ending.cause is Cause.OUTAGE and not self._execution.stopped:
                self._execution.stage = f"waiting to be tried again: {ending.problem.detail}"
                self._stopped.wait(self._rest)
            self._store(ending)
        finally:
            self._over.set()
            self._on_end()

    def _renew(self) -> None:
        """Renew the lease until the attempt is over; where that cannot be done its process ends with the lease."""
        lease = self._queue.lease_seconds
        while not self._over.wait(min(_BEAT_SECONDS, lease / 4)):
            trusted_until = monotonic() + lease
            try:
                answer = self._queue.beat(self.job, self._execution.fraction, self._execution.stage)
            except Exception as error:  # noqa: BLE001 - whatever it is, other attempts go on
                log_of(self.job).warning("lease not renewed", error=type(error).__name__)
                continue
            match answer:
                case Beat.GO_ON:
                    self._execution.trust(trusted_until)
                case Beat.CANCEL:
                    self.stop(CANCELLED)
                case Beat.LOST:
                    self.stop(LOST)

    def _store(self, ending: Ending) -> None:
        """Store how the attempt ended, as often as it takes while the database is unavailable.

        What cannot be stored for another reason is left to the lease: it runs out, and that counts as a death.
        """
        while True:
            try:
                self._settle(ending)
            except (Unavailable, OperationalError, InterfaceError) as error:
                log_of(self.job).warning("the end of an attempt is not stored yet", error=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - whatever it is, other attempts go on
                log_of(self.job).error("the end of an attempt could not be stored", exc_info=error)
                return
            else:
                return
            if self._abandoned.wait(_RETRY_SECONDS):
                return

    def _settle(self, ending: Ending) -> None:
        """Store the end, unless the process finished the job itself or the job is another worker's by now."""
        job, reason = self.job, ending.problem.detail
        if ending.event is Event.FAIL:
            now = self._queue.fail(job, ending.problem)
        elif ending.event is Event.STOP:
            now = self._queue.cancelled(job)
        elif ending.cause is Cause.OUTAGE:
            now = self._queue.postpone(job, reason)
        else:
            now = self._queue.retry(job, reason, died=ending.cause is Cause.DEATH)
        if now is not None:
            log_of(job).warning("attempt ended", then=ending.event, why=reason, trace=ending.trace)
            self._tell(now)
            return
        try:
            now = self._queue.get(job.id)
        except NotFound:
            log_of(job).warning("the job no longer exists")
            return
        log_of(job).info("job ended", status=now.status)
        if now.status is Status.SUCCEEDED and now.attempt == job.attempt:
            self._tell(now)  # else the worker that took the job away does


def log_of(job: Job) -> Any:
    """A log whose lines name the attempt, and the request that ordered the job."""
    request_id = job.origin.get("request_id")
    known = {} if request_id is None else {"request_id": request_id}
    return log.bind(job=job.id, attempt=job.attempt, **known)
