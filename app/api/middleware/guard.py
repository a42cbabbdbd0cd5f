"""Who may come in, where, how often, and with how much: keys, scopes, rates and sizes, before anything is read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope

from app.access.caller import Caller
from app.access.keyring import Keyring, WrongKey
from app.access.rates import Windows, whole
from app.api.middleware.memory import announced
from app.api.middleware.permits import Access
from app.api.middleware.security_headers import Header
from app.api.middleware.sites import Sites
from app.errors import Invalid, KeyMissing, TooLarge, TooMany, TooSlow, Unsupported
from app.text import check_query

KEY_HEADER = "X-API-Key"
_BEARER = b"bearer "
_BODY_SECONDS = 300.0  # for a whole body; the balancer in front reads slow ones before it passes them on


@dataclass(frozen=True)
class BodyLimits:
    """Largest bodies in bytes."""

    default: int
    upload: int


class Guard:
    """Lets through only what it should; routes ask it when they are dispatched.

    It leaves in the request's state the `caller`, and `headers` to be added to the answer.
    """

    def __init__(self, keyring: Keyring, limits: BodyLimits, sites: Sites) -> None:
        self._keyring = keyring
        self._limits = limits
        self._sites = sites
        self._used = Windows()

    @property
    def most_bytes(self) -> int:
        """The largest body of a route that takes no uploads."""
        return self._limits.default

    def admit(self, access: Access, scope: Scope, receive: Receive) -> Receive:
        """The request's body, bounded; raises the PayoffError to be answered where the request is not allowed."""
        if not scope["path"].isprintable():
            raise Invalid.at("", "the path has a control character or another that cannot be printed: leave it out")
        length = None
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = value
            elif name == b"content-encoding" and value.lower() != b"identity":
                raise Unsupported("bodies are taken as they are: send no Content-Encoding (files may be gzipped)")
        if not access.is_open:
            self._identify(scope, counted=access.counted).need(access.scopes)
        check_query(scope.get("query_string", b""))
        most = self._limits.upload if access.uploads else self._limits.default
        if length is not None and (announced(length) or 0) > most:
            raise _too_large(most)
        if access.uploads:
            scope["state"]["memory"].streams = True
        return _bounded(receive, most)

    def caller(self, scope: Scope, head: Mapping[bytes, bytes]) -> Caller:
        """Who asks, `head` being the headers; raises the PayoffError to be answered otherwise. Counts nothing."""
        key = head.get(b"x-api-key")
        if key is None:
            bearer = head.get(b"authorization", b"")
            key = bearer[len(_BEARER) :].strip() if bearer[: len(_BEARER)].lower() == _BEARER else None
        caller = self._keyring.caller(key)
        if caller is self._keyring.anybody:
            self._sites.check(scope)
        return caller

    def take(self, caller: Caller, scope: Scope) -> tuple[list[Header], float]:
        """Take one request off the caller's rate: what the answer's headers say of it, and the seconds to wait.

        Seconds are 0 where the rate allows the request. One with many instances is one.
        """
        rate = caller.rate
        if rate is None:
            return [], 0.0
        allowed = self._used.take(caller.client or self.address(scope), rate)
        name = b'"key"' if caller.client else b'"address"'
        policy = (b"ratelimit-policy", b"%b;q=%d;w=%d" % (name, rate.amount, rate.seconds))
        return [policy, (b"ratelimit", b"%b;r=%d;t=%d" % (name, allowed.left, whole(allowed.seconds)))], allowed.wait

    def must_wait(self, caller: Caller, scope: Scope) -> bool:
        """Whether the caller's rate allows no request now; takes none off it."""
        rate = caller.rate
        return rate is not None and self._used.wait(caller.client or self.address(scope), rate) > 0

    def _identify(self, scope: Scope, *, counted: bool) -> Caller:
        headers = scope["headers"]
        head = dict(headers)
        if len(head) != len(headers):  # the hot path takes no request with a header that comes twice
            _refuse_two_keys(headers)
        try:
            caller = self.caller(scope, head)
        except WrongKey:
            self._keyring.count_wrong_key(self.address(scope))
            raise
        state = scope.setdefault("state", {})
        state["caller"] = caller
        if counted and caller.rate is not None:
            state["headers"], wait = self.take(caller, scope)
            if wait:
                raise TooMany(
                    f"more than {caller.rate.amount} requests in {caller.rate.seconds} s", seconds=whole(wait)
                )
        return caller

    def holds(self, scope: Scope) -> bool:
        """Whether the key of a request that was admitted is still in force."""
        return self._keyring.holds(scope["state"]["caller"])

    def address(self, scope: Scope) -> str:
        """The address that a request counts for; behind trusted proxies the server has put the client's there."""
        return scope["client"][0] if scope.get("client") else ""


def _refuse_two_keys(headers: list[Header]) -> None:
    """KeyMissing where one of the headers for a key comes twice: whose request it is must not depend on the reader."""
    for header in (KEY_HEADER, "Authorization"):
        if sum(name == header.lower().encode() for name, _ in headers) > 1:
            raise KeyMissing(f"the header {header!r} is sent twice; send one key")


def _bounded(receive: Receive, limit: int) -> Receive:
    """The same stream of body parts, broken off where it passes the limit without having announced it, or where the
    whole takes too long.
    """
    seen = 0
    until: float | None = None
    complete = False

    async def bounded() -> Message:
        nonlocal seen, until, complete
        if complete:
            return await receive()
        until = until or asyncio.get_running_loop().time() + _BODY_SECONDS
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError as error:
            raise TooSlow(f"the body did not arrive within {_BODY_SECONDS:g} s") from error
        complete = not message.get("more_body", False)
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
        return message

    return bounded


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"a body may have at most {limit:,} bytes here")
