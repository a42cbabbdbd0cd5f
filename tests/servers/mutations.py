"""Valid requests with one value changed, or two: each value in turn, by whatever a caller may send in its place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.servers.fuzzing import Sent

Change = Callable[[Any, Any], None]
"""What happens to the value that a holder (dict or list) has at a key."""

Mutation = Callable[[Sent], Sent]

DOUBLES = 0.25  # share of the mutations that change two values
_BYTES_PLACES = 12  # of a binary body


class Repeated(dict[str, Any]):
    """An object whose JSON text has one of its keys twice."""

    again: tuple[tuple[str, Any], ...] = ()

    def items(self) -> Any:  # what json.dumps writes
        return [*super().items(), *self.again]

    def copy(self) -> Repeated:
        other = Repeated(self)
        other.again = self.again
        return other


def mutations(valid: Sequence[Sent], seed: int) -> Iterator[Sent]:
    """Endlessly: in each round every place of every request is changed once, in a way that this place has not had,
    and a third as often two places of a request at once.
    """
    chance = random.Random(seed)
    dealt = [(sent, place, _shuffled(_changes(place), chance)) for sent in valid for place in _places(sent)]
    by_request: dict[int, list[tuple[Any, list[Mutation]]]] = {}
    for sent, place, changes in dealt:
        by_request.setdefault(id(sent), []).append((place, changes))
    turn = 0
    while True:
        chance.shuffle(dealt)
        for sent, _, changes in dealt:
            yield changes[turn % len(changes)](sent)
            if chance.random() < DOUBLES / (1 - DOUBLES):
                yield _twice(sent, by_request[id(sent)], chance)
        turn += 1


def _twice(sent: Sent, places: Sequence[tuple[Any, list[Mutation]]], chance: random.Random) -> Sent:
    changed = sent
    for _, changes in chance.choices(places, k=2):
        try:
            changed = chance.choice(changes)(changed)
        except (KeyError, IndexError, TypeError, AttributeError):  # the first change left no such place
            continue
    return changed


def _shuffled(changes: Sequence[Mutation], chance: random.Random) -> list[Mutation]:
    return chance.sample(changes, len(changes))


def _places(sent: Sent) -> Iterator[tuple[str, Any]]:
    """Everything of a request that has a value."""
    if isinstance(sent.body, bytes):
        yield from (("bytes", share / _BYTES_PLACES) for share in range(_BYTES_PLACES))
    elif sent.body is not None:
        yield from (("body", path) for path in _paths([sent.body]))
    yield from (("query", name) for name in [*sent.query, "page_size", "page_token", "unknown"])
    yield from (("headers", name) for name in {*sent.headers, *_HEADERS})
    yield from (("path", number) for number in range(1, sent.path.count("/") + 1))


def _paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each value inside."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (key,)
            yield from ((key, *path) for path in _paths(inner))


def _changes(place: tuple[str, Any]) -> list[Mutation]:
    part, where = place
    if part == "body":
        return [_in_body(where, change) for change in _BODY_CHANGES]
    if part == "bytes":
        return [_in_bytes(where, change) for change in _BYTES_CHANGES]
    if part == "path":
        return [_in_path(where, text) for text in _STEPS]
    texts = _QUERY_TEXTS if part == "query" else _HEADER_TEXTS
    return [_without(part, where), *(_with(part, where, text) for text in texts)]


def _in_body(path: tuple[Any, ...], change: Change) -> Mutation:
    def mutate(sent: Sent) -> Sent:
        found = _changed([sent.body], path, change)
        return replace(sent, body=found[0] if found else b"")  # the whole of it was removed

    return mutate


def _changed(holder: Any, path: tuple[Any, ...], change: Change) -> Any:
    """The holder with the change at the end of the path; what lies on the path is copied, the rest shared."""
    copy = holder.copy()
    key, *rest = path
    if rest:
        copy[key] = _changed(copy[key], tuple(rest), change)
    else:
        if type(copy) is dict:
            copy = Repeated(copy)
        change(copy, key)
    return copy


def _put(value: Any) -> Change:
    def change(holder: Any, key: Any) -> None:
        holder[key] = value

    return change


def _removed(holder: Any, key: Any) -> None:
    del holder[key]


def _repeated(holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder.again = (*holder.again, (key, None))
    else:
        holder.insert(key, holder[key])


def _repeated_alike(holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder.again = (*holder.again, (key, holder[key]))
    else:
        holder.extend([holder[key]] * 50)


def _renamed(holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[f"{key}/~ä\0"] = holder.pop(key)
    else:
        holder.insert(0, holder.pop(key))


def _upper(holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[key.upper()] = holder.pop(key)
    else:
        holder[key] = str(holder[key]).upper()


def _joined(holder: Any, key: Any) -> None:
    """Something more beside it."""
    if isinstance(holder, dict):
        holder["more"] = holder[key]
    else:
        holder.append(None)


def _emptied(holder: Any, key: Any) -> None:
    value = holder[key]
    holder[key] = type(value)() if isinstance(value, list | dict | str) else 0


def _doubled(holder: Any, key: Any) -> None:
    value = holder[key]
    holder[key] = value * 2 if isinstance(value, list | str | int | float) else [value, value]


def _swapped(holder: Any, key: Any) -> None:
    """Its type exchanged for the nearest other."""
    value = holder[key]
    if isinstance(value, dict):
        holder[key] = list(value.values())
    elif isinstance(value, list):
        holder[key] = {str(number): inner for number, inner in enumerate(value)}
    elif isinstance(value, str):
        holder[key] = float(len(value))
    else:
        holder[key] = str(value)


def _wrapped(holder: Any, key: Any) -> None:
    holder[key] = [holder[key]]


def _unwrapped(holder: Any, key: Any) -> None:
    value = holder[key]
    if isinstance(value, dict | list) and value:
        holder[key] = value[0] if isinstance(value, list) else next(iter(value.values()))


def _ragged(holder: Any, key: Any) -> None:
    """The first inside it is not like the others."""
    value = holder[key]
    if isinstance(value, list):
        holder[key] = [[], *value[1:]]


def _in_bytes(share: float, change: Callable[[bytes, int], bytes]) -> Mutation:
    def mutate(sent: Sent) -> Sent:
        assert isinstance(sent.body, bytes)
        return replace(sent, body=change(sent.body, int(share * len(sent.body))))

    return mutate


def _bits(number: int) -> Callable[[bytes, int], bytes]:
    def change(content: bytes, at: int) -> bytes:
        at += number  # not always the first byte of a part
        return content[:at] + bytes(byte ^ (1 << number) for byte in content[at : at + 1]) + content[at + 1 :]

    return change


def _over(put: bytes) -> Callable[[bytes, int], bytes]:
    return lambda content, at: content[:at] + put + content[at + len(put) :]


_BYTES_CHANGES: tuple[Callable[[bytes, int], bytes], ...] = (
    *(_bits(number) for number in range(8)),
    lambda content, at: content[:at],
    lambda content, at: content[at:],
    lambda content, at: content[:at] + content[at : at + 64] + content[at:],
    lambda content, at: content + content[at:],
    *map(_over, (b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\xff" * 7 + b"\x7f", b"\0\0\0\0\0\0\xf0\x7f")),
    *map(_over, (b"9" * 8, b"-1", b"{}", b"\0\0\0\0\0\0\xf8\x7f", b"\xff\xff\xff\xff\xff\xff\xef\x7f")),
)  # fmt: skip


def _in_path(number: int, text: str) -> Mutation:
    def mutate(sent: Sent) -> Sent:
        steps = sent.path.split("/")
        steps[number] = text
        return replace(sent, path="/".join(steps))

    return mutate


def _with(part: str, name: str, text: str) -> Mutation:
    def mutate(sent: Sent) -> Sent:
        fields = {**getattr(sent, part), name: text}
        return replace(sent, query=fields) if part == "query" else replace(sent, headers=fields)

    return mutate


def _without(part: str, name: str) -> Mutation:
    def mutate(sent: Sent) -> Sent:
        fields = {other: text for other, text in getattr(sent, part).items() if other != name}
        return replace(sent, query=fields) if part == "query" else replace(sent, headers=fields)

    return mutate


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


_LONG = "long " * 20_000
VALUES: tuple[Any, ...] = (
    None, True, False, [], [[1]], [[]], [None], {}, [{}], {"a": {}}, {"": None}, "", " ", "0", "-1", "nan", "null",
    "\0", "a\0b", "\ud800", "\udfff\ud800", "\U0001f600", "é", "_" * 300, _LONG, "../../x", "1e400",
    0, -1, 1, 2, 0.5, -0.0, 1.5, 1e308, -1e308, 1.7976931348623157e308, 1e150, 1.0000001e150, 1e-320, 5e-324, -5e-324,
    10**400, -(10**400), 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 2**31, 1e16, float("nan"), float("inf"),
    [1, [2], "a", None], [[1, 2], [3]], [[[1e308]]], [1e308, 1e308], [-1e308, 1e308], [True, False], ["a", "a"],
    _nested(60), _nested(900), {"name": "f_beta"}, {"kind": "logistic"}, [0] * 200,
)  # fmt: skip
_BODY_CHANGES: tuple[Change, ...] = (
    *map(_put, VALUES), _removed, _repeated, _repeated_alike, _renamed, _upper, _joined, _emptied, _doubled, _swapped,
    _wrapped, _unwrapped, _ragged,
)  # fmt: skip
_QUERY_TEXTS = (
    "", " ", "null", "[]", "[[1]]", "{}", "1e308", "-1", "0", "1", "-0.0", "1e-320", "1" + "0" * 400, "true", "nan",
    "Infinity", "\0", "\ud800", '"\\ud800"', "é", "x" * 9000, "[" * 500 + "]" * 500, "9" * 30, "2", "[[0,-1],[-10,5]]",
    '{"healthy":1e308}', '"a', "[1e308,-1e308]", '["a","a"]', "1e400", "18446744073709551616", "%", "a=b&c", "../x",
)  # fmt: skip
_HEADER_TEXTS = (
    "", " ", "0", "x", "*/*", "\0", "é" * 10, "a" * 9000, "wait=0", "wait=", "wait=-1", "application/json",
    "application/x-npy", "application/vnd.apache.arrow.stream", "application/json;charset=utf-16", "text/plain",
    "multipart/form-data", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "text/csv",
    "application/problem+json", "image/svg+xml", "image/svg+xml;q=nan", "application/x-npy;q=1e999", ";;,,=", "gzip",
    "application/vnd.api+json", "text/event-stream", '"x"', "W/*",
)  # fmt: skip
_HEADERS = ("Accept", "Content-Type", "Prefer", "Idempotency-Key", "If-None-Match")
_STEPS = (
    "", ".", "..", "null", "-1", "0", "1", "1e308", "9" * 30, "2147483648", "%00", "a%00b", "%ed%a0%80", "%ff", "é",
    "x" * 9000, "%2e%2e", "%2F", ":", "@", "a:b", "a:1", "a@b", "a:99999999999999999999", "%5b%5d", "%7b%7d", "A",
    "true", "ds_00000000000000ff", "job_00000000000000000000", "predict", "benefit", "%0A", "x;y=z", "1.0", "-0", "+1",
    "٣",
)  # fmt: skip
