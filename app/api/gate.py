"""The gate: what happens to every request before its route is asked, and to every answer on its way out.

`Gate` is the ASGI layer around all requests that the entrance does not answer. On the way in a request gets an id and,
unless it is a health check, a place among those in progress. Which route it is for is known only where it is
dispatched: there the guard says who asks, and whether they may. `Passage` bounds the body in bytes and time, and puts
on the headers of every answer. At the end come the log line and the metrics. Slow clients, connections, sizes of
headers and TLS are for the server and the balancer in front.

Memory is charged twice. `Passage` charges a body by its bytes as it arrives, and an answer until the client has read
it. Before a body is decoded, and before an answer is computed, the number of their values is charged:

    passage_of(request).reserve(rows * columns * VALUE)

All of it is given back when the answer has been sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import cast

import psutil
import structlog
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import in_form, problem, respond
from app.api.guard import Record, length_of_body, request_id_of, route_of, secured, too_large
from app.errors import Busy, PayoffError, TooLarge, TooSlow

MAX_AT_ONCE = 1_000  # event streams and requests that wait for a thread are among them
BODY_SECONDS = 300.0  # for a whole body; the balancer in front reads slow ones before it passes them on
CLIENT_GONE = 499  # the client disconnected before the response; logged only
SMALL = 64 * 1024  # bytes of a body or an answer that are not charged; connections bound them
NUMBER = 16  # bytes of memory: a float64, and once more while it is converted
VALUE = 120  # of an object: a number takes 32, a list 80, a dictionary 230; rows are copied once
_BODY_FACTOR = 2  # a body is in memory twice while its parts are joined
_RETRY_SECONDS = 2
_HEALTH = "/health/"
_MB = 2**20
_MAX = 2048 * _MB
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_log = structlog.get_logger("payoff.request")

Reserve = Callable[[int], None]  # is called with a number of bytes of memory; raises where there are no more


class Gate:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, record: Record, budget: Budget, most: int = MAX_AT_ONCE) -> None:
        self._app = app
        self._record = record
        self._budget = budget
        self._most = most
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        passage = Passage(scope, receive, send, self._budget)
        structlog.contextvars.bind_contextvars(request_id=passage.request_id)
        try:
            with self._place(scope["path"]):
                await self._app(scope, passage.receive, passage.send)
            passage.complete()
        except ClientDisconnect:
            pass
        except Exception as error:
            if isinstance(error, PayoffError):  # that no layer further in has answered
                response = respond(error)
            else:
                _log.exception("unexpected error")
                words = f"unexpected error; see the log for request {passage.request_id}"
                response = problem(500, "Internal Server Error", words)
            if passage.status:
                raise  # the answer has begun: all that is left is to break the connection off
            await in_form(scope, response)(scope, receive, passage.send)
        finally:
            passage.close()
            seconds = perf_counter() - began
            self._record(scope, route_of(scope), passage.request_id, passage.status or CLIENT_GONE, seconds)
            structlog.contextvars.clear_contextvars()

    @contextmanager
    def _place(self, path: str) -> Iterator[None]:
        """A place among the requests in progress; Busy where there is none, except for health checks."""
        if path.startswith(_HEALTH):
            yield
            return
        if self._running >= self._most:
            raise Busy(f"{self._most:,} requests are in progress; try again later", seconds=1)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


class Passage:
    """One request: its body on the way in, its answer on the way out. `Guard.admit` sets `most`, the largest body in
    bytes, and `streams` where the body goes to disk as it arrives, and is not charged.

    Of an answer that comes in parts, such as a file, only one part is in memory at a time, and charged.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, budget: Budget) -> None:
        self.request_id = request_id_of(scope)
        self.status = 0  # of the answer, once it has begun
        self.most = 0
        self.streams = False
        self._scope, self._receive, self._send = scope, receive, send
        self._budget = budget
        self._held = 0  # bytes of memory, of which these are the body's
        self._body = 0
        self._announced = length_of_body(scope)
        self._seen = 0
        self._until: float | None = None
        self._read = False
        self._start: Message | None = None  # of a long answer, until its first part tells whether it comes whole
        self._refused: PayoffError | None = None
        scope.setdefault("state", {}).update(request_id=self.request_id, passage=self)

    def reserve(self, count: int) -> None:
        """Hold `count` bytes more, until the answer is sent; raises what `Budget.take` raises."""
        self._budget.take(count)
        self._held += count

    def close(self) -> None:
        """Give all memory back."""
        self._budget.give_back(self._held)
        self._held = 0

    async def receive(self) -> Message:
        """The next part of the body; TooLarge, TooSlow, or Busy where it does not fit into memory now."""
        if self._read:
            return await self._receive()
        charged = not self.streams and (self._announced is None or self._announced > SMALL)
        if self._until is None:
            self._until = asyncio.get_running_loop().time() + BODY_SECONDS
            if charged:
                self._budget.check(_BODY_FACTOR * (self._announced or 0))  # before it is read
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise TooSlow(f"the body did not arrive within {BODY_SECONDS:g} s") from error
        self._read = not message.get("more_body", False)
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._seen += size
            if self._seen > self.most:
                raise too_large(self.most)
            if charged:
                self.reserve(_BODY_FACTOR * size)
                self._body += size
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer. A long one is charged before it begins, and counts as sent once the client has
        read it; where it does not fit, `complete` answers.
        """
        if self._refused is not None:
            return
        if message["type"] == "http.response.start":
            if int(dict(message["headers"]).get(b"content-length", 0)) > SMALL:
                self._start = message
            else:
                await self._begin(message)
            return
        size = len(message.get("body", b""))
        if self._start is not None:
            try:
                self._charge_answer(size)
            except PayoffError as error:
                self._refused = error
                return
            start, self._start = self._start, None
            await self._begin(start)
        if size > SMALL and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            message = {"type": "http.response.body"}  # the server takes it when the client has read nearly all
        await self._send(message)

    def complete(self) -> None:
        """Raise what the answer was refused for."""
        if self._refused is not None:
            refused, self._refused, self._start = self._refused, None, None
            raise refused

    def _charge_answer(self, count: int) -> None:
        """Hold the body and an answer of `count` bytes, and nothing else: the work is done."""
        change = self._body + count - self._held
        if change > 0:
            self.reserve(change)
        else:
            self._held += change
            self._budget.give_back(-change)

    async def _begin(self, start: Message) -> None:
        self.status = start["status"]
        own = (b"x-request-id", self.request_id.encode())
        start["headers"] = secured([*start["headers"], own, *self._scope["state"].get("headers", ())])
        await self._send(start)


def passage_of(request: Request) -> Passage:
    """The request's passage."""
    return cast(Passage, request.scope["state"]["passage"])


# The memory for requests


class Budget:
    """Counts the bytes of all requests in flight, at most `limit`; safe to use from any thread."""

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
        """Take `count` bytes; TooLarge (413) where they can never fit, Busy (503) where they do not fit now."""
        with self._lock:
            self.check(count)
            self._used += count

    def give_back(self, count: int) -> None:
        with self._lock:
            self._used -= count


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
