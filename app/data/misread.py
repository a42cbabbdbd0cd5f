"""Words that look like numbers or dates in a way of writing that is not read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.numbers_in_text import is_number

MAX_SHOWN = 40  # characters of a word
_MOST = 0.5  # of the distinct values of a column that is nearly a number
_WRITTEN = re.compile(
    r"[+-]?[$€£]?\s?\d{1,3}([, '\u00a0\u202f]\d{3})+(\.\d+)?\s?[%$€£]?|[+-]?[$€£]?\s?\d+([.,]\d+)?\s?[%$€£]?"
)
_DATE = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2}))([ T]\d{1,2}:\d{2}.*)?"
)
_COMMA = re.compile(r"[+-]?\d+,\d+")


def is_written(word: str) -> bool:
    """Whether a word is a number in a way of writing that is not read as one: 1,234 or 12 %."""
    return bool(_WRITTEN.fullmatch(word)) and not is_number(word)


def misread(first: Mapping[str, int], name: str) -> tuple[int, str] | None:
    """The row of the first word that keeps a column from being numbers, or dates, and what to do; None for words.

    `first` has the row of each distinct word.
    """
    if not first:
        return None
    if all(map(_DATE.fullmatch, first)):
        row, word = _earliest(first, first)
        return (
            row,
            f"{word!r} looks like a date; dates are read as words: write a number, such as days, or leave it out",
        )
    plain = list(filter(is_number, first))
    written = [word for word in first if is_written(word)]
    if len(plain) == len(first) or len(plain) + len(written) <= _MOST * len(first):
        return None
    row, word = _earliest(first, set(first).difference(plain))
    if written and all(map(_COMMA.fullmatch, written)) and _one_comma(written):
        return row, f"{word!r} is not read as a number; send decimal=, if the comma is a decimal one, else leave it out"
    if word in written:
        return row, f"{word!r} is not read as a number; write it in digits with a decimal point"
    return (
        row,
        f'{word!r} is not a number, as most values are; fix it, or send types={{"{name}": "number"}} to leave it out',
    )


def _one_comma(written: Sequence[str]) -> bool:
    """Whether a comma cannot separate thousands in one of the words at least."""
    return any(len(word.partition(",")[2]) != 3 for word in written)


def _earliest(first: Mapping[str, int], words: Any) -> tuple[int, str]:
    row, word = min((first[word], word) for word in words)
    return row, word[:MAX_SHOWN]
