"""Pages of lists, with the tokens that name where the next page begins, and patterns of names.

A pattern such as `heart-*` means the same in memory and in SQL: `*` is any text and `?` any
character.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, false, or_

from payoff.errors import Invalid

T = TypeVar("T")

SEQUENCE_NUMBER = r"[0-9]{1,18}"  # fits a 64-bit integer
_PATTERN = re.compile(r"[a-z0-9_*?-]{1,64}")


def page_of(
    items: Sequence[T], size: int, place: Callable[[T], object]
) -> tuple[list[T], str | None]:
    """The first `size` of the items, and the token of the next page; None where there are no more
    items.

    `place` returns the place of an item in the order of the list: that of the last item of the
    page is the token.
    """
    page = list(items[:size])
    return page, str(place(page[-1])) if len(items) > size else None


def place_of(token: str | None, pattern: str) -> str | None:
    """The place where the page before ended; None for the first page. Invalid where it does not
    match the `pattern` of places.
    """
    if token is not None and not re.fullmatch(pattern, token):
        raise Invalid.at(
            "/page_token",
            "invalid page_token: send the next_page_token of an earlier answer",
        )
    return token


def is_pattern(text: str) -> bool:
    """Whether the text can match a name of a model or alias at all."""
    return _PATTERN.fullmatch(text) is not None


def regex_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """A regular expression that fully matches the names that one of the patterns matches."""
    return re.compile(
        "|".join(
            re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
            for text in patterns
        )
    )


def matches(column: ColumnElement[Any], patterns: Iterable[str]) -> ColumnElement[bool]:
    """Whether a name in `column` matches a pattern. Names are lower-case: LIKE of SQLite ignores
    case.
    """
    translated = (
        text.replace("_", r"\_").replace("*", "%").replace("?", "_")
        for text in patterns
    )
    return or_(false(), *(column.like(text, escape="\\") for text in translated))
