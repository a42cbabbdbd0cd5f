"""Text from callers: which is accepted, by one rule for names, categories and all other strings; JSON; and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import orjson

from app.errors import Flaw, Invalid, pointer, reject

MAX_NAME = 200  # characters of a name: feature, label, class, action, group of features, data set
MAX_POSITIONS = 5  # that a message names
MAX_CATEGORY = 1000  # characters of a category; a longer value is text, and every model's card would carry it

# Tabs and line ends occur in the cells and headers of spreadsheets; PostgreSQL stores no NUL.
_REFUSED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# How such a character is written in JSON: an escape sequence, or, from DEL on, the UTF-8 of the character itself.
_ESCAPED = re.compile(rb"\\(?:u00[01789]|[bf])")
_LONGEST = len(rb"\u001")
_DEL, _LEAD, _FIRST_PLAIN = 0x7F, 0xC2, 0xA0
_PART = 1 << 18  # of a text that is searched at a time: other threads wait meanwhile
_IN_QUERY = re.compile(rb"%[01789][0-9A-Fa-f]|%[Cc]2%[89]|[\x00-\x1f\x7f]")

_AROUND = 10  # characters before and after the place of an error in JSON that a message quotes
_FOREIGN = re.compile(r"-?(?:NaN|Infinity|inf\b)|None\b", re.IGNORECASE)  # as Python and JavaScript write values

NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None", "?")
"""What says that there is no number."""
is_number = re.compile(NUMBER, re.ASCII).fullmatch


def refused_character(text: str) -> str | None:
    """What `text` contains that no text may, as a message; None where the text is accepted. O(length)."""
    parts = range(0, len(text), _PART)
    found = next(filter(None, (_REFUSED.search(text, i, i + _PART) for i in parts)), None)
    if found is None:
        return None
    code = ord(found[0])
    kind = "the surrogate" if 0xD800 <= code <= 0xDFFF else "the control character"
    return f"{kind} U+{code:04X} at position {found.start()} is not allowed in text"


def refused_category(word: str) -> str | None:
    """As `refused_character`, or that the text is too long for a category."""
    return refused_character(word) if len(word) <= MAX_CATEGORY else f"a category has at most {MAX_CATEGORY} characters"


def positions(first: Iterable[int], count: int) -> str:
    """The first of `count` positions in brackets, such as `(positions 0, 3, …)`, for a message about instances."""
    shown = [str(i) for i in islice(first, MAX_POSITIONS)]
    return f"(position{'' if count == 1 else 's'} {', '.join(shown)}{', …' if count > len(shown) else ''})"


def listing(words: Sequence[str]) -> str:
    """One word or more as a list in a sentence: `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def some_of(names: Sequence[str], limit: int) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def counted(number: int, unit: str) -> str:
    """A number of things, such as `1 row` or `1,000 rows`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def check_text(text: str, loc: str) -> None:
    """Invalid at `loc` where `text` contains a control character or a lone surrogate."""
    if message := refused_character(text):
        raise Invalid.at(loc, message)


def document_of(text: bytes) -> Any:
    """The document in a JSON body, of which the last of values with the same name counts. O(size).

    Invalid where it is not JSON (RFC 8259, UTF-8, nested at most 1,024 deep, without NaN and Infinity), and at text
    with control characters.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid.at("", f"the body is not JSON: {syntax_error(error)}") from error
    check_document(document, text)
    return document


def syntax_error(error: orjson.JSONDecodeError) -> str:
    """What is wrong with text that is not JSON, with the text around the place; what to send for NaN. O(1)."""
    text, at = error.doc, error.pos
    quoted = f", near {text[max(at - _AROUND, 0) : at + _AROUND]!r}" if text else ""
    found = _FOREIGN.match(text, at - 1 if text[max(at - 1, 0) : at] == "-" else at)
    return f"{error}{quoted}" + (f"; JSON has no {found[0]}: send null" if found else "")


def check_document(document: Any, written: bytes) -> None:
    """Refuse text in any string or key of a parsed JSON document, of which `written` is the text.

    Invalid with a JSON pointer for each place. O(length of `written`); the document is walked only where
    its text may contain such a character.
    """
    escapes = b"\\" in written
    if not escapes and b"\x7f" not in written and b"\xc2" not in written:
        return  # nearly always
    signs = np.frombuffer(written, np.uint8)
    for i in range(0, len(signs), _PART):
        part = signs[i : i + _PART + 1]
        if (
            (part == _DEL).any()
            or ((part[:-1] == _LEAD) & (part[1:] < _FIRST_PLAIN)).any()
            or (escapes and _ESCAPED.search(written, i, i + _PART + _LONGEST))
        ):
            reject(_flaws(document))
            return


def check_query(query: bytes) -> None:
    """Refuse text in the names and values of a query string; Invalid at `/name`. O(length)."""
    if not _IN_QUERY.search(query):
        return
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        check_text(name, "")
        check_text(value, pointer(name))


def _flaws(document: Any) -> Iterator[Flaw]:
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        loc, value = waiting.pop()
        if isinstance(value, str):
            if message := refused_character(value):
                yield Flaw(loc, message)
        elif isinstance(value, list):
            waiting += [(f"{loc}/{i}", item) for i, item in enumerate(value) if isinstance(item, str | list | dict)]
        elif isinstance(value, dict):
            for name, item in value.items():
                if message := refused_character(name):
                    yield Flaw(loc + pointer(name), f"in a name: {message}")
                waiting.append((loc + pointer(name), item))
