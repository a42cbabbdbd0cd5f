"""Probabilities on the wire: one set or many, ragged or not, as JSON, a NumPy array or an Arrow stream.

orjson holds the interpreter's lock while it parses. So the list of probabilities is cut out of a long body and parsed
some thousands at a time: for a million numbers other threads wait 14 ms instead of 93, and it takes 17 to 36 % less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import orjson

from app.api.codecs.json import Reserve, parsed
from app.api.codecs.npy import array_of_npy
from app.errors import Flaw, Invalid, pointer
from app.usecases.item_sets import RANGE, Sets, check_extent, extent_bytes

FIELD = "probabilities"
_LONG = 1 << 18  # bytes of a body from which on it is parsed in parts
_PART = 1 << 14  # numbers parsed at a time: a millisecond
_BLANKS = np.frombuffer(b" \t\n\r", dtype=np.uint8)
_MAX_BLANKS = 100  # beside a bracket; with more, the whole body is parsed
_NAME = b'"probabilities"'
_BEGIN = re.compile(_NAME + rb"\s{0,100}:\s{0,100}\[")
_NUMBERS = {int, float}
_A_PROBABILITY = f"a probability {RANGE}"
_FORMS = "a list of numbers (one set) or a list of such lists (a set each)"


def fields_of_json(body: bytes, reserve: Reserve) -> tuple[Any, Sets | None]:
    """The body's fields, and its probabilities where they were long and in order; else they are still in the fields."""
    if len(body) >= _LONG:
        try:
            found = _cut_out(body, reserve)
        except (ValueError, OverflowError):  # parsing the whole body finds and names the error
            found = None
        if found is not None:
            return found
    return parsed(body, reserve), None


def sets_of_list(value: Any) -> Sets:
    """Probabilities as parsed: numbers, or lists of numbers; Invalid below /probabilities. `[]` is one empty set."""
    if not isinstance(value, list):
        raise Invalid.at(pointer(FIELD), f"'probabilities' must be {_FORMS}")
    kinds = set(map(type, value))
    try:
        if kinds <= _NUMBERS:
            check_extent(1, len(value))
            return Sets(np.array(value, dtype=np.float64))
        if kinds == {list} and set(map(type, chain.from_iterable(value))) <= _NUMBERS:
            ends = np.cumsum([0, *map(len, value)])
            check_extent(len(value), int(ends[-1]))
            return Sets(np.array(list(chain.from_iterable(value)), dtype=np.float64), ends)
    except OverflowError as error:
        raise Invalid.at(pointer(FIELD), "a value is outside the range of a 64-bit float") from error
    raise Invalid.of(_flaws(value))


def sets_of_npy(body: bytes, reserve: Reserve) -> Sets:
    """A .npy file: one dimension is one set, two are a set per row."""
    array = array_of_npy(body, reserve)
    if array.ndim not in (1, 2):
        raise Invalid.at(
            pointer(FIELD), f"the array has {array.ndim} dimensions; it must have one (one set) or two (a set per row)"
        )
    extent = (1 if array.ndim == 1 else len(array), array.size)
    check_extent(*extent)
    reserve(extent_bytes(*extent))
    offsets = None if array.ndim == 1 else np.arange(len(array) + 1) * array.shape[1]
    return Sets(np.ascontiguousarray(array).ravel(), offsets)


def sets_of_arrow(body: bytes, reserve: Reserve) -> Sets:
    """An Arrow IPC stream of one column: numbers are one set, lists of numbers a set each."""
    from app.api.codecs import set_columns  # noqa: PLC0415 - with pyarrow, which takes 40 MB

    return set_columns.sets_of_arrow(body, reserve)


def _cut_out(body: bytes, reserve: Reserve) -> tuple[Any, Sets] | None:
    """The other fields, and the probabilities, if they are numbers or lists of numbers; errors or None otherwise."""
    at = body.find(_NAME)
    found = _BEGIN.match(body, at) if at >= 0 else None
    if found is None:
        return None
    begin = found.end()
    ends = [place for place in (body.find(b'"', begin), body.find(b"}", begin)) if place >= 0]
    end = body.rfind(b"]", begin, min(ends, default=begin))
    if end < 0:
        return None
    rest = parsed(body[: begin - 1] + b"null" + body[end + 1 :], reserve)
    if not isinstance(rest, dict) or rest.get(FIELD, 0) is not None:
        return None
    text = body[begin:end]
    sets, items = text.count(b"["), text.count(b",") + 1
    check_extent(sets, items)
    reserve(len(body) + extent_bytes(sets, items))
    letters = np.frombuffer(text, dtype=np.uint8)
    commas = np.flatnonzero(letters == ord(","))
    offsets = _offsets(letters, commas)
    if offsets is not None:
        text = text.translate(bytes.maketrans(b"[]", b"  "))
    p = _parse_in_parts(text, commas)
    del rest[FIELD]
    return rest, Sets(p, offsets)


def _offsets(letters: np.ndarray, commas: np.ndarray) -> np.ndarray | None:
    """Where each list begins among the numbers; None where there is no list, ValueError where they are not in order."""
    opens, closes = np.flatnonzero(letters == ord("[")), np.flatnonzero(letters == ord("]"))
    if not len(opens) and not len(closes):
        return None
    if len(opens) != len(closes) or (opens >= closes).any() or (closes[:-1] >= opens[1:]).any():
        raise ValueError("lists in lists")
    if not (_beside(letters, opens, -1) and _beside(letters, closes, 1)):
        raise ValueError("something beside a list")
    first, last = np.searchsorted(commas, opens), np.searchsorted(commas, closes)
    if first[0] or last[-1] != len(commas) or (first[1:] - last[:-1] != 1).any():
        raise ValueError("something between the lists")
    return np.concatenate(([0], np.cumsum(last - first + 1)))


def _beside(letters: np.ndarray, brackets: np.ndarray, way: int) -> bool:
    """Whether only blanks, not too many, lie between each bracket and the next comma or end in this direction."""
    places = brackets + way
    for _ in range(_MAX_BLANKS):
        places = places[(places >= 0) & (places < len(letters))]
        places = places[letters[places] != ord(",")]
        if not len(places):
            return True
        if not np.isin(letters[places], _BLANKS).all():
            return False
        places += way
    return False


def _parse_in_parts(text: bytes, commas: np.ndarray) -> np.ndarray:
    p = np.empty(len(commas) + 1)
    begin = 0
    for first in range(0, len(p), _PART):
        last = min(first + _PART, len(p))
        end = int(commas[last - 1]) if last < len(p) else len(text)
        values = orjson.loads(b"[" + text[begin:end] + b"]")
        if len(values) != last - first or not _NUMBERS.issuperset(map(type, values)):
            raise ValueError("not only numbers")
        p[first:last] = values
        begin = end + 1
    return p


def _flaws(value: list[Any]) -> Iterator[Flaw]:
    """Slow path: build detailed errors."""
    nested = isinstance(value[0], list)
    for i, item in enumerate(value):
        if isinstance(item, list) and nested:
            bad = [j for j, number in enumerate(item) if type(number) not in _NUMBERS]
            yield from (Flaw(pointer(FIELD, i, j), _A_PROBABILITY) for j in bad)
        elif nested or isinstance(item, list):
            yield Flaw(pointer(FIELD, i), f"the first value is {'a list' if nested else 'a number'}; send {_FORMS}")
        elif type(item) not in _NUMBERS:
            yield Flaw(pointer(FIELD, i), _A_PROBABILITY)
