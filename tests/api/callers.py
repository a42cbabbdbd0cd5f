"""Applications that are asked by somebody, without the gate that finds out who it is."""

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI

from app.access.caller import ANYBODY
from app.api.exchange import exchange_of
from app.api.memory import Memory


class Admitting:
    """A gate that lets everything through, as `caller`, with memory of its own where there is none."""

    def __init__(self, caller):
        self._caller = caller

    def admit(self, access, scope):
        exchange = exchange_of(scope)
        exchange.caller = self._caller
        exchange.memory = exchange.memory or Memory(2**30)
        exchange.max_bytes, exchange.streams = 2**30, access.uploads


def called_by(app, caller=ANYBODY):
    """The ASGI application, with `caller` in the state of each request."""

    async def called(scope, receive, send):
        app.state.service.gate = Admitting(caller)
        await app(scope, receive, send)

    return called


def ask(app: FastAPI, method: str, path: str, **options: Any) -> httpx.Response:
    """The answer of an application that no server runs."""
    transport = httpx.ASGITransport(
        app, raise_app_exceptions=False, client=("127.0.0.1", 1)
    )

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1"
        ) as client:
            return await client.request(method, path, **options)

    return asyncio.run(asked())
