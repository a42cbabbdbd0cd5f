"""The application, called in this process without a server, and small models that it trains here, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI

from app.api.app import create_app
from app.settings import Settings
from app.usecases import train as training
from app.wiring import wire


@asynccontextmanager
async def direct(settings: Settings, *orders: dict[str, Any]) -> AsyncIterator[FastAPI]:
    """The started application, with a model of each order: a process of its own for each job takes seconds."""
    app = create_app(wire(settings))
    async with app.router.lifespan_context(app):
        ports = app.state.ports
        for each in orders:
            answer, _ = await ask(app, "/train", json=each)
            assert answer.status_code == 202, answer.text
        while job := ports.queue.claim("here"):
            await asyncio.to_thread(training.run, ports, job)
        ports.registry.refresh()
        yield app


async def ask(app: FastAPI, path: str, **sent: Any) -> tuple[httpx.Response, Any]:
    """The answer to a POST, and the route that was dispatched, None where none was."""
    seen: dict[str, Any] = {}

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        async def whole() -> Any:
            """A body in one piece says so, as a server does."""
            message = await receive()
            return message | {"more_body": False} if message.get("body") else message

        await app(scope, whole, send)
        seen.update(scope)

    transport = httpx.ASGITransport(asked, client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        client.headers.clear()
        return await client.post(path, **sent), seen.get("route")


def order(name: str, classes: Sequence[int | str]) -> dict[str, Any]:
    """The body of `POST /train`: four numbers, classes that overlap, nothing held out."""
    chance = np.random.default_rng(0)
    code = np.arange(48) % len(classes)
    X = (chance.normal([50, 70, 5, 0], [10, 8, 1, 2], (48, 4)) + 4 * code[:, None]).round(1)
    features = ["age", "pulse", "chol", "thal"]
    data = {"features": features, "rows": X.tolist(), "labels": [classes[c] for c in code]}
    return {"model": name, "learner": {"kind": "logistic", "calibration": "none"}, "data": data, "holdout": 0}


UNHELD = order("unheld", ["healthy", "ill"])
NUMBERED = order("numbered", [0, 1, 7])
