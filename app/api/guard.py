"""Who may come in, where, how often, and with how much: keys, scopes, rates and sizes, before anything is read."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.caller import Caller
from app.access.keyring import Keyring
from app.access.rates import Windows, whole
from app.api.errors import respond
from app.api.permits import is_open, needed, path_of
from app.errors import PayoffError, TooLarge, TooMany, Unsupported
from app.text import check_query

KEY_HEADER = "X-API-Key"
_BEARER = b"bearer "


@dataclass(frozen=True)
class BodyLimits:
    """Largest bodies in bytes."""

    default: int
    upload: int

    def of(self, path: str) -> int:
        return self.upload if path == "/datasets" else self.default


class Guard:
    """ASGI middleware that lets through only what it should.

    It leaves in the request's state the `access` that the caller has, and `headers` to be added to the answer.
    """

    def __init__(self, app: ASGIApp, keyring: Keyring, limits: BodyLimits) -> None:
        self._app = app
        self._keyring = keyring
        self._limits = limits
        self._used = Windows()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            most = self._admit(scope)
            await self._app(scope, _bounded(receive, most), send)
        except PayoffError as error:
            await respond(error)(scope, receive, send)

    def _admit(self, scope: Scope) -> int:
        """How large the body may be; raises what the answer shall say where there is to be none."""
        key = length = None
        for name, value in scope["headers"]:
            if name == b"x-api-key":
                key = value
            elif name == b"content-length":
                length = value
            elif name == b"authorization" and key is None and value[: len(_BEARER)].lower() == _BEARER:
                key = value[len(_BEARER) :].strip()
            elif name == b"content-encoding" and value.lower() != b"identity":
                raise Unsupported("bodies are taken as they are: send no Content-Encoding (files may be gzipped)")
        path = path_of(scope)
        if not is_open(path):
            self._identify(scope, path, key)
        check_query(scope.get("query_string", b""))
        most = self._limits.of(path)
        if length is not None and length.isdigit() and int(length) > most:
            raise _too_large(most)
        return most

    def _identify(self, scope: Scope, path: str, key: bytes | None) -> None:
        address = scope["client"][0] if scope.get("client") else ""
        caller = self._keyring.caller(key, address)
        state = scope.setdefault("state", {})
        state["access"] = caller
        if caller.rate is not None:
            self._count(caller, address, state)
        caller.need(needed(scope["method"], path))

    def _count(self, caller: Caller, address: str, state: dict[str, object]) -> None:
        """Take one request off the caller's rate; one with many instances is one."""
        rate = caller.rate
        assert rate is not None
        allowed = self._used.take(caller.client or address, rate)
        name = b'"key"' if caller.client else b'"address"'
        state["headers"] = [
            (b"ratelimit-policy", b"%b;q=%d;w=%d" % (name, rate.amount, rate.seconds)),
            (b"ratelimit", b"%b;r=%d;t=%d" % (name, allowed.left, whole(allowed.seconds))),
        ]
        if allowed.wait:
            raise TooMany(f"more than {rate.amount} requests in {rate.seconds} s", seconds=whole(allowed.wait))


def _bounded(receive: Receive, limit: int) -> Receive:
    """The same stream of body parts, broken off where it passes the limit without having announced it."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
        return message

    return bounded


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"a body may have at most {limit:,} bytes here")
