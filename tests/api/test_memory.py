"""The memory for requests: bodies, and what they stand for."""

import asyncio
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from app.access.caller import ANYBODY
from app.api import errors
from app.api.exchange import ExchangeLayer, Records, charge_of
from app.api.gate import UPLOAD, needs
from app.api.memory import BYTE, Memory
from app.api.routing import DirectRoute, StrictRoute
from app.monitoring.metrics import RequestMetrics
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
    records = Records(RequestMetrics(CollectorRegistry()), None)
    app.add_middleware(ExchangeLayer, memory=memory, records=records, shortcuts={})
    app.state.service = SimpleNamespace(gate=Admitting(ANYBODY))
    return app


async def asked(app, path, content=b"", headers=None, **query):
    async def stated(scope, receive, send):
        await app(scope | {"state": {}}, receive, send)

    headers = {"Content-Type": "application/json", **(headers or {})}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(stated), base_url="http://127.0.0.1"
    ) as client:
        return await client.post(path, content=content, headers=headers, params=query)


async def parts(count, read):
    """A body of so many MB, which says how much of it was read."""
    for _ in range(count):
        read.append(MB)
        yield b"x" * MB


@pytest.mark.parametrize("path", ["/direct", "/parsed"])
def test_a_body_that_does_not_fit_now_is_read_no_further(path):
    """Also where the framework turns every error of reading into one of its own."""
    memory, read = Memory(64 * MB), []
    memory.take(60 * MB)
    answer = asyncio.run(asked(application(memory), path, parts(8, read)))

    assert (answer.status_code, len(read), memory.used) == (503, 3, 60 * MB)
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("headers", [{"Content-Length": str(100 * MB)}, {}])
def test_a_body_that_can_never_fit_is_too_large(headers):
    memory, read = Memory(64 * MB), []
    answer = asyncio.run(
        asked(application(memory), "/direct", parts(100, read), headers)
    )

    assert (answer.status_code, len(read), memory.used) == (413, 33, 0)


def test_a_body_that_is_written_to_disk_is_not_charged():
    assert (
        asyncio.run(
            asked(application(Memory(MB)), "/streamed", parts(8, []))
        ).status_code
        == 200
    )


def test_what_a_request_stands_for_is_held_until_it_is_answered():
    async def both():
        memory, sent, drained = Memory(64 * MB), asyncio.Event(), asyncio.Event()
        app = application(memory)

        async def unread(scope, receive, send):
            async def held(message):
                await send(message)
                if message["type"] == "http.response.body":
                    sent.set()
                    await drained.wait()

            await app(scope, receive, held)

        async def status(work, of=app):
            return (await asked(of, "/working", work=work)).status_code

        task = asyncio.create_task(status(40 * MB, unread))
        await sent.wait()
        assert memory.used == 40 * MB
        assert [await status(work) for work in (40 * MB, 65 * MB, 1000)] == [
            503,
            413,
            200,
        ]
        drained.set()
        assert [await task, await status(40 * MB)] == [200, 200]
        assert memory.used == 0

    asyncio.run(both())
