"""Who may come in, and with how much: API keys and the size of bodies, before anything is read."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import respond
from app.errors import KeyMissing, PayoffError, TooLarge, Unsupported

KEY_HEADER = "X-API-Key"
_OPEN = {"/docs", "/openapi.json"}
_OPEN_BELOW = ("/health/", "/docs/", "/static-offline-docs/")


@dataclass(frozen=True)
class Keys:
    """The keys that open the service; with none configured it is open to all."""

    admin_digest: bytes | None

    @classmethod
    def of(cls, admin_key: str | None) -> Keys:
        return cls(_digest(admin_key.encode()) if admin_key else None)

    def caller(self, key: bytes | None) -> str:
        """The name of who holds `key`; KeyMissing where it opens nothing. Takes the same time for any key."""
        if self.admin_digest is None:
            return "anonymous"
        if key is None or not hmac.compare_digest(_digest(key), self.admin_digest):
            raise KeyMissing(f"send a valid key in the {KEY_HEADER} header")
        return "admin"


@dataclass(frozen=True)
class BodyLimits:
    """Largest bodies in bytes."""

    default: int
    upload: int

    def of(self, scope: Scope) -> int:
        return self.upload if scope["path"] == "/datasets" else self.default


class Guard:
    """ASGI middleware that lets through only what it should."""

    def __init__(self, app: ASGIApp, keys: Keys, limits: BodyLimits) -> None:
        self._app = app
        self._keys = keys
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._admit(scope)
            await self._app(scope, self._bounded(scope, receive), send)
        except PayoffError as error:
            await respond(error)(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        key = length = None
        for name, value in scope["headers"]:
            if name == b"content-encoding" and value.lower() != b"identity":
                raise Unsupported("bodies are taken as they are: send no Content-Encoding (files may be gzipped)")
            if name == b"x-api-key":
                key = value
            elif name == b"content-length":
                length = value
        if scope["path"] not in _OPEN and not scope["path"].startswith(_OPEN_BELOW):
            scope.setdefault("state", {})["caller"] = self._keys.caller(key)
        if length is not None and length.isdigit() and int(length) > self._limits.of(scope):
            raise _too_large(self._limits.of(scope))

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """The same stream of body parts, broken off where it passes the limit without having announced it."""
        limit = self._limits.of(scope)
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


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
