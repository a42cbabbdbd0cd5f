"""One request and its answer: its id, its caller, its memory, and the limits of its body."""

import asyncio
import re
import secrets
from itertools import count
from typing import NamedTuple, cast

from fastapi import Request
from starlette.types import Message, Receive, Scope, Send

from app.access.caller import Caller
from app.api.memory import BODY, SMALL, VALUE, Charge, Memory
from app.errors import TooSlow
from payoff.errors import TooLarge

Header = tuple[bytes, bytes]
# For a body as a whole; the balancer in front reads slow ones before it passes them on.
BODY_SECONDS = 300.0
_STATE_KEY = "exchange"  # of the exchange in the state of the ASGI scope
# of 2⁶⁴; `int` refuses thousands, of which all but the last may be zeros
_MAX_DIGITS = 20
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# Ids need to be unique, not secret, and random bytes are a system call each.
_PROCESS = secrets.token_hex(4)
_numbers = count(1)

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


class Exchange:
    """One request and its answer.

    `Gate.admit` sets `caller`, `max_bytes`, the largest body, and `streams` where the body goes to
    disk as it arrives, and is not charged; `Gate.take` sets `rate`; the entrance sets
    `was_at_entrance`. `status` is that of the answer once it has begun, and `held` the bytes of
    `memory` that are held until it has been sent.
    """

    __slots__ = (
        "caller",
        "held",
        "max_bytes",
        "memory",
        "rate",
        "request_id",
        "status",
        "streams",
        "was_at_entrance",
    )

    def __init__(self, scope: Scope) -> None:
        self.request_id = request_id_of(scope)
        self.caller: Caller | None = None
        self.rate: RateState | None = None
        self.was_at_entrance = False
        self.max_bytes = 0
        self.streams = False
        self.status = 0
        self.memory: Memory | None = None
        self.held = 0

    def charge(self, count: int, size: int = VALUE) -> None:
        """Hold memory until the answer is sent, see `Charge`; from any thread."""
        if count * size > SMALL:
            self.hold(count * size)

    def hold(self, size: int) -> None:
        """Hold so many bytes; TooLarge or Busy where the memory does not have them."""
        assert self.memory is not None
        self.memory.take(size, self.held)
        self.held += size

    def release(self) -> None:
        """Give back the memory."""
        if self.held:
            assert self.memory is not None
            self.memory.give_back(self.held)


def exchange_of(scope: Scope) -> Exchange:
    """The exchange of a request."""
    state = scope.setdefault("state", {})
    exchange = state.get(_STATE_KEY)
    if exchange is None:
        exchange = state[_STATE_KEY] = Exchange(scope)
    return cast(Exchange, exchange)


def charge_of(request: Request) -> Charge:
    """The function that charges for the memory of a request."""
    return exchange_of(request.scope).charge


class Channel:
    """The ASGI functions of an exchange: they limit and charge the body, and add headers."""

    def __init__(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        self._exchange = exchange
        self._receive = receive
        self._send = send
        self._received = 0  # bytes
        self._deadline: float | None = None
        self._is_complete = False

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


def request_id_of(scope: Scope) -> str:
    """The value of the header X-Request-ID where it is a valid id, else a new id."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return f"{_PROCESS}{next(_numbers):08x}"


def announced(length: bytes) -> int | None:
    """The number in a header Content-Length; None where it is none, or too long to be read fast."""
    return int(length) if length.isdigit() and len(length) <= _MAX_DIGITS else None


def too_large(limit: int) -> TooLarge:
    """The error that a body has more than `limit` bytes."""
    return TooLarge(f"a body may have at most {limit:,} bytes here")
