"""One request and its answer: its id, its caller, its memory, the limits of its body; and the layer
around all routes in which an exchange begins and ends.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import NamedTuple, cast

import structlog
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.caller import NOBODY, Caller
from app.api.errors import problem, response_to
from app.api.memory import BODY, SMALL, VALUE, Charge, Memory
from app.errors import Busy, TooSlow
from app.monitoring.logs import RequestLines
from app.monitoring.metrics import RequestMetrics
from payoff.errors import TooLarge

Header = tuple[bytes, bytes]
# requests; event streams and requests that wait for a thread are among them
MAX_AT_ONCE = 1_000
# For a body as a whole; the balancer in front reads slow ones before it passes them on.
BODY_SECONDS = 300.0
_CLIENT_GONE = 499  # the client disconnected before the response; logged only
_HEALTH = "/health/"
_STATE_KEY = "exchange"  # of the exchange in the state of the ASGI scope
# of 2⁶⁴; `int` refuses thousands, of which all but the last may be zeros
_MAX_DIGITS = 20
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# Ids need to be unique, not secret, and random bytes are a system call each.
_PROCESS = secrets.token_hex(4)
_numbers = count(1)
_log = structlog.get_logger("payoff.request")

# On every answer. Strict-Transport-Security is left to the server in front that ends TLS.
ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
# On every answer that does not set them itself. Answers hold data that may soon be out of date.
UNLESS_OWN: tuple[Header, ...] = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class RateState(NamedTuple):
    """The caller's rate with this request: headers of the answer, and seconds to wait if it is
    exceeded.
    """

    headers: list[Header]
    wait: float


@dataclass(slots=True)
class Exchange:
    """One request and its answer.

    `Gate.admit` sets `caller`, `max_bytes`, the largest body, and `streams` where the body goes to
    disk as it arrives, and is not charged; `Gate.take` sets `rate`; the entrance sets
    `was_at_entrance`. `status` is that of the answer once it has begun, and `held` the bytes of
    `memory` that are held until it has been sent.
    """

    request_id: str
    caller: Caller = NOBODY
    rate: RateState | None = None
    was_at_entrance: bool = False
    max_bytes: int = 0
    streams: bool = False
    status: int = 0
    memory: Memory | None = None
    held: int = 0

    def charge(self, count: int, size: int = VALUE) -> None:
        """Hold memory until the answer is sent, see `Charge`; from any thread."""
        if count * size > SMALL:
            self.hold(count * size)

    def hold(self, size: int) -> None:
        """Hold so many bytes; TooLarge or Busy where the memory does not have them."""
        assert self.memory is not None
        self.memory.take(size, self.held)
        self.held += size


def exchange_of(scope: Scope) -> Exchange:
    """The exchange of a request; its id is that of the header X-Request-ID where it has a valid
    one.
    """
    state = scope.setdefault("state", {})
    exchange = state.get(_STATE_KEY)
    if exchange is None:
        request_id = f"{_PROCESS}{next(_numbers):08x}"
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                request_id = str(value, "ascii")
                break
        exchange = state[_STATE_KEY] = Exchange(request_id)
    return cast(Exchange, exchange)


def caller_of(request: Request) -> Caller:
    """The caller of a request that the gate has admitted."""
    return exchange_of(request.scope).caller


def charge_of(request: Request) -> Charge:
    """The function that charges for the memory of a request."""
    return exchange_of(request.scope).charge


@dataclass(slots=True)
class Channel:
    """The ASGI functions of an exchange: they limit and charge the body, and add headers."""

    _exchange: Exchange
    _receive: Receive
    _send: Send
    _received: int = 0  # bytes
    _deadline: float | None = None
    _is_complete: bool = False

    async def receive(self) -> Message:
        """The next part of the body; TooLarge, TooSlow, or Busy where the memory is used up."""
        if self._is_complete:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError as error:
            raise TooSlow(
                f"the body did not arrive within {BODY_SECONDS:g} s"
            ) from error
        self._is_complete = not message.get("more_body", False)
        size = len(message.get("body", b""))
        self._received += size
        if self._received > self._exchange.max_bytes:
            raise too_large(self._exchange.max_bytes)
        if self._received > SMALL and not self._exchange.streams:
            self._exchange.hold(size * BODY)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer, with the headers that all answers have."""
        if message["type"] == "http.response.start":
            exchange = self._exchange
            exchange.status = message["status"]
            request_id = (b"x-request-id", exchange.request_id.encode())
            rate = () if exchange.rate is None else exchange.rate.headers
            headers = [*message["headers"], request_id, *rate, *ALWAYS]
            names = {name for name, _ in headers}
            headers += [header for header in UNLESS_OWN if header[0] not in names]
            message["headers"] = headers
        await self._send(message)


def announced(length: bytes) -> int | None:
    """The number in a header Content-Length; None where it is none, or too long to be read fast."""
    return int(length) if length.isdigit() and len(length) <= _MAX_DIGITS else None


def too_large(limit: int) -> TooLarge:
    """The error that a body has more than `limit` bytes."""
    return TooLarge(f"a body may have at most {limit:,} bytes here")


class Records:
    """Counts the requests that were answered, and writes their lines."""

    def __init__(self, metrics: RequestMetrics, lines: RequestLines | None) -> None:
        self._metrics = metrics
        self._lines = lines

    def add(
        self, scope: Scope, route: str, request_id: str, status: int, seconds: float
    ) -> None:
        """Count a request that was answered, and write its line."""
        method = scope["method"]
        self._metrics.times_of(method, route, status).observe(seconds)
        if self._lines is not None:
            line = {"request_id": request_id, "method": method, "path": scope["path"]}
            self._lines.add({**line, "status": status, "ms": round(seconds * 1e3, 3)})


Shortcut = Callable[[Scope, Receive, Send], Awaitable[Receive | None]]
"""Answers a request and returns None, or returns the `receive` with which it goes on."""


class ExchangeLayer:
    """ASGI middleware around all routes: a request gets an id, a place among those in progress, and
    at the end its line in the log and in the metrics.

    Requests for the paths of `shortcuts` are offered to these first, unless the server has done so.
    """

    def __init__(
        self,
        app: ASGIApp,
        memory: Memory,
        records: Records,
        shortcuts: Mapping[str, Shortcut],
    ) -> None:
        self._app = app
        self._memory = memory
        self._records = records
        self._shortcuts = shortcuts
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = exchange_of(scope)
        shortcut = self._shortcuts.get(scope["path"])
        if shortcut is not None and not exchange.was_at_entrance:
            received = await shortcut(scope, receive, send)
            if received is None:
                return
            receive = received
        began = perf_counter()
        exchange.memory = self._memory
        channel = Channel(exchange, receive, send)
        structlog.contextvars.bind_contextvars(request_id=exchange.request_id)
        takes_place = not scope["path"].startswith(_HEALTH)
        self._running += takes_place
        app = self._app
        if takes_place and self._running > MAX_AT_ONCE:
            app = _refuse
        try:
            await app(scope, channel.receive, channel.send)
        except ClientDisconnect:
            pass
        except Exception as error:
            response = response_to(scope, error)
            if response is None:
                _log.exception("unexpected error")
                detail = (
                    f"unexpected error; see the log for request {exchange.request_id}"
                )
                response = problem(scope, 500, "Internal Server Error", detail)
            if exchange.status:
                raise  # the answer has begun: the connection can only be broken off
            await response(scope, receive, channel.send)
        finally:
            self._running -= takes_place
            if exchange.held:
                self._memory.give_back(exchange.held)
            # The template of the path, of which there are few.
            route = getattr(scope.get("route"), "path", "unmatched")
            status = exchange.status or _CLIENT_GONE
            seconds = perf_counter() - began
            self._records.add(scope, route, exchange.request_id, status, seconds)
            structlog.contextvars.clear_contextvars()


async def _refuse(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise Busy(f"{MAX_AT_ONCE:,} requests are in progress; try again later")
