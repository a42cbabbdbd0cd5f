"""The errors of the service, named after the fact, with status and title of the answer."""

import errno
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from payoff.errors import Flaw, Invalid, MissingPackage, PayoffError, TooLarge

_MAX_CAUSES = 10
# Errors of the disk, until it is repaired, and of the process or machine, until other work ends.
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def trace_of(error: BaseException) -> str:
    """The stack and the class of an error, for the log; without its message, which may quote a
    request.
    """
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < _MAX_CAUSES:
        frames = "".join(traceback.format_tb(cause.__traceback__))
        parts.append(f"{frames}{type(cause).__module__}.{type(cause).__qualname__}")
        cause = cause.__cause__ or (
            None if cause.__suppress_context__ else cause.__context__
        )
    return "\nafter\n".join(parts)


class Answer(NamedTuple):
    """Status and title of the answer to an error."""

    status: int
    title: str


class ServiceError(PayoffError):
    """Error

    A class that declares a `status` has its docstring as title; one without has both from the class
    above it. `seconds` is the time until a request is worth repeating, where it is.
    """

    answer = Answer(500, "Error")

    def __init_subclass__(cls, *, status: int = 0) -> None:
        if status:
            cls.answer = Answer(status, str(cls.__doc__))

    def __init__(
        self, detail: str, flaws: Iterable[Flaw] = (), *, seconds: int = 1
    ) -> None:
        super().__init__(detail, flaws)
        self.seconds = seconds


class InvalidTable(Invalid):
    """A table that cannot be used; `columns` describes how each of its columns was read."""

    def __init__(
        self,
        detail: str,
        flaws: Iterable[Flaw] = (),
        columns: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(detail, flaws)
        self.columns = tuple(columns)

    def under(self, prefix: str) -> Self:
        error = super().under(prefix)
        error.columns = self.columns
        return error


class NotFound(ServiceError, status=404):
    """Not found"""


class Conflict(ServiceError, status=409):
    """The request conflicts with the present state"""


class Unsupported(ServiceError, status=415):
    """Unsupported content type"""


class KeyMissing(ServiceError, status=401):
    """An API key is needed"""


class Forbidden(ServiceError, status=403):
    """Not allowed"""


class TooSlow(ServiceError, status=408):
    """The request was not received in time"""


class TooMany(ServiceError, status=429):
    """Too many requests"""


class NotReady(ServiceError, status=503):
    """The service is not ready"""


class Busy(NotReady, status=503):
    """Too many requests are in progress"""


class Unavailable(NotReady, status=503):
    """A part of the service cannot be reached"""


class Unusable(Unavailable, status=503):
    """A part of the service is set up wrongly"""


class Damaged(ServiceError, status=409):
    """A stored file is not what was published"""


_OF_THE_LIBRARY = {
    Invalid: Answer(422, "Invalid request"),
    TooLarge: Answer(413, "More was sent than this service accepts"),
    MissingPackage: Conflict.answer,
}
STATUSES = {answer.status for answer in _OF_THE_LIBRARY.values()} | {
    kind.answer.status for kind in ServiceError.__subclasses__()
} - {ServiceError.answer.status}
"""Statuses of answers to errors that have a class of their own."""


def answer_to(error: PayoffError) -> Answer:
    """Status and title of the answer to an error."""
    if isinstance(error, ServiceError):
        return error.answer
    for kind in type(error).__mro__:
        if kind in _OF_THE_LIBRARY:
            return _OF_THE_LIBRARY[kind]
    return ServiceError.answer
