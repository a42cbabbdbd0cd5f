"""Where rows of CSV end: a quotation mark opens a value at its start alone, as the service reads it."""

from __future__ import annotations

import re

import numpy as np

_QUOTE, _BREAK = b'"\n'


def last_end(text: bytes, delimiter: str) -> int:
    """Where the last complete row ends; 0 without one. A line break in a quoted value ends no row.

    Preferably a row of one line: the service takes several for a quotation mark that is not closed.
    """
    if b'"' not in text:
        return text.rfind(b"\n") + 1
    row = _row(delimiter)
    end = found = 0
    while match := row.match(text, end):
        if text.find(b"\n", end, match.end() - 1) < 0:
            found = match.end()
        end = match.end()
    return found or end


def first_end(text: bytes, delimiter: str) -> int:
    """Where the first row ends."""
    match = _row(delimiter).match(text)
    return match.end() if match else len(text)


def count(text: bytes) -> int:
    """How many rows the service has written, which closes all quotes."""
    signs = np.frombuffer(text, dtype=np.uint8)
    is_quoted = np.logical_xor.accumulate(signs == _QUOTE)
    return int(np.count_nonzero((signs == _BREAK) & ~is_quoted))


def _row(delimiter: str) -> re.Pattern[bytes]:
    """A row: what is not quoted, quoted values, and quotation marks within values."""
    inside = rb"[^\r\n" + re.escape(delimiter.encode()) + rb"]"
    return re.compile(rb'(?:[^"\n]++|(?<!' + inside + rb')"[^"]*+(?:""[^"]*+)*+"|(?<=' + inside + rb')")*+\n')
