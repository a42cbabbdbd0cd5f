"""The application, called in this process without a server: fast, and every answer can be examined."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from starlette.types import Message

from app.api.app import create_app
from app.settings import Settings
from app.wiring import wire

JSON = "application/json"
_SECONDS = 120.0  # a request that takes longer hangs


@dataclass(frozen=True)
class Sent:
    """A request, before it is written as bytes."""

    method: str
    path: str
    body: Any = None
    """JSON, or bytes that are sent as they are, or None."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def content_of(sent: Sent) -> bytes:
    """The body as bytes."""
    if sent.body is None or isinstance(sent.body, bytes):
        return sent.body or b""
    return json.dumps(sent.body).encode()


@dataclass(frozen=True)
class Answer:
    """What came back; `route` is the route that was dispatched, None where none was."""

    status: int
    headers: dict[str, str]
    body: bytes
    route: Any


@asynccontextmanager
async def direct(settings: Settings) -> AsyncIterator[FastAPI]:
    """The started application."""
    service = wire(settings)
    app = create_app(service)
    async with app.router.lifespan_context(app):
        yield app


async def ask(app: FastAPI, sent: Sent, content: bytes) -> Answer:
    """The answer of `app` to the request; `content` is its body as bytes. Raises TimeoutError where it hangs."""
    scope = scope_of(sent, content)
    parts: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
    status, headers, body = 0, {}, bytearray()

    async def receive() -> Message:
        if parts:
            return parts.pop()
        await asyncio.sleep(_SECONDS)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            body.extend(message.get("body", b""))

    async with asyncio.timeout(_SECONDS):
        await app(scope, receive, send)
    route = scope.get("route")
    return Answer(status, headers, bytes(body), route)


def scope_of(sent: Sent, content: bytes) -> dict[str, Any]:
    """The ASGI scope of the request."""
    kind = {} if sent.body is None or isinstance(sent.body, bytes) else {"Content-Type": JSON}
    headers = {"Host": "127.0.0.1:8000", "Content-Length": str(len(content)), **kind, **sent.headers}
    path = sent.path.encode("utf-8", "surrogatepass")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": "http",
        "path": urllib.parse.unquote(path),
        "raw_path": path,
        "root_path": "",
        "query_string": urllib.parse.urlencode(sent.query, errors="surrogatepass").encode(),
        "headers": [(name.lower().encode(), value.encode("utf-8", "replace")) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
