"""Applications that are asked by somebody, without the guard that finds out who it is."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI

from app.access.caller import ANYBODY
from app.api.gate import Budget, Passage


class Admitting:
    """A guard that lets everything through, as `caller`, with a budget of its own where there is none."""

    def __init__(self, caller):
        self._caller = caller

    def admit(self, _access, scope):
        state = scope.setdefault("state", {})
        state["caller"] = self._caller
        if "passage" not in state:
            Passage(scope, None, None, Budget(2**30))
        state["passage"].most = 2**30

    def holds(self, _scope):
        return True

    def address(self, scope):
        return scope["client"][0]


def called_by(app, caller=ANYBODY):
    """The ASGI application, with `caller` in the state of each request."""

    async def called(scope, receive, send):
        app.state.guard = Admitting(caller)
        await app(scope, receive, send)

    return called


def ask(app: FastAPI, method: str, path: str, **options: Any) -> httpx.Response:
    """The answer of an application that no server runs."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("127.0.0.1", 1))

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, **options)

    return asyncio.run(asked())
