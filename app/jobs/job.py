"""A job, its states, and the transitions between them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from app.errors import Conflict, NotFound, ServiceError, answer_to
from payoff.errors import PayoffError


class Status(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """An event in the life of a job."""

    CLAIM = "claim"
    SUCCEED = "succeed"
    FAIL = "fail"
    DIE = "die"  # with its process or machine
    MISS = "miss"  # a store or a database that the work needs cannot be reached
    RELEASE = "release"  # by a worker that stops
    CANCEL = "cancel"
    STOP = "stop"


TRANSITIONS: dict[tuple[Status, Event], Status] = {
    (Status.QUEUED, Event.CLAIM): Status.RUNNING,
    (Status.QUEUED, Event.CANCEL): Status.CANCELLED,
    # The request is only noted: the job's process has to end first, then comes STOP.
    (Status.RUNNING, Event.CANCEL): Status.RUNNING,
    (Status.RUNNING, Event.STOP): Status.CANCELLED,
    (Status.RUNNING, Event.SUCCEED): Status.SUCCEEDED,
    (Status.RUNNING, Event.FAIL): Status.FAILED,
    (Status.RUNNING, Event.DIE): Status.QUEUED,
    (Status.RUNNING, Event.MISS): Status.QUEUED,
    (Status.RUNNING, Event.RELEASE): Status.QUEUED,
}

ENDED = frozenset(Status) - {
    start for (start, _), end in TRANSITIONS.items() if start is not end
}


def after(status: Status, event: Event) -> Status:
    """The status that `event` leads to; Conflict where it cannot happen to a job in `status`."""
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise Conflict(f"{event} is not possible: the job is {status}") from None


class Died(ServiceError):
    """A process that worked for the job died"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A piece of work that was accepted, as the table has it at one moment.

    `attempt` counts how often it was begun, and is the fencing token: the process of an earlier
    attempt can no longer write. `deaths` and `outages` count the attempts that ended in DIE and in
    MISS. `client` is the id of the key that ordered it. Times are seconds since 1970 by the
    database's clock.
    """

    id: str
    kind: str
    spec: dict[str, Any]
    status: Status
    attempt: int
    deaths: int
    outages: int
    progress: float
    stage: str
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    notes: dict[str, Any]
    model: str | None
    dataset: str | None
    cancel_requested: bool
    created_at: float
    started_at: float | None
    finished_at: float | None
    seq: int
    client: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def requested(self) -> dict[str, Any] | None:
        """The fields of the request that the job's document shows; None where it shows none."""
        return self.notes.get("requested")

    @property
    def named(self) -> dict[str, Any]:
        """The fields of log lines that name this attempt, and the request that began the job."""
        request = (
            {"request_id": self.notes["request_id"]}
            if "request_id" in self.notes
            else {}
        )
        return {"job": self.id, "attempt": self.attempt, **request}


def unknown_job(job_id: str) -> NotFound:
    return NotFound(f"there is no job {job_id!r}")


@dataclass(frozen=True)
class Failure:
    """Why a job failed, for the client that submitted it, in the words of an answer with this
    status.
    """

    detail: str
    title: str = "The job failed"
    errors: tuple[dict[str, str], ...] = ()
    status: int = ServiceError.answer.status

    @classmethod
    def of(cls, error: Exception) -> Self:
        """The message of an error for callers; of any other error no more than its class name."""
        if isinstance(error, PayoffError):
            flaws = tuple({"loc": flaw.loc, "msg": flaw.msg} for flaw in error.flaws)
            status, title = answer_to(error)
            return cls(error.detail, title, flaws, status)
        return cls(
            f"an unexpected {type(error).__name__} ended the job; the service's log has the details"
        )


@dataclass(frozen=True)
class Ending:
    """The event that ends an attempt without success, and why."""

    event: Event
    failure: Failure
    trace: str = ""


CANCELLED = Ending(Event.STOP, Failure("it was cancelled"))
RELEASED = Ending(Event.RELEASE, Failure("its worker was stopped"))
NOT_RENEWED = Ending(
    Event.MISS, Failure("its worker could not renew the lease in time")
)
