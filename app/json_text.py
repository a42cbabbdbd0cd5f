"""JSON from callers, parsed in one way."""

from __future__ import annotations

import re
from typing import Any

import orjson

from app.text import check_document

_AROUND = 10  # characters before and after the place of an error that a message quotes
_FOREIGN = re.compile(r"-?(?:NaN|Infinity|inf\b)|None\b", re.IGNORECASE)  # as Python and JavaScript write values


def document_of(text: bytes) -> Any:
    """The document; Invalid at text that no caller may send. Of a name that an object holds twice the last
    value counts. O(size).

    Raises orjson.JSONDecodeError where it is not JSON (RFC 8259, UTF-8, nested at most 1,024 deep, without NaN).
    """
    document = orjson.loads(text)
    check_document(document, text)
    return document


def syntax_error(error: orjson.JSONDecodeError) -> str:
    """What is wrong with text that is not JSON, with the text around the place; what to send for NaN. O(1)."""
    text, at = error.doc, error.pos
    quoted = f", near {text[max(at - _AROUND, 0) : at + _AROUND]!r}" if text else ""
    found = _FOREIGN.match(text, at - 1 if text[max(at - 1, 0) : at] == "-" else at)
    return f"{error}{quoted}" + (f"; JSON has no {found[0]}: send null" if found else "")
