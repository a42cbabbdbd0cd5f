"""The budget of bytes in flight: bodies, working memory, answers."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from app.access.caller import ANYBODY
from app.api import errors
from app.api.gate import Budget, Gate, passage_of
from app.api.guard import Record
from app.api.routing import DirectRoute, Limiter, StrictRoute
from app.errors import NotReady, TooLarge
from app.metrics import RequestMetrics
from tests.api.callers import Admitting

MB = 2**20


class Table(BaseModel):
    rows: list[str]


def application(budget: Budget) -> FastAPI:
    """An application whose routes read bodies in every way that there is, behind the middleware of the service."""
    app = FastAPI()
    errors.install(app)

    async def direct(request: Request) -> Response:
        return Response(str(len(await request.body())))

    async def parsed(body: Table) -> dict[str, int]:
        return {"rows": len(body.rows)}

    async def streamed(request: Request) -> Response:
        passage_of(request).streams = True
        return Response(str(sum([len(part) async for part in request.stream()])))

    async def working(request: Request) -> Response:
        mine = passage_of(request)
        mine.reserve(int(request.query_params["work"]))
        return Response(bytes(int(request.query_params["answer"])))

    async def file(request: Request) -> Response:
        parts, size = int(request.query_params["parts"]), int(request.query_params["size"])
        headers = {"Content-Length": str(parts * size)}
        return StreamingResponse((bytes(size) for _ in range(parts)), headers=headers)

    app.router.routes.append(DirectRoute("/file", file))
    app.router.routes.append(DirectRoute("/direct", direct))
    app.router.routes.append(StrictRoute("/parsed", parsed, methods=["POST"]))
    app.router.routes.append(DirectRoute("/streamed", streamed))
    app.router.routes.append(DirectRoute("/working", working))
    app.add_middleware(Gate, record=Record(RequestMetrics(CollectorRegistry()), access_log=False), budget=budget)
    app.state.guard = Admitting(ANYBODY)
    return app


class Exchange:
    """One request to an ASGI application, part by part, and what it answers."""

    def __init__(self, app, path, parts=(), *, query=b"", length=None, drained=None):
        self.read = 0
        self.messages = []
        self.sent = asyncio.Event()
        self.watch = lambda: None  # called with each part of the answer
        self._parts = list(parts)
        self._drained = drained
        size = sum(map(len, self._parts)) if length is None else length
        head = (b"content-length", b"%d" % size) if length != "chunked" else (b"transfer-encoding", b"chunked")
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query,
            "headers": [(b"content-type", b"application/json"), head],
            "state": {},
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._app = app

    async def run(self):
        await self._app(self._scope, self._receive, self._send)
        return self.status

    async def _receive(self):
        if self.read >= len(self._parts):
            return {"type": "http.request", "body": b"", "more_body": False}
        self.read += 1
        return {
            "type": "http.request",
            "body": self._parts[self.read - 1],
            "more_body": self.read < len(self._parts),
        }

    async def _send(self, message):
        self.messages.append(message)
        self.watch()
        if message["type"] == "http.response.body" and not message.get("more_body", False) and self._drained:
            self.sent.set()
            await self._drained.wait()

    @property
    def status(self):
        return self.messages[0]["status"]

    @property
    def problem(self):
        return json.loads(b"".join(message.get("body", b"") for message in self.messages[1:]))

    @property
    def headers(self):
        return dict(self.messages[0]["headers"])


@pytest.mark.parametrize("path", ["/direct", "/parsed"])
def test_an_announced_body_that_does_not_fit_is_not_read(path):
    budget = Budget(64 * MB)
    budget.take(60 * MB)
    exchange = Exchange(application(budget), path, [b"x" * MB] * 8)

    assert asyncio.run(exchange.run()) == 503
    assert exchange.read == 0
    assert int(exchange.headers[b"retry-after"]) >= 1
    assert budget.used == 60 * MB


@pytest.mark.parametrize("path", ["/direct", "/parsed"])
def test_a_body_of_unknown_length_is_read_no_further_than_it_fits(path):
    """Also where the framework turns every error of reading into one of its own."""
    budget = Budget(64 * MB)
    exchange = Exchange(application(budget), path, [b"x" * MB] * 100, length="chunked")

    assert asyncio.run(exchange.run()) == 503
    assert exchange.problem["status"] == 503
    assert exchange.read <= 34
    assert budget.used == 0


def test_a_body_that_can_never_fit_is_too_large():
    exchange = Exchange(application(Budget(64 * MB)), "/direct", [b""], length=100 * MB)

    assert asyncio.run(exchange.run()) == 413


def test_a_body_that_is_written_to_disk_is_not_charged():
    exchange = Exchange(application(Budget(MB)), "/streamed", [b"x" * MB] * 8)

    assert asyncio.run(exchange.run()) == 200


@pytest.mark.parametrize(
    ("work", "answer", "status"), [(10, 10, 200), (60, 0, 200), (0, 60, 200), (65, 0, 413), (0, 65, 413), (10, 64, 200)]
)
def test_work_and_answers_are_charged_and_given_back(work, answer, status):
    """Once the answer exists the work is done: what it held does not add to the answer."""
    budget = Budget(64 * MB)
    query = f"work={work * MB}&answer={answer * MB}".encode()
    exchange = Exchange(application(budget), "/working", query=query)

    assert asyncio.run(exchange.run()) == status
    assert budget.used == 0


@pytest.mark.parametrize(
    ("parts", "size", "status"), [(200, MB, 200), (2, 65 * MB, 413), (1, 1000, 200), (90, 1000, 200)]
)
def test_of_an_answer_in_parts_one_is_charged(parts, size, status):
    """A file may be larger than the memory for requests."""
    budget, held = Budget(64 * MB), []
    exchange = Exchange(application(budget), "/file", query=f"parts={parts}&size={size}".encode())
    exchange.watch = lambda: held.append(budget.used)

    assert asyncio.run(exchange.run()) == status
    assert max(held) <= size
    assert budget.used == 0
    if status == 200:
        assert sum(len(message.get("body", b"")) for message in exchange.messages) == parts * size


def test_an_answer_is_held_until_the_client_has_read_it():
    async def both():
        budget, drained = Budget(64 * MB), asyncio.Event()
        app = application(budget)
        query = f"work=0&answer={40 * MB}".encode()
        unread = Exchange(app, "/working", query=query, drained=drained)
        task = asyncio.create_task(unread.run())
        await unread.sent.wait()
        assert budget.used == 40 * MB
        refused = Exchange(app, "/working", query=query)
        assert await refused.run() == 503
        drained.set()
        assert await task == 200
        assert await Exchange(app, "/working", query=query).run() == 200
        assert budget.used == 0

    asyncio.run(both())


def test_many_threads_take_no_more_than_there_is():
    budget, refused = Budget(1000), []

    def work():
        for _ in range(500):
            try:
                budget.take(300)
            except NotReady:
                refused.append(1)
            else:
                assert budget.used <= 1000
                budget.give_back(300)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert budget.used == 0
    with pytest.raises(TooLarge):
        budget.take(1001)


def test_a_limiter_refuses_when_too_many_wait():
    async def run():
        limiter, leave = Limiter(threads=2, waiting=3), threading.Event()
        calls = [asyncio.create_task(limiter.run(None, leave.wait, 20)) for _ in range(5)]
        await asyncio.sleep(0.1)
        with pytest.raises(NotReady) as refused:
            await limiter.run(None, leave.wait, 20)
        leave.set()
        assert await asyncio.gather(*calls) == [True] * 5
        assert await limiter.run(None, len, "abc") == 3
        return refused.value.seconds

    assert asyncio.run(run()) >= 1
