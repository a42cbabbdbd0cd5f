"""Problems of the service as exceptions, with the row and the column of the frame that was sent."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from payoff_client.showing import columns_text

MAX_FLAWS = 20  # of what the client finds itself
_MAX_SHOWN = 5  # flaws in the text of an exception
_MAX_COLUMNS = 40
_POSITION = re.compile(r"\d{1,15}", re.ASCII)
_LISTS = frozenset(
    {"instances", "probabilities", "ids", "outcomes", "rows", "labels"}
)  # fields with an item a row


@dataclass(frozen=True)
class Flaw:
    """One place in what was sent, and what is wrong there.

    `loc` is the service's JSON pointer into the request. `row` is the row's label in the frame (its position where the
    frame has no index), `column` the column's name; both are None where the place is not in the frame.
    """

    loc: str
    msg: str
    row: Any = None
    column: str | None = None

    def __str__(self) -> str:
        named = [f"row {self.row!r}"] * (self.row is not None) + [f"column {self.column!r}"] * (
            self.column is not None
        )
        place = ", ".join(named) or self.loc
        return f"{place}: {self.msg}" if place else self.msg


class PayoffError(Exception):
    """What the service answered in place of a result (RFC 9457), or why there was no answer (`status` None).

    `columns` say of a refused table how each column was read, and what to change.
    """

    def __init__(
        self,
        detail: str,
        *,
        status: int | None = None,
        title: str = "",
        errors: Sequence[Flaw] = (),
        columns: Sequence[Mapping[str, Any]] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.title = title
        self.errors = tuple(errors)
        self.columns = tuple(columns)
        self.retry_after = retry_after

    def __str__(self) -> str:
        if self.columns:
            return f"{self.detail}\n{columns_text(self.columns, _MAX_COLUMNS)}"
        lines = [str(flaw) for flaw in self.errors[:_MAX_SHOWN]]
        if self.errors and self.errors[0].msg != self.detail:
            lines.insert(0, self.detail)
        more = len(self.errors) - _MAX_SHOWN
        return "\n".join([*(lines or [self.detail]), *([f"and {more} more"] if more > 0 else [])])


class Invalid(PayoffError):
    """A value, a name or the shape of the request is invalid (422, 400)."""

    @classmethod
    def of(cls, flaws: Sequence[Flaw]) -> Self:
        """What the client finds before it sends anything."""
        return cls(flaws[0].msg, status=422, title="Invalid request", errors=flaws[:MAX_FLAWS])


class Unauthorized(PayoffError):
    """A key is required, and it is missing or invalid (401)."""


class Forbidden(PayoffError):
    """The key's scopes do not allow this (403)."""


class NotFound(PayoffError):
    """The model, version, alias, job or data set does not exist (404)."""


class Conflict(PayoffError):
    """The current state does not allow this (409)."""


class TooLarge(PayoffError):
    """The request or its answer is too large (413)."""


class RateLimited(PayoffError):
    """Too many requests, or too many jobs at once (429); `retry_after` has the seconds to wait."""


class Unavailable(PayoffError):
    """The service is not ready (503), or it cannot be reached (`status` None)."""


class InvalidAnswer(PayoffError):
    """What came is no answer of a Payoff service: of another form, incomplete or without end."""


class JobFailed(PayoffError):
    """A job failed or was cancelled; `job` is its last state."""

    def __init__(self, detail: str, *, job: Mapping[str, Any], **problem: Any) -> None:
        super().__init__(detail, **problem)
        self.job = job


class PayoffWarning(UserWarning):
    """A warning that came with an answer of the service."""


BY_STATUS: dict[int, type[PayoffError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Invalid,
    429: RateLimited,
    503: Unavailable,
}


class _Problem(BaseModel):
    """A problem document (RFC 9457), or an object that resembles one."""

    title: str = ""
    detail: str = ""
    status: int | None = None
    errors: tuple[Flaw, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, content: Any, otherwise: str) -> dict[str, Any]:
        """The arguments of an exception, from JSON or what it has; with other words where it is no problem."""
        try:
            read = cls.model_validate_json if isinstance(content, bytes) else cls.model_validate
            found = read(content)
        except ValidationError:
            found = cls(detail=otherwise)
        return {**dict(found), "detail": found.detail or found.title or otherwise}


def of_answer(status: int, headers: Mapping[str, str], content: bytes) -> PayoffError:
    """The exception for an answer that is an error; the body need not be a problem document."""
    fields = _Problem.of(content, content[:200].decode("utf-8", "replace") or f"status {status}")
    wait = headers.get("Retry-After", "")
    seconds = float(wait) if wait.isascii() and wait.isdigit() else None
    return BY_STATUS.get(status, PayoffError)(**fields | {"status": status, "retry_after": seconds})


def of_job(job: Mapping[str, Any]) -> JobFailed:
    """The exception for a job that did not succeed."""
    return JobFailed(
        job=job, **_Problem.of(job.get("error"), f"job {job['id']} was {job['status']}")
    )


def located(
    error: PayoffError, label: Callable[[int], Any], columns: Sequence[str] = (), before: int = 0
) -> PayoffError:
    """The same error, whose flaws have the row's label and the column's name.

    `label` has a row's label by its position, `before` are the rows before those of the request, `columns` the names by
    position. In a table that was sent as the body, places begin with the row, or with the column's name.
    """
    error.errors = tuple(_placed(flaw, label, columns, before) for flaw in error.errors)
    if before and any(flaw.row is None for flaw in error.errors):
        error.add_note(
            f"the message counts from the beginning of a part: {before} rows go before it"
        )
    return error


def _placed(flaw: Flaw, label: Callable[[int], Any], columns: Sequence[str], before: int) -> Flaw:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in flaw.loc.split("/")[1:]]
    if steps and steps[0] in _LISTS:
        steps = steps[1:]
    if len(steps) == 2 and steps[0] in columns and not _POSITION.fullmatch(steps[0]):
        steps.reverse()
    row, column, *_ = [*steps, "", ""]
    if not _POSITION.fullmatch(row):
        return replace(flaw, column=row if row in columns else flaw.column)
    if column not in columns and _POSITION.fullmatch(column) and int(column) < len(columns):
        column = columns[int(column)]
    try:
        return replace(flaw, row=label(before + int(row)), column=column or None)
    except IndexError:  # no such row was sent
        return flaw
