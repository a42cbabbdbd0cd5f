"""What can be wrong with arguments, by place; messages that several modules word alike."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from heapq import nlargest
from itertools import islice, pairwise
from typing import Any, Self

MAX_ERRORS = 20  # flaws of an error: enough to see the pattern, where there may be millions
MAX_NAME = 200  # characters of a name: feature, label, class, action, group of features, data set
_MAX_SHOWN = 64  # characters of a name in a message
_MAX_LISTED = 20  # names in a message
_MAX_SEARCHED = 50  # names among which one that is like another is searched
_MAX_COMPARED = 4  # names that are compared letter by letter with another, which takes 0.5 ms each
_MAX_LETTERS = 32  # characters of a name that are compared
_MAX_POSITIONS = 5  # positions in a message


def pointer(*steps: object) -> str:
    """The JSON pointer (RFC 6901) of names and positions, outermost first; `""`, the whole, without
    any.
    """
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def unknown(what: str, name: object, known: Collection[str]) -> str:
    """The message that there is no such field, feature or class: with the known one that is like
    it, or with all.

    Finding one that is like it takes up to 2 ms, so a list of flaws has it for the first alone
    (`unknown_at`).
    """
    text, names = str(name), list(islice(known, _MAX_SEARCHED))
    letters = text.casefold()[:_MAX_LETTERS]
    compared = {known_name.casefold()[:_MAX_LETTERS]: known_name for known_name in names}
    pairs = _pairs(letters)
    nearest = nlargest(_MAX_COMPARED, compared, key=lambda other: len(pairs & _pairs(other)))
    if close := get_close_matches(letters, nearest, n=1):
        return f"{_no_such(what, text)}; did you mean {compared[close[0]][:_MAX_SHOWN]!r}?"
    return _listing(what, text, known)


def unknown_at(loc: str, what: str, name: object, known: Collection[str], hint: str = "") -> "Flaw":
    """The flaw that there is no such name, which is completed by the `hint`; see `unknown`."""
    return Flaw(
        loc,
        _listing(what, str(name), known) + hint,
        lambda: unknown(what, name, known) + hint,
    )


def _no_such(what: str, name: str) -> str:
    return f"unknown {what} {name[:_MAX_SHOWN]!r}"


def _listing(what: str, name: str, known: Collection[str]) -> str:
    """The message with the first of all known names."""
    if not known:
        return f"{_no_such(what, name)}; none is allowed here"
    names = ", ".join(repr(known_name[:_MAX_SHOWN]) for known_name in islice(known, _MAX_LISTED))
    more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    return f"{_no_such(what, name)}; allowed: {names}{more}"


def _pairs(letters: str) -> set[tuple[str, str]]:
    """The pairs of neighbouring letters, with a blank on either side of the text."""
    return set(pairwise(f" {letters} "))


def sent(value: object) -> str:
    """A value of a JSON document as a message shows it: text is cut, and of a list or an object
    only its kind.
    """
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


def positions(first: Iterable[int], count: int) -> str:
    """The first of `count` positions in brackets, such as `(positions 0, 3, …)`, for a message
    about instances.
    """
    shown = [str(i) for i in islice(first, _MAX_POSITIONS)]
    return f"(position{'' if count == 1 else 's'} {', '.join(shown)}{', …' if count > len(shown) else ''})"


def counted(number: int, unit: str) -> str:
    """A number of things, such as `1 row` or `1,000 rows`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Flaw:
    """One place in what was sent, as a JSON pointer, and how to fix it.

    `in_full` makes a better message, which takes milliseconds: the first flaw of an error has it.
    """

    loc: str
    msg: str
    in_full: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    @property
    def completed(self) -> "Flaw":
        """The same with its best message."""
        return self if self.in_full is None else Flaw(self.loc, self.in_full())


def flaws_of(details: Iterable[Any], document: Any) -> list[Flaw]:
    """Pydantic's first findings about a document, one for each place: each alternative of a union
    finds its own.
    """
    messages: dict[str, dict[str, None]] = {}
    values: dict[str, Any] = {}
    for detail in islice(details, MAX_ERRORS):
        steps, value = _place(detail, document)
        loc = pointer(*steps)
        messages.setdefault(loc, {})[words_of(detail)] = None
        values[loc] = value
    return [Flaw(loc, _joined(list(words), values[loc])) for loc, words in messages.items()]


def _joined(messages: Sequence[str], value: Any) -> str:
    """The messages about one place, and what arrived where each says what should have."""
    text = "; or ".join(messages)
    says_type = all(message.startswith("Input should") for message in messages)
    return f"{text}, not {sent(value)}" if says_type else text


def _place(detail: Any, document: Any) -> tuple[list[int | str], Any]:
    """The steps that exist in the document, and the value there. Pydantic adds the names of the
    types that it tried.

    The name of what is missing, or tells the types apart, is a step, too.
    """
    steps: list[int | str] = []
    value = document
    for step in detail["loc"]:
        if (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and step in range(len(value))
        ):
            steps.append(step)
            value = value[step]
    if detail["type"] == "missing":
        steps.append(detail["loc"][-1])
    elif (field := detail.get("ctx", {}).get("discriminator", "")).startswith("'"):
        steps.append(field.strip("'"))
    return steps, value


def words_of(found: Any) -> str:
    """Pydantic's message, or that of our own check."""
    return str(found["ctx"]["error"]) if found["type"] == "value_error" else str(found["msg"])


class PayoffError(Exception):
    """An error that the caller can be told about: `detail`, without one the first flaw; and the
    first `MAX_ERRORS`.
    """

    def __init__(self, detail: str, flaws: Iterable[Flaw] = ()) -> None:
        shown = [*islice(flaws, MAX_ERRORS)]
        first = [flaw.completed for flaw in shown[:1]]
        self.flaws = (*first, *(Flaw(flaw.loc, flaw.msg) for flaw in shown[1:]))
        self.detail = detail if detail or not first else first[0].msg
        super().__init__(self.detail)

    @classmethod
    def at(cls, loc: str, msg: str) -> Self:
        """One flaw at one place; `loc` is relative to the argument checked (`""` is all of it)."""
        return cls(msg, [Flaw(loc, msg)])


class Invalid(PayoffError, ValueError):
    """Arguments that cannot be used, with the place of each flaw."""

    @classmethod
    def of(cls, flaws: Iterable[Flaw]) -> Self:
        """Several flaws, at least one; the first one is the detail."""
        return cls("", flaws)

    def under(self, prefix: str) -> Self:
        """An equal error seen from further out: every place gains `prefix`."""
        return type(self)(self.detail, [Flaw(prefix + flaw.loc, flaw.msg) for flaw in self.flaws])


class TooLarge(PayoffError):
    """More rows, cells or items than are supported."""


class MissingPackage(PayoffError):
    """An optional package is needed, and not installed."""


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
        raise Invalid(detail, found)
