"""JSON: measured before it is parsed, its text checked; long lists of rows go straight into one
array.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.api.memory import SMALL, Charge
from app.tables.text import refused_character
from payoff.errors import Flaw, Invalid, TooLarge, pointer, reject

# a larger body is parsed in a thread, so that no other request waits
INLINE_BYTES = 16_384
# Of one body. The parser holds the interpreter's lock for a tenth of a second for so many.
MAX_VALUES = 1_200_000
_WEIGHTS = {
    b",": 1,
    b":": 1,
    b"[": 1,
    b"{": 2,
}  # an object costs as much memory as a few numbers
# Backslashes of one body. The parser and the search for refused characters hold the lock for them.
_MAX_ESCAPES = 1_000_000
_BLOCK = 1 << 20  # bytes of a body that are counted together
_AROUND = 10  # characters before and after the place of an error that a message quotes
# Values as Python and JavaScript write them, which JSON does not have.
_FOREIGN = re.compile(r"-?(?:NaN|Infinity|inf\b)|None\b", re.IGNORECASE)
# A body without these bytes has no character that is refused in text.
_SUSPECT = (b"\\", b"\x7f", b"\xc2")
_DUMP = orjson.OPT_SERIALIZE_NUMPY
# Numbers that are written at a time. A million numbers hold the interpreter's lock for 135 ms,
# in parts for 11 ms.
_PART = 50_000
_MAX_HEADER = 16_000  # bytes: proxies and clients refuse longer headers


def document_of(text: bytes) -> Any:
    """The document in a JSON body, of which the last of values with the same name counts. O(size).

    Invalid where it is not JSON (RFC 8259, UTF-8, nested at most 1,024 deep, without NaN and
    Infinity), and at text with control characters.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid.at("", f"the body is not JSON: {syntax_error(error)}") from error
    if any(sign in text for sign in _SUSPECT):  # hardly ever
        reject(refused_texts(document))
    return document


def syntax_error(error: orjson.JSONDecodeError) -> str:
    """The message for text that is not JSON: it quotes the place, and for NaN has a fix. O(1)."""
    text = error.doc
    at = error.pos
    quoted = f", near {text[max(at - _AROUND, 0) : at + _AROUND]!r}" if text else ""
    foreign = _FOREIGN.match(text, at - 1 if text[max(at - 1, 0) : at] == "-" else at)
    return f"{error}{quoted}" + (
        f"; JSON has no {foreign[0]}: send null" if foreign else ""
    )


def refused_texts(document: Any) -> Iterator[Flaw]:
    """A flaw for each string and name of a parsed JSON document that has control characters."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        loc, value = waiting.pop()
        if isinstance(value, str):
            message = refused_character(value)
            if message:
                yield Flaw(loc, message)
        elif isinstance(value, list):
            waiting += [
                (f"{loc}/{i}", item)
                for i, item in enumerate(value)
                if isinstance(item, str | list | dict)
            ]
        elif isinstance(value, dict):
            for name, item in value.items():
                message = refused_character(name)
                if message:
                    yield Flaw(loc + pointer(name), f"in a name: {message}")
                waiting.append((loc + pointer(name), item))


def parsed(body: bytes, charge: Charge) -> Any:
    """The document in a JSON body; raises the errors of `measured` and `document_of`."""
    if len(body) > SMALL:
        measured(body, charge)
    return document_of(body)


def measured(body: bytes, charge: Charge) -> None:
    """Charge for the values of a long body; TooLarge above the limits."""
    if len(body) > SMALL:
        escapes = count(body, b"\\")
        if escapes > _MAX_ESCAPES:
            raise TooLarge(
                f"the body has {escapes:,} backslashes; a JSON body may have {_MAX_ESCAPES:,}"
            )
        charge(_extent(body))


def _extent(body: bytes) -> int:
    """The number of values by commas, colons and brackets; TooLarge above `MAX_VALUES`."""
    n_values = sum(weight * count(body, mark) for mark, weight in _WEIGHTS.items())
    if n_values > MAX_VALUES:
        raise TooLarge(
            f"the body has about {n_values:,} values and lists; a JSON body may have"
            f" {MAX_VALUES:,}: send fewer at once, or an array or Arrow stream where the route"
            " takes one; for training send a file to `POST /datasets`"
        )
    return n_values


def count(body: bytes, mark: bytes) -> int:
    """How often one byte occurs. NumPy counts blocks, so that the lock is never held for long."""
    signs = np.frombuffer(body, np.uint8)
    return sum(
        int(np.count_nonzero(signs[i : i + _BLOCK] == mark[0]))
        for i in range(0, len(signs), _BLOCK)
    )


class Split(NamedTuple):
    """The fields of a body but `instances`, with `columns` as arrays, and the rows (n, m)."""

    fields: dict[str, Any]
    rows: np.ndarray


def split(body: bytes) -> Split | None:
    """A body whose `instances` are rows of numbers of one length, read without Python objects.

    The numbers are those that `float` reads, to the last bit. Returns None for all other bodies and
    for every error: the caller then uses the ordinary parser, which raises it. The body has been
    measured. O(size).
    """
    import simdjson  # noqa: PLC0415 - for long bodies alone

    if body.startswith(codecs.BOM_UTF8) or any(sign in body for sign in _SUSPECT):
        return None
    try:
        document: Any = simdjson.Parser().parse(body)
        names = list(document)
        rows = document["instances"]
        numbers = np.frombuffer(rows.as_buffer(of_type="d"))
        widths = set(map(len, rows))
        beside = document["columns"] if "columns" in names else {}
        columns = {
            name: np.frombuffer(beside[name].as_buffer(of_type="d")) for name in beside
        }
        fields = {
            name: _value(document[name])
            for name in names
            if name not in ("instances", "columns")
        }
        brackets = 1 + len(rows) + len(columns) + orjson.dumps(fields).count(b"[")
    # There is text for rows or among numbers, or a number such as 1e400.
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError):
        return None
    # `as_buffer` flattens nested lists; of fields with the same name the last one counts.
    is_nested = brackets != count(body, b"[")
    if len(widths) != 1 or 0 in widths or is_nested or len(set(names)) < len(names):
        return None
    if columns:
        fields["columns"] = columns
    return Split(fields, numbers.reshape(-1, *widths))


def _value(parsed: Any) -> Any:
    return orjson.loads(parsed.mini) if hasattr(parsed, "mini") else parsed


def json_bytes(document: dict[str, Any]) -> bytes:
    """The document as JSON, its long arrays written some numbers at a time."""
    for value in document.values():
        if type(value) is np.ndarray and value.size > _PART:
            break
    else:
        return orjson.dumps(document, option=_DUMP)
    fields = (
        b"%b:%b" % (orjson.dumps(name), _written(value))
        for name, value in document.items()
    )
    return b"{" + b",".join(fields) + b"}"


def _written(value: Any) -> bytes:
    if not isinstance(value, np.ndarray) or value.size <= _PART:
        return orjson.dumps(value, option=_DUMP)
    step = max(_PART * len(value) // value.size, 1)
    parts = (
        orjson.dumps(value[i : i + step], option=_DUMP)[1:-1]
        for i in range(0, len(value), step)
    )
    return b"[" + b",".join(parts) + b"]"


def in_header(metadata: Any) -> str:
    """Metadata as JSON for the header `Payoff-Answer`; TooLarge where it does not fit."""
    header = ascii_json(metadata)
    if len(header) > _MAX_HEADER:
        raise TooLarge(
            "names and warnings do not fit into the header Payoff-Answer; ask for JSON, Arrow or"
            " Parquet"
        )
    return header.decode("ascii")


def ascii_json(document: Any) -> bytes:
    """JSON in ASCII: headers carry no more."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
