"""Answers as they came: of bounded length, and read so that whatever is wrong with one is an InvalidAnswer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from payoff_client.errors import InvalidAnswer, PayoffError
from payoff_client.shapes import Shape, check

T = TypeVar("T")
LONGEST_LINE = 2**20
_LONGEST = {"POST": 256 * 2**20}  # bytes: 5,000,000 numbers, which the service has at most, are some 90 MB of JSON
_LONGEST_OTHER = 32 * 2**20
_KEPT = 4  # times the length of what was sent, for columns that come back
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, read in full."""

    method: str
    url: httpx.URL
    status: int
    headers: httpx.Headers
    content: bytes

    def read(self, reader: Callable[[Answer], T]) -> T:
        """What a pure function makes of the answer: all that it raises is the answer's fault."""
        try:
            return reader(self)
        except PayoffError:
            raise
        except Exception as error:
            raise unreadable(self.method, self.url, self.content, error) from error

    def document(self, shape: Shape) -> Any:
        """The JSON of the answer."""
        return self.read(lambda answer: check(parsed(answer.content), shape))


class Body:
    """Gathers what comes of a response; InvalidAnswer where it is compressed, or longer than it can sensibly be."""

    def __init__(self, response: httpx.Response, most: int | None = None) -> None:
        request = response.request
        sent = _KEPT * int(request.headers.get("Content-Length", 0))
        self._response = response
        self._most = _LONGEST.get(request.method, _LONGEST_OTHER) + sent if most is None else most
        self._blocks: list[bytes] = []
        self._length = 0
        packed = response.headers.get("Content-Encoding", "identity")
        if packed.lower() != "identity":
            raise self._refused(f"it is compressed ({packed[:_SHOWN]}), although the request excludes that")

    def add(self, block: bytes) -> None:
        """The next bytes."""
        self._blocks.append(block)
        self._length += len(block)
        if self._length > self._most:
            raise self._refused(f"it has more than {self._most:,} bytes")

    def lines(self, block: bytes) -> list[bytes]:
        """The lines that the next bytes complete; their sum is unbounded, as that of events is."""
        *found, rest = b"".join([*self._blocks, block]).split(b"\n")
        self._blocks, self._length = [], 0
        self.add(rest)
        return found

    def answer(self) -> Answer:
        """All of it."""
        request, response = self._response.request, self._response
        return Answer(request.method, request.url, response.status_code, response.headers, b"".join(self._blocks))

    def _refused(self, reason: str) -> InvalidAnswer:
        request = self._response.request
        return unreadable(request.method, request.url, b"".join(self._blocks[:1]), ValueError(reason))


def parsed(content: bytes) -> Any:
    """The value of JSON, in text that can be printed and stored; ValueError or RecursionError otherwise."""
    found = json.loads(content) if content else None
    if b"\\u" in content:
        json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair has no UTF-8
    return found


def unreadable(method: str, url: httpx.URL, content: bytes, error: Exception) -> InvalidAnswer:
    """What was asked, and what came."""
    place = url.copy_with(path="/", query=None)
    came = f"; it begins {content[:_SHOWN].decode('utf-8', 'replace')!r}" if content else ""
    reason = str(error)[:300] or type(error).__name__
    if isinstance(error, KeyError | IndexError | AttributeError | RecursionError):
        reason = f"{type(error).__name__}: {reason}"
    return InvalidAnswer(
        f"the answer to {method} {url.path} cannot be read ({reason}){came}: is {place} a Payoff service?"
    )
