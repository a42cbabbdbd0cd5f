"""What can go wrong, named after the fact, with the HTTP status and the title that it is answered with."""

import errno
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, Self

MAX_ERRORS = (
    20  # of a problem document: enough to see the pattern, where a request may hold millions
)
_MAX_CAUSES = 10
_MAX_SHOWN = 64  # characters of a name
_MAX_LISTED = 20  # names
_MAX_COMPARED = 50, 32  # names, and characters of each: comparing two takes up to 0.2 ms
UNWRITABLE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
)  # the disk, until it is repaired
EXHAUSTED = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)  # the process or machine, until other work ends


def pointer(*steps: object) -> str:
    """The JSON pointer (RFC 6901) of names and positions, outermost first; `""`, the whole, without any."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def unknown(what: str, name: object, known: Collection[str]) -> str:
    """The message that there is no such field, feature or class: with the known one that is like it, or with all."""
    most, longest = _MAX_COMPARED
    text, names = str(name), list(islice(known, most))
    compared = {each.casefold()[:longest]: each for each in names}
    if close := get_close_matches(text.casefold()[:longest], compared, n=1):
        allowed = f"did you mean {compared[close[0]][:_MAX_SHOWN]!r}?"
    elif known:
        more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
        allowed = (
            f"allowed: {', '.join(repr(each[:_MAX_SHOWN]) for each in names[:_MAX_LISTED])}{more}"
        )
    else:
        allowed = "none is allowed here"
    return f"unknown {what} {text[:_MAX_SHOWN]!r}; {allowed}"


def sent(value: object) -> str:
    """A value of a JSON document as a message shows it: text is cut, and of a list or an object only its kind."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        return repr(value[:_MAX_SHOWN])
    return (
        "a list"
        if isinstance(value, list | tuple)
        else "an object"
        if isinstance(value, dict)
        else str(value)
    )


def trace_of(error: BaseException) -> str:
    """Where an error came from and its class, for the log; without its words, which may quote what a caller sent."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < _MAX_CAUSES:
        frames = "".join(traceback.format_tb(cause.__traceback__))
        parts.append(f"{frames}{type(cause).__module__}.{type(cause).__qualname__}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\nafter\n".join(parts)


@dataclass(frozen=True)
class Flaw:
    """One place in what was sent, as a JSON pointer, and how to fix it."""

    loc: str
    msg: str


def flaws_of(details: Iterable[Any], sent: Any) -> list[Flaw]:
    """Pydantic's first findings about `sent`, one for each place: each alternative of a union finds its own."""
    found: dict[str, dict[str, None]] = {}
    for each in islice(details, MAX_ERRORS):
        loc = pointer(*_steps(each, sent))
        found.setdefault(loc, {})[words_of(each)] = None
    return [Flaw(loc, "; or ".join(words)) for loc, words in found.items()]


def _steps(found: Any, sent: Any) -> Iterator[int | str]:
    """The steps that exist in `sent`, where pydantic adds the names of the types that it tried on the way; and the name
    of what is missing, or tells the types apart.
    """
    for step in found["loc"]:
        if (isinstance(sent, dict) and step in sent) or (
            isinstance(sent, list) and step in range(len(sent))
        ):
            yield step
            sent = sent[step]
    if found["type"] == "missing":
        yield found["loc"][-1]
    elif (field := found.get("ctx", {}).get("discriminator", "")).startswith("'"):
        yield field.strip("'")


def words_of(found: Any) -> str:
    """Pydantic's message, or that of our own check."""
    return str(found["ctx"]["error"]) if found["type"] == "value_error" else str(found["msg"])


class PayoffError(Exception):
    """An error that the caller can be told about: the first `MAX_ERRORS` of the flaws.

    A class that declares a `status` has its docstring as title; others have both from the class above them.
    """

    status = 500
    title = "Error"

    def __init_subclass__(cls, *, status: int = 0) -> None:
        if status:
            cls.status, cls.title = status, str(cls.__doc__)

    def __init__(
        self,
        detail: str,
        flaws: Iterable[Flaw] = (),
        *,
        seconds: int = 1,
        columns: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.seconds = seconds  # until it is worth trying again, where it is
        self.flaws = tuple(islice(flaws, MAX_ERRORS))
        self.columns = tuple(columns)  # of the table at fault: how each was read

    @classmethod
    def at(cls, loc: str, msg: str) -> Self:
        """One flaw at one place; `loc` is relative to the argument checked (`""` is the argument itself)."""
        return cls(msg, [Flaw(loc, msg)])


class Invalid(PayoffError, ValueError, status=422):
    """Invalid request"""

    @classmethod
    def of(cls, flaws: Iterable[Flaw]) -> Self:
        """Several flaws, at least one; the first one is the detail."""
        first, *more = islice(flaws, MAX_ERRORS)
        return cls(first.msg, [first, *more])

    def under(self, prefix: str) -> Self:
        """An equal error seen from further out: every place gains `prefix`."""
        return type(self)(
            self.detail,
            [Flaw(prefix + flaw.loc, flaw.msg) for flaw in self.flaws],
            columns=self.columns,
        )


@contextmanager
def below(place: str) -> Iterator[None]:
    """Every place that is Invalid inside is one below `place`."""
    try:
        yield
    except Invalid as error:
        raise error.under(place) from error


def reject(flaws: Iterable[Flaw], detail: str = "") -> None:
    """Raise Invalid where there is a flaw; the first one is the detail where none is given."""
    if found := tuple(islice(flaws, MAX_ERRORS)):
        raise Invalid(detail or found[0].msg, found)


class NotFound(PayoffError, status=404):
    """Not found"""


class Conflict(PayoffError, status=409):
    """The request conflicts with the present state"""


class TooLarge(PayoffError, status=413):
    """More was sent than this service accepts"""


class Unsupported(PayoffError, status=415):
    """Unsupported content type"""


class KeyMissing(PayoffError, status=401):
    """An API key is needed"""


class Forbidden(PayoffError, status=403):
    """Not allowed"""


class TooSlow(PayoffError, status=408):
    """The request was not received in time"""


class TooMany(PayoffError, status=429):
    """Too many requests"""


class NotReady(PayoffError, status=503):
    """The service is not ready"""


class Busy(NotReady, status=503):
    """Too many requests are in progress"""


class Unavailable(NotReady, status=503):
    """A part of the service cannot be reached"""


class Unusable(Unavailable, status=503):
    """A part of the service is set up wrongly"""


class Damaged(PayoffError, status=409):
    """A stored file is not what was published"""
