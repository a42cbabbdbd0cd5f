"""What can be wrong with arguments, by place; messages that several modules word alike."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from heapq import nlargest
from itertools import islice, pairwise
from typing import Any, Self

# flaws of an error: enough to see the pattern, where there may be millions
MAX_ERRORS = 20
MAX_NAME = 200  # characters of a name: feature, label, class, action, group of features, data set
_MAX_SHOWN = 64  # characters of a name in a message
_MAX_LISTED = 20  # names in a message
_MAX_SEARCHED = 50  # known names that are searched for a similar one
# known names that are compared letter by letter, which takes 0.5 ms each
_MAX_COMPARED = 4
_MAX_LETTERS = 32  # characters of a name that are compared
_MAX_POSITIONS = 5  # positions in a message


def pointer(*steps: object) -> str:
    """The JSON pointer (RFC 6901) of names and positions, outermost first; `""`, the document
    itself, without steps.
    """
    return "".join(
        "/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps
    )


def unknown(kind: str, name: object, known: Collection[str]) -> str:
    """The message that a name of this kind, such as a field or a class, is unknown.

    It suggests the most similar of the first known names, or lists them where none is similar.
    The suggestion takes up to 2 ms, so in a list of flaws only the first has it (`unknown_at`).
    """
    text = str(name)
    letters = text.casefold()[:_MAX_LETTERS]
    names = {
        known_name.casefold()[:_MAX_LETTERS]: known_name
        for known_name in islice(known, _MAX_SEARCHED)
    }
    pairs = _pairs(letters)
    nearest = nlargest(
        _MAX_COMPARED, names, key=lambda known_name: len(pairs & _pairs(known_name))
    )
    similar = get_close_matches(letters, nearest, n=1)
    if similar:
        return (
            f"{_unknown(kind, text)}; did you mean {names[similar[0]][:_MAX_SHOWN]!r}?"
        )
    return _listing(kind, text, known)


def unknown_at(
    loc: str, kind: str, name: object, known: Collection[str], hint: str = ""
) -> "Flaw":
    """The flaw that a name is unknown, see `unknown`; its message ends with the `hint`."""
    return Flaw(
        loc,
        _listing(kind, str(name), known) + hint,
        lambda: unknown(kind, name, known) + hint,
    )


def _unknown(kind: str, name: str) -> str:
    return f"unknown {kind} {name[:_MAX_SHOWN]!r}"


def _listing(kind: str, name: str, known: Collection[str]) -> str:
    """The message with the first of all known names."""
    if not known:
        return f"{_unknown(kind, name)}; none is allowed here"
    names = ", ".join(
        repr(known_name[:_MAX_SHOWN]) for known_name in islice(known, _MAX_LISTED)
    )
    more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    return f"{_unknown(kind, name)}; allowed: {names}{more}"


def _pairs(letters: str) -> set[tuple[str, str]]:
    """The pairs of neighbouring letters, with a blank on either side of the text."""
    return set(pairwise(f" {letters} "))


def described(value: object) -> str:
    """A value of a JSON document as a message shows it: cut text, and only the kind of a list or
    an object.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value[:_MAX_SHOWN])
    if isinstance(value, list | tuple):
        return "a list"
    return "an object" if isinstance(value, dict) else str(value)


def positions(first: Iterable[int], count: int) -> str:
    """The first of `count` positions in brackets, such as `(positions 0, 3, …)`, for a message
    about instances.
    """
    shown = [str(i) for i in islice(first, _MAX_POSITIONS)]
    if count > len(shown):
        shown.append("…")
    return f"(position{'' if count == 1 else 's'} {', '.join(shown)})"


def counted(number: int, unit: str) -> str:
    """A number of things, such as `1 row` or `1,000 rows`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Flaw:
    """One wrong place in the arguments, as a JSON pointer, and a message that says what is wrong.

    `in_full` makes a better message in milliseconds; the first flaw of an error uses it.
    """

    loc: str
    msg: str
    in_full: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    @property
    def completed(self) -> "Flaw":
        """The flaw with its best message."""
        return self if self.in_full is None else Flaw(self.loc, self.in_full())


def flaws_of(details: Iterable[Any], document: Any) -> list[Flaw]:
    """Pydantic's first findings about a document, joined to one flaw for each place, as each
    alternative of a union has a finding.
    """
    messages: dict[str, dict[str, None]] = {}
    values: dict[str, Any] = {}
    for detail in islice(details, MAX_ERRORS):
        steps, value = _place(detail, document)
        loc = pointer(*steps)
        messages.setdefault(loc, {})[words_of(detail)] = None
        values[loc] = value
    return [
        Flaw(loc, _joined(list(words), values[loc])) for loc, words in messages.items()
    ]


def _joined(messages: Sequence[str], value: Any) -> str:
    """The messages about one place; the value completes them where all are about its type."""
    text = "; or ".join(messages)
    about_type = all(message.startswith("Input should") for message in messages)
    return f"{text}, not {described(value)}" if about_type else text


def _place(detail: Any, document: Any) -> tuple[list[int | str], Any]:
    """The steps of a finding's place that exist in the document, and the value there.

    Pydantic adds the names of the types that it tried, which are no steps. The name of a missing
    field, or of the field that discriminates between types, is the last step.
    """
    steps: list[int | str] = []
    value = document
    for step in detail["loc"]:
        steps_of_list = range(len(value)) if isinstance(value, list) else ()
        if step in (value if isinstance(value, dict) else steps_of_list):
            steps.append(step)
            value = value[step]
    discriminator = detail.get("ctx", {}).get("discriminator", "")
    if detail["type"] == "missing":
        steps.append(detail["loc"][-1])
    elif discriminator.startswith("'"):
        steps.append(discriminator.strip("'"))
    return steps, value


def words_of(detail: Any) -> str:
    """The message of one of Pydantic's findings, or that of a validator of this project; without
    the names of classes.
    """
    if detail["type"] in ("model_type", "model_attributes_type"):
        return "Input should be an object"
    return (
        str(detail["ctx"]["error"])
        if detail["type"] == "value_error"
        else str(detail["msg"])
    )


class PayoffError(Exception):
    """An error that is reported to the caller, with its first `MAX_ERRORS` flaws.

    The message of the first flaw is the `detail` where that is empty.
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
        """An equal error whose places begin with `prefix`."""
        return type(self)(
            self.detail, [Flaw(prefix + flaw.loc, flaw.msg) for flaw in self.flaws]
        )


class TooLarge(PayoffError):
    """More rows, cells or items than are supported."""


class MissingPackage(PayoffError):
    """An optional package is needed, and not installed."""


@contextmanager
def below(place: str) -> Iterator[None]:
    """The places of an Invalid that is raised inside begin with `place`."""
    try:
        yield
    except Invalid as error:
        raise error.under(place) from error


def reject(flaws: Iterable[Flaw], detail: str = "") -> None:
    """Raise Invalid where there is a flaw; its message is the detail where that is empty."""
    first = tuple(islice(flaws, MAX_ERRORS))
    if first:
        raise Invalid(detail, first)
