"""A process-wide budget for the bytes of requests in flight: bodies, working memory, and answers that are not sent yet.

Every request has a `Share` of the budget. Middleware charges it for the body as it arrives and for the answer until
the client has read it. A route adds what its work needs, before it allocates:

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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import in_form, respond
from app.errors import Busy, PayoffError, TooLarge

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

    __slots__ = ("_body", "_budget", "_held", "refused", "streams")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._held = 0
        self._body = 0
        self.refused: PayoffError | None = None
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
        try:
            self._budget.check(_BODY_FACTOR * count)
        except PayoffError as error:
            self.refused = error
            raise

    def receive(self, count: int) -> None:
        """Hold bytes of the body; what is refused here ends the request, whatever the route makes of the error."""
        try:
            self.reserve(_BODY_FACTOR * count)
        except PayoffError as error:
            self.refused = error
            raise
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


class InFlight:
    """ASGI middleware that gives each request its share, and answers 413 or 503 where the budget does not allow it.

    Bodies are charged from the moment that the route, which has checked the key, begins to read them. One whose length
    is announced is refused before it is read.
    """

    def __init__(self, app: ASGIApp, budget: Budget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        mine = scope.setdefault("state", {})["memory"] = Share(self._budget)
        try:
            length = _length_of_body(scope)
            if length is None or length > SMALL:
                receive = _charged(receive, mine, length or 0)
            await self._app(scope, receive, _until_sent(send, mine))
            if mine.refused is not None:
                await in_form(scope, respond(mine.refused))(scope, receive, send)
        finally:
            mine.close()


def announced(length: bytes) -> int | None:
    """The number in a header Content-Length; None where it is none, and where it is too long to be read quickly."""
    return int(length) if length.isdigit() and len(length) <= _MAX_DIGITS else None


def _length_of_body(scope: Scope) -> int | None:
    """The length of the body, 0 where there is none, None where only its end will tell."""
    length: int | None = 0
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = announced(value)
        elif name == b"transfer-encoding":
            return None
    return length


def _charged(receive: Receive, mine: Share, announced: int) -> Receive:
    async def charged() -> Message:
        nonlocal announced
        if mine.streams:
            return await receive()
        if announced:
            mine.expect(announced)
            announced = 0
        message = await receive()
        if message["type"] == "http.request":
            mine.receive(len(message.get("body", b"")))
        return message

    return charged


def _until_sent(send: Send, mine: Share) -> Send:
    """The same channel; a long answer is charged before it begins, and counts as sent once the client has read it.

    Of an answer that comes in parts, such as a file, only one part is in memory at a time, and charged.
    """
    start: Message | None = None  # of a long answer, until its first part tells whether it comes whole

    async def until_sent(message: Message) -> None:
        nonlocal start
        if mine.refused is not None:
            return  # the answer to that follows
        if message["type"] == "http.response.start" and _length_of(message) > SMALL:
            start = message
            return
        size = len(message.get("body", b""))
        if start is not None:
            try:
                mine.answer(size)
            except PayoffError as error:
                mine.refused = error
                return
            await send(start)
            start = None
        if size > SMALL and not message.get("more_body", False):
            await send({**message, "more_body": True})
            message = {"type": "http.response.body"}  # the server takes it when the client has read nearly all
        await send(message)

    return until_sent


def _length_of(message: Message) -> int:
    return next((int(value) for name, value in message["headers"] if name == b"content-length"), 0)


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
