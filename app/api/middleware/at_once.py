"""How many requests are answered at a time, whoever sends them; health checks are exempt."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.errors import in_form, respond
from app.errors import Busy

MAX_AT_ONCE = 1_000  # event streams and requests that wait for a thread are among them


class AtOnce:
    """ASGI middleware that answers 503 where `most` requests are in progress."""

    def __init__(self, app: ASGIApp, most: int = MAX_AT_ONCE) -> None:
        self._app = app
        self._most = most
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/health/"):
            await self._app(scope, receive, send)
        elif self._running >= self._most:
            error = Busy(f"{self._most:,} requests are in progress; try again later", seconds=1)
            await in_form(scope, respond(error))(scope, receive, send)
        else:
            self._running += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._running -= 1
