"""One attempt at a job, from its claim until its end is stored, in threads of its own.

Nothing that an attempt waits for (its process, the row of its job, the store of models) holds up another attempt or
the worker's loop.
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
from app.jobs.job import Event, Job, Problem, Status
from app.jobs.process import Ending, Execution, Stop
from app.jobs.queue import Beat, Queue

_BEAT_SECONDS = 0.5  # cancelling a job of another process takes this long to be seen
_MAX_FAILURES = 3  # of storing something, while the database answers
_RETRY_SECONDS = 0.5

log = structlog.get_logger(__name__)


class Attempt:
    """Runs `execution`, renews the lease meanwhile, and stores how it ended.

    `clean_up(job, through)` removes what the attempts up to the number `through` left. `tell` receives the job as it is
    after the attempt, `on_end` is called last. After an outage the job is held for `rest` seconds.
    """

    def __init__(
        self,
        queue: Queue,
        execution: Execution,
        *,
        clean_up: Callable[[Job, int], None],
        tell: Callable[[Job], None],
        on_end: Callable[[], None],
        rest: float,
    ) -> None:
        self.job = execution.job
        self._queue = queue
        self._execution = execution
        self._clean_up = clean_up
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

    def stop(self, why: Stop) -> None:
        self._execution.stop(why)
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Wait for the end, at most so long; after that nothing is tried again and the lease runs out."""
        self._over.wait(seconds)
        self._abandoned.set()

    def _run(self) -> None:
        try:
            if self.job.attempt > 1:
                self._clean_up(self.job, self.job.attempt - 1)  # a worker that died has left things as they were
            ending = self._execution.run()
            if ending.cause is Cause.OUTAGE and not self._execution.stopped:
                self._execution.stage = f"waiting to be tried again: {ending.reason}"
                self._stopped.wait(self._rest)
            self._store(ending)
        finally:
            self._over.set()
            self._on_end()

    def _renew(self) -> None:
        """Renew the lease until the attempt is over; one whose progress cannot be stored is stopped."""
        failures = 0
        lease = self._queue.lease_seconds
        while not self._over.wait(min(_BEAT_SECONDS, lease / 4)):
            trusted_until = monotonic() + lease
            try:
                answer = self._queue.beat(self.job, self._execution.fraction, self._execution.stage)
            except Exception as error:  # noqa: BLE001 - whatever it is, other attempts go on
                failures += not is_outage(error)
                log_of(self.job).warning("lease not renewed", error=type(error).__name__)
                if failures >= _MAX_FAILURES:
                    self.stop(Stop.UNRECORDED)
                continue
            failures = 0
            match answer:
                case Beat.GO_ON:
                    self._execution.trust(trusted_until)
                case Beat.CANCEL:
                    self.stop(Stop.CANCELLED)
                case Beat.LOST:
                    self.stop(Stop.LOST)

    def _store(self, ending: Ending) -> None:
        """Store how the attempt ended, as often as it takes while the database is unavailable."""
        failures = 0
        while failures < _MAX_FAILURES:
            try:
                self._settle(ending)
            except Exception as error:  # noqa: BLE001 - whatever it is, other attempts go on
                failures += not is_outage(error)
                log_of(self.job).error("the end of an attempt could not be stored", exc_info=error)
            else:
                return
            if self._abandoned.wait(_RETRY_SECONDS):
                return
        try:
            self._queue.fail(self.job, Problem("how the job ended could not be stored; see the log"))
        except Exception as error:  # noqa: BLE001 - the lease runs out, and that counts as a death
            log_of(self.job).error("the end of a job could not be stored", exc_info=error)

    def _settle(self, ending: Ending) -> None:
        """Store the end, unless the process finished the job itself or the job is another worker's by now.

        With the process dead and the lease renewed no other worker can finish the job during the clean-up.
        """
        job = self.job
        if self._queue.beat(job, self._execution.fraction, "") is Beat.LOST:
            self._leave()
            return
        detail = ending.problem.detail if ending.problem else ending.reason
        log_of(job).warning("attempt ended", then=ending.event, why=detail, trace=ending.trace)
        self._clean_up(self._queue.get(job.id), job.attempt)  # with the notes of this attempt
        if ending.problem is not None:
            self._queue.fail(job, ending.problem)
        elif ending.event is Event.STOP:
            self._queue.cancelled(job)
        elif ending.cause is Cause.OUTAGE:
            self._queue.postpone(job, ending.reason)
        else:
            self._queue.retry(job, ending.reason, died=ending.cause is Cause.DEATH)
        self._tell(self._queue.get(job.id))

    def _leave(self) -> None:
        """What remains to be done where the job is not this attempt's any more."""
        try:
            now = self._queue.get(self.job.id)
        except NotFound:
            log_of(self.job).warning("the job no longer exists")
            return
        log_of(self.job).info("job ended", status=now.status)
        if now.status is Status.SUCCEEDED and now.attempt == self.job.attempt:
            self._tell(now)  # else the worker that took the job away does
        else:
            self._clean_up(now, self.job.attempt)


def is_outage(error: Exception) -> bool:
    """Whether the database does not answer, as against refusing what was sent."""
    return isinstance(error, Unavailable | OperationalError | InterfaceError)


def log_of(job: Job) -> Any:
    """A log whose lines name the attempt, and the request that ordered the job."""
    request_id = job.origin.get("request_id")
    known = {} if request_id is None else {"request_id": request_id}
    return log.bind(job=job.id, attempt=job.attempt, **known)
