"""Text from callers: one rule for the characters of names, categories and all other strings; and
the text of numbers.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from payoff.errors import Invalid, pointer

MAX_SHOWN = 40  # characters of a word in a message
MAX_POSITIONS = 5  # that a message names
# characters; a longer value is text, and every model's card would carry it
MAX_CATEGORY = 1000

# Tabs and line ends occur in the cells and headers of spreadsheets; PostgreSQL stores no NUL.
_REFUSED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

# Zero-width blanks and the mark of a byte order stand at the seams of files that were joined.
_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\u200b\ufeff"

_NAMED_ID = re.compile(
    r"(.*[\W_])?((?i:id|nr|no|key|uuid|guid|number|nummer))|(?i:.*nummer)|.*[a-z](Id|ID|Nr|Key)"
)

# The pattern matches in one way only, so that no text takes quadratic time.
NUMBER = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "?")
"""Texts that stand for a missing value, also in spreadsheets and exports of databases."""
is_number = re.compile(NUMBER, re.ASCII).fullmatch


def normal(text: str) -> str:
    """The text in Unicode's form NFC without outer blanks, as names, labels and categories are kept
    and looked up.
    """
    return unicodedata.normalize("NFC", text.strip(_BLANKS))


def with_normal_names(document: Any) -> Any:
    """An object by the normal forms of its names, unless two of them become one; other documents as
    they are.
    """
    if type(document) is not dict:
        return document
    renamed = {normal(name): value for name, value in document.items()}
    return renamed if len(renamed) == len(document) else document


def spelling(text: str) -> str:
    """Equal for texts that differ in case, in blanks and in invisible signs alone."""
    if not text.isascii():
        text = "".join(sign for sign in text if unicodedata.category(sign) != "Cf")
    return " ".join(text.casefold().split())


def refused_character(text: str) -> str | None:
    """The message about the first character that is not allowed, None for accepted text."""
    match = _REFUSED.search(text)
    if match is None:
        return None
    code = ord(match[0])
    kind = "the surrogate" if 0xD800 <= code <= 0xDFFF else "the control character"
    return f"{kind} U+{code:04X} at position {match.start()} is not allowed in text"


def refused_category(word: str) -> str | None:
    """As `refused_character`, or that the text is too long for a category."""
    if len(word) > MAX_CATEGORY:
        return f"a category has at most {MAX_CATEGORY} characters"
    return refused_character(word)


def some_of(names: Sequence[str], limit: int) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def check_text(text: str, loc: str) -> None:
    """Invalid at `loc` where `text` contains a control character or a lone surrogate."""
    if message := refused_character(text):
        raise Invalid.at(loc, message)


def check_query(query: bytes) -> None:
    """Refuse text in the names and values of a query string; Invalid at `/name`. O(length)."""
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        check_text(name, "")
        check_text(value, pointer(name))


def names_identifier(name: str) -> bool:
    """Whether a column is called as identifiers are."""
    return _NAMED_ID.fullmatch(name) is not None
