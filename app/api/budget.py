"""A process-wide budget for the bytes of requests in flight: bodies, working memory, and answers that are not sent yet.

Every request has a `Share` of the budget. The gate charges it for the body as it arrives and for the answer until the
client has read it. A route adds what its work needs, before it allocates:

    share(request).reserve(rows * columns * 8)

The share is given back when the answer has been sent, so a route needs no `finally`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import cast

import psutil
from fastapi import Request
from starlette.types import Scope

from app.errors import Busy, TooLarge

SMALL = 64 * 1024  # bytes of a body or an answer that are not charged; connections bound them
_BODY_FACTOR = 2  # a body is in memory twice while its parts are joined
_RETRY_SECONDS = 2
_MAX_DIGITS = 20  # of 2⁶⁴; `int` refuses thousands, of which all but the last may be zeros
_MB = 2**20
_MAX = 2048 * _MB
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class Budget:
    """Counts bytes in flight, at most `limit`; safe to use from any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        self._lock = Lock()

    @property
    def used(self) -> int:
        return self._used

    def check(self, count: int) -> None:
        """Raise what `take` would raise, and take nothing."""
        if count > self.limit:
            raise TooLarge(
                f"the request needs about {_mb(count)} MB of memory; the service has {_mb(self.limit)} MB for requests"
            )
        if self._used + count > self.limit:
            raise Busy("the requests in progress use all memory; try again later", seconds=_RETRY_SECONDS)

    def take(self, count: int) -> None:
        """Take `count` bytes; TooLarge where they can never fit, Busy where they do not fit now."""
        with self._lock:
            self.check(count)
            self._used += count

    def give_back(self, count: int) -> None:
        with self._lock:
            self._used -= count


class Share:
    """What one request holds of the budget."""

    __slots__ = ("_body", "_budget", "_held", "streams")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._held = 0
        self._body = 0
        self.streams = False  # the body goes to disk as it arrives, and is not charged

    def reserve(self, count: int) -> None:
        """Hold `count` bytes more, until the answer is sent; TooLarge (413) or Busy (503) where they do not fit."""
        self._budget.take(count)
        self._held += count

    def release(self, count: int) -> None:
        """Give `count` bytes back before the answer is sent."""
        count = min(count, self._held)
        self._held -= count
        self._budget.give_back(count)

    def expect(self, count: int) -> None:
        """Refuse a body of `count` bytes that does not fit now, before it is read."""
        if not self.streams:
            self._budget.check(_BODY_FACTOR * count)

    def receive(self, count: int) -> None:
        """Hold bytes of the body."""
        if not self.streams:
            self.reserve(_BODY_FACTOR * count)
            self._body += count

    def answer(self, count: int) -> None:
        """Hold the body and an answer of `count` bytes, and nothing else: the work is done."""
        change = self._body + count - self._held
        if change > 0:
            self.reserve(change)
        else:
            self.release(-change)

    def close(self) -> None:
        self.release(self._held)


def share(request: Request) -> Share:
    """The request's share of the budget."""
    return cast(Share, request.scope["state"]["memory"])


def announced(length: bytes) -> int | None:
    """The number in a header Content-Length; None where it is none, and where it is too long to be read quickly."""
    return int(length) if length.isdigit() and len(length) <= _MAX_DIGITS else None


def length_of_body(scope: Scope) -> int | None:
    """The length of the body, 0 where there is none, None where only its end will tell."""
    length: int | None = 0
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = announced(value)
        elif name == b"transfer-encoding":
            return None
    return length


def _mb(count: int) -> int:
    return -(-count // _MB)


def default_limit() -> int:
    """A third of the memory of the container or machine, at most `_MAX`: the rest is for models and jobs."""
    return min(min(_memory_sizes()) // 3, _MAX)


def _memory_sizes() -> Iterator[int]:
    yield psutil.virtual_memory().total
    for path in _CGROUP_LIMITS:
        try:
            yield int(path.read_text())
        except (OSError, ValueError):  # absent, or the word "max"
            continue
