"""JSON bodies, read in one way on every route: measured before they are parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson

from app.errors import Invalid, TooLarge
from app.json_text import document_of, syntax_error

INLINE_BYTES = 16_384  # a larger body is parsed in a thread, so that no other request waits
INLINE_NUMBERS = 10_000  # of an answer; one with more is computed in a thread
MAX_VALUES = 1_000_000  # of one body: the parser holds the interpreter's lock for a tenth of a second
_WEIGHTS = {b",": 1, b":": 1, b"[": 1, b"{": 2}  # an object costs as much memory as a few numbers
_BYTES_PER_VALUE = 120  # of memory: a number takes 32, a list 80, an object 230; rows are copied once
_MAX_ESCAPES = 1_000_000  # backslashes: the parser and the search for refused characters hold the lock for them
_BLOCK = 1 << 20  # bytes of a body that are counted together
_SMALL = MAX_VALUES // max(_WEIGHTS.values())  # bytes of a body that cannot hold more than `MAX_VALUES`


Reserve = Callable[[int], None]  # is called with a number of bytes of memory; raises where there are no more


def parsed(body: bytes, reserve: Reserve) -> Any:
    """The document in a JSON body.

    `reserve` is told how many bytes of memory the document of a long body will take. Raises TooLarge, before anything
    is parsed, where the body holds more than `MAX_VALUES`; Invalid where it is not JSON (RFC 8259, UTF-8, nested at
    most 1,024 deep, without NaN and Infinity), and at text with control characters. O(size).
    """
    measured(body, reserve)
    try:
        return document_of(body)
    except orjson.JSONDecodeError as error:
        raise Invalid.at("", f"the body is not JSON: {syntax_error(error)}") from error


def measured(body: bytes, reserve: Reserve) -> None:
    """Tell `reserve` how many bytes of memory the values of a long body will take; TooLarge above the limits."""
    if len(body) > _SMALL:
        if (escapes := count(body, b"\\")) > _MAX_ESCAPES:
            raise TooLarge(f"the body has {escapes:,} backslashes; a JSON body may have {_MAX_ESCAPES:,}")
        reserve(_extent(body) * _BYTES_PER_VALUE)


def _extent(body: bytes) -> int:
    """The number of values by the body's commas, colons and brackets; TooLarge above `MAX_VALUES`."""
    about = sum(weight * count(body, mark) for mark, weight in _WEIGHTS.items())
    if about > MAX_VALUES:
        raise TooLarge(
            f"the body has about {about:,} values and lists; a JSON body may have {MAX_VALUES:,}: send fewer at"
            " once, or an array or Arrow stream where the route takes one; for training send a file to `POST /datasets`"
        )
    return about


def count(body: bytes, mark: bytes) -> int:
    """How often one byte occurs: searching for millions of them would hold the interpreter's lock for long."""
    signs = np.frombuffer(body, np.uint8)
    return sum(int(np.count_nonzero(signs[i : i + _BLOCK] == mark[0])) for i in range(0, len(signs), _BLOCK))
