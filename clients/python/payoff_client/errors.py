"""Problems of the service as exceptions, with the row and the column in the caller's frame."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from payoff_client.showing import columns_text

MAX_FLAWS = 20  # in an error that the client raises before it sends a request
_MAX_SHOWN = 5  # flaws in the text of an exception
_MAX_COLUMNS = 40  # in the text of an exception
_POSITION = re.compile(r"\d{1,15}", re.ASCII)
# Fields with an item for each row.
_LISTS = frozenset({"instances", "probabilities", "ids", "outcomes", "rows", "labels"})


@dataclass(frozen=True)
class Flaw:
    """One place in a request, and what is wrong there.

    `loc` is the JSON pointer of the service into the request. `row` is the label of the row in the
    frame (its position where the frame has no index), `column` the name of the column; both are
    None where the place is not in the frame.
    """

    loc: str
    msg: str
    row: Any = None
    column: str | None = None

    def __str__(self) -> str:
        places = {"row": self.row, "column": self.column}
        names = [
            f"{kind} {name!r}" for kind, name in places.items() if name is not None
        ]
        place = ", ".join(names) or self.loc
        return f"{place}: {self.msg}" if place else self.msg


class PayoffError(Exception):
    """An error of the service (RFC 9457), or the reason why it did not answer (`status` None).

    `columns` report how each column of a refused table was read, and what to change.
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
        if not self.errors or self.errors[0].msg != self.detail:
            lines.insert(0, self.detail)
        if len(self.errors) > _MAX_SHOWN:
            lines.append(f"and {len(self.errors) - _MAX_SHOWN} more")
        return "\n".join(lines)


class Invalid(PayoffError):
    """A value, a name or the shape of the request is invalid (422, 400)."""

    @classmethod
    def of(cls, flaws: Sequence[Flaw]) -> Self:
        """The error for flaws that the client detects before it sends a request."""
        return cls(
            flaws[0].msg, status=422, title="Invalid request", errors=flaws[:MAX_FLAWS]
        )


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
    """The answer is not that of a Payoff service: unreadable, incomplete or without end."""


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
        """The arguments of an exception, from JSON or an object.

        `otherwise` is the detail where the content is no problem document.
        """
        try:
            read = (
                cls.model_validate_json
                if isinstance(content, bytes)
                else cls.model_validate
            )
            problem = read(content)
        except ValidationError:
            problem = cls(detail=otherwise)
        return {**dict(problem), "detail": problem.detail or problem.title or otherwise}


def of_answer(status: int, headers: Mapping[str, str], content: bytes) -> PayoffError:
    """The exception for an answer that is an error; the body need not be a problem document."""
    text = content[:200].decode("utf-8", "replace")
    fields = _Problem.of(content, text or f"status {status}")
    wait = headers.get("Retry-After", "")
    seconds = float(wait) if wait.isascii() and wait.isdigit() else None
    return BY_STATUS.get(status, PayoffError)(
        **fields | {"status": status, "retry_after": seconds}
    )


def of_job(job: Mapping[str, Any]) -> JobFailed:
    """The exception for a job that did not succeed."""
    otherwise = f"job {job['id']} was {job['status']}"
    return JobFailed(job=job, **_Problem.of(job.get("error"), otherwise))


def located(
    error: PayoffError,
    label: Callable[[int], Any],
    columns: Sequence[str] = (),
    before: int = 0,
) -> PayoffError:
    """The same error, whose flaws have the row's label and the column's name.

    `label` returns the label of a row at a position; `before` is the number of rows before those of
    the request; `columns` are the names by position. In a table that was the body of the request,
    places begin with the row, or with the name of the column.
    """
    error.errors = tuple(_placed(flaw, label, columns, before) for flaw in error.errors)
    if before and any(flaw.row is None for flaw in error.errors):
        note = f"the message counts from the beginning of a part: {before} rows go before it"
        error.add_note(note)
    return error


def _placed(
    flaw: Flaw, label: Callable[[int], Any], columns: Sequence[str], before: int
) -> Flaw:
    steps = [
        step.replace("~1", "/").replace("~0", "~") for step in flaw.loc.split("/")[1:]
    ]
    if steps and steps[0] in _LISTS:
        steps = steps[1:]
    if len(steps) == 2 and steps[0] in columns and not _POSITION.fullmatch(steps[0]):
        steps.reverse()
    row, column, *_ = [*steps, "", ""]
    if not _POSITION.fullmatch(row):
        return replace(flaw, column=row if row in columns else flaw.column)
    if (
        column not in columns
        and _POSITION.fullmatch(column)
        and int(column) < len(columns)
    ):
        column = columns[int(column)]
    try:
        return replace(flaw, row=label(before + int(row)), column=column or None)
    except IndexError:  # the request has no such row
        return flaw
