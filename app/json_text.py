"""JSON from callers, parsed in one way."""

from __future__ import annotations

from typing import Any

import orjson

from app.repeats import refuse_repeats
from app.text import check_document


def document_of(text: bytes) -> Any:
    """The document; Invalid at text that no caller may send and at a name that an object holds twice. O(size).

    Raises orjson.JSONDecodeError where it is not JSON (RFC 8259, UTF-8, nested at most 1,024 deep, without NaN).
    """
    document = orjson.loads(text)
    check_document(document, text)
    refuse_repeats(text, document)
    return document
