"""The memory for requests: bodies, and what they stand for."""

from __future__ import annotations

import asyncio
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from app.access.caller import ANYBODY
from app.api import errors
from app.api.gate import UPLOAD, Gate, charge_of, needs
from app.api.memory import BYTE, BodyLimits, Memory
from app.api.routing import DirectRoute, StrictRoute
from app.metrics import RequestMetrics
from tests.api.callers import Admitting

MB = 2**20


class Table(BaseModel):
    rows: list[str]


def application(memory: Memory) -> FastAPI:
    """An application whose routes read bodies in every way that there is, behind the middleware of the service."""
    app = FastAPI()
    errors.install(app)

    async def direct(request: Request) -> Response:
        return Response(str(len(await request.body())))

    async def parsed(body: Table) -> dict[str, int]:
        return {"rows": len(body.rows)}

    @needs(UPLOAD)
    async def streamed(request: Request) -> Response:
        return Response(str(sum([len(part) async for part in request.stream()])))

    async def working(request: Request) -> Response:
        charge_of(request)(int(request.query_params["work"]), BYTE)
        return Response(b"done")

    app.router.routes.append(DirectRoute("/direct", direct))
    app.router.routes.append(StrictRoute("/parsed", parsed, methods=["POST"]))
    app.router.routes.append(DirectRoute("/streamed", streamed))
    app.router.routes.append(DirectRoute("/working", working))
    gate = Gate(None, BodyLimits(2**30, 2**30), memory, RequestMetrics(CollectorRegistry()))
    app.add_middleware(gate.around)
    app.state.gate = Admitting(ANYBODY)
    return app


class Exchange:
    """One request to an ASGI application, part by part, and what it answers."""

    def __init__(self, app, path, parts=(), *, query=(), length=None, drained=None):
        self.read, self.messages, self.sent = 0, [], asyncio.Event()
        self._app, self._parts, self._drained = app, list(parts), drained
        size = sum(map(len, self._parts)) if length is None else length
        coding = {"transfer-encoding": "chunked"} if length == "chunked" else {"content-length": str(size)}
        headers = {"host": "127.0.0.1:8000", "content-type": "application/json", **coding}
        self._scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "root_path": "", "query_string": urlencode(query).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "state": {},
        }  # fmt: skip

    async def run(self):
        await self._app(self._scope, self._receive, self._send)
        return self.messages[0]["status"]

    async def _receive(self):
        self.read += 1
        body = self._parts[self.read - 1] if self.read <= len(self._parts) else b""
        return {"type": "http.request", "body": body, "more_body": self.read < len(self._parts)}

    async def _send(self, message):
        self.messages.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False) and self._drained:
            self.sent.set()
            await self._drained.wait()

    @property
    def headers(self):
        return dict(self.messages[0]["headers"])


@pytest.mark.parametrize("path", ["/direct", "/parsed"])
def test_a_body_that_does_not_fit_now_is_read_no_further(path):
    """Also where the framework turns every error of reading into one of its own."""
    memory = Memory(64 * MB)
    memory.take(60 * MB)
    exchange = Exchange(application(memory), path, [b"x" * MB] * 8)

    assert asyncio.run(exchange.run()) == 503
    assert exchange.read == 3
    assert int(exchange.headers[b"retry-after"]) >= 1
    assert memory.used == 60 * MB


@pytest.mark.parametrize("length", [100 * MB, "chunked"])
def test_a_body_that_can_never_fit_is_too_large(length):
    memory = Memory(64 * MB)
    exchange = Exchange(application(memory), "/direct", [b"x" * MB] * 100, length=length)

    assert asyncio.run(exchange.run()) == 413
    assert exchange.read == 33
    assert memory.used == 0


def test_a_body_that_is_written_to_disk_is_not_charged():
    exchange = Exchange(application(Memory(MB)), "/streamed", [b"x" * MB] * 8)

    assert asyncio.run(exchange.run()) == 200


def test_what_a_request_stands_for_is_held_until_it_is_answered():
    async def both():
        memory, drained = Memory(64 * MB), asyncio.Event()
        app = application(memory)
        unread = Exchange(app, "/working", query={"work": 40 * MB}, drained=drained)
        task = asyncio.create_task(unread.run())
        await unread.sent.wait()
        assert memory.used == 40 * MB
        assert await Exchange(app, "/working", query={"work": 40 * MB}).run() == 503
        assert await Exchange(app, "/working", query={"work": 65 * MB}).run() == 413
        assert await Exchange(app, "/working", query={"work": 1000}).run() == 200
        drained.set()
        assert await task == 200
        assert await Exchange(app, "/working", query={"work": 40 * MB}).run() == 200
        assert memory.used == 0

    asyncio.run(both())
