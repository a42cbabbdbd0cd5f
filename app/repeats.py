"""Names that an object of a JSON document holds twice: parsers keep the last value and do not say so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from app.errors import Flaw, Invalid, pointer


def refuse_repeats(body: bytes, document: Any) -> None:
    """Invalid at a name that an object of `body` holds twice: of its values the parser has kept the last in `document`.

    Every name is followed by a colon, so there is none as long as there are as many colons as names. O(size), and where
    texts hold no colons O(objects).
    """
    colons, objects = body.count(b":"), body.count(b"{")
    names = _names(document, objects)
    if colons == names:
        return
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    bare = b"".join(plain.split(b'"')[::2])  # without its texts
    if bare.count(b":") == (names if bare.count(b"{") == objects else _names(document, bare.count(b"{"))):
        return
    loc = next(_repeats(json.loads(body, object_pairs_hook=_object, parse_int=str, parse_float=str), ""))
    msg = "the object has this name twice; send it once"
    raise Invalid(msg, [Flaw(loc, msg)])


def _names(document: Any, objects: int) -> int:
    """How many names the objects in a document hold, found by level until all `objects` are."""
    names = 0
    level: Iterable[Any] = [document]
    while True:
        groups: list[Iterable[Any]] = []
        for value in level:
            if type(value) is dict:
                names += len(value)
                objects -= 1
                groups.append(value.values())
            elif type(value) is list:
                groups.append(value)
        if objects <= 0 or not groups:
            return names
        level = chain.from_iterable(groups)


class _Twice(str):
    """Replaces an object that has this name twice."""

    __slots__ = ()


def _object(pairs: list[tuple[str, Any]]) -> Any:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            return _Twice(name)
        fields[name] = value
    return fields


def _repeats(value: Any, loc: str) -> Iterator[str]:
    """Pointers to the names that an object has twice."""
    if isinstance(value, _Twice):
        yield loc + pointer(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _repeats(inner, loc + pointer(name))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _repeats(inner, f"{loc}/{i}")
