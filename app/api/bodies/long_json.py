"""Long JSON bodies of rows of numbers: the rows are parsed straight into one array, without an object per number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from app.api.bodies.json_bodies import Reserve, measured
from app.errors import PayoffError
from app.json_text import document_of

_NAME = b'"instances"'
_BEGIN = re.compile(rb'"instances"\s*:\s*(?=\[\[)')
_MARK = "rows that were cut out"  # in their place: found at the top level, they came from there
_MARKER = b'["%b"]' % _MARK.encode()
_PART = 1 << 18  # bytes that are parsed at a time
_NO_NUMBER = (b"{", b"n", b"t", b"f")  # of objects, null, true and false: the ordinary parser reads these


class Split(NamedTuple):
    """The fields of a body, whose `instances` are an empty list; these as float64 (n, m), and as they were sent."""

    fields: Any
    rows: np.ndarray
    text: bytes


def reserving_once(reserve: Reserve) -> Reserve:
    """Calls `reserve` the first time only: a refused body is measured again by the ordinary parser."""
    reserved = False

    def reserve_first(count: int) -> None:
        nonlocal reserved
        if not reserved:
            reserve(count)
        reserved = True

    return reserve_first


def split(body: bytes, reserve: Reserve) -> Split | None:
    """A body whose top-level field `instances` has rows of numbers, all of the same length.

    The numbers are those that `float` reads, to the last bit. Returns None for anything else and for every error: the
    caller then uses the ordinary parser, which raises it. Only `[[` without blanks is recognised. `reserve` is called
    with the same number of bytes as there. O(size).
    """
    at = body.find(_NAME)
    found = _BEGIN.match(body, at) if at >= 0 else None
    if found is None:
        return None
    start, next_quote = found.end(), body.find(b'"', found.end())
    end = body.rfind(b"]]", start, next_quote if next_quote >= 0 else len(body)) + 2
    text, rest = body[start:end], body[:start] + _MARKER + body[end:]
    if end < start + 2 or rest.count(_NAME) != 1 or b"\\" in rest or any(sign in text for sign in _NO_NUMBER):
        return None
    try:
        measured(body, reserve)  # before anything is parsed
        fields = document_of(rest)
        if type(fields) is not dict or fields.get("instances") != [_MARK]:
            return None
        fields["instances"] = []
    except (PayoffError, ValueError):
        return None
    rows = _rows(text)
    return None if rows is None else Split(fields, rows, text)


def _rows(text: bytes) -> np.ndarray | None:
    """A JSON list of lists of numbers, all of the same length, as float64 (n, m); None for anything else."""
    import simdjson  # noqa: PLC0415 - for long bodies alone

    parser, parts, widths = simdjson.Parser(), [], set[int]()
    try:
        for part in _parts(text):
            document: Any = parser.parse(part)
            widths.update(map(len, document))
            # `as_buffer` flattens what is nested
            if len(widths) != 1 or 0 in widths or part.count(b"[") != 1 + len(document):
                return None
            parts.append(np.frombuffer(document.as_buffer(of_type="d")))
            del document  # it lives in the parser's memory
    except (TypeError, ValueError, RuntimeError):  # a number among the rows, text, 1e400, an integer beyond 64 bits
        return None
    return np.concatenate(parts).reshape(-1, *widths)


def _parts(text: bytes) -> Iterator[bytes]:
    """Lists of the rows in a list of them, cut after the end of a row: joined by commas they are the text.

    So the parser stays in the processor's cache, and other threads get the interpreter's lock in between.
    """
    start, end = 1, len(text) - 1
    while start < end:
        stop = text.find(b"],", start + _PART, end) + 1 or end
        yield b"[%b]" % text[start:stop]
        start = stop + 1
