"""Which routes compute, and which threads they compute in."""

import asyncio
import inspect
import re
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fastapi import Request
from fastapi.routing import iter_route_contexts
from starlette.requests import ClientDisconnect

from app.api.exchange import exchange_of
from app.api.gate import GatedRoute
from app.api.limiters import Limiter, Limiters, limiters
from app.errors import Busy
from payoff.learners.catalogue import ACQUIRES
from tests.api.callers import ask
from tests.api.permissions import SHARED, template_of

BENEFITS = [[0, -1], [-10, 5]]
LIMITED = {
    "probabilities": [[0.5, 0.5]] * 2_000,
    "resources": [{"name": "beds", "use": {"a": 1}, "at_most": 9}],
}
BY_CASE = {
    "instances": [{}] * 100,
    "benefits": [[0, {"column": "a", "times": 1}], [-10, 5]],
}
# routes that always compute, the limiter of their work, and a request
COMPUTING = {
    "POST /models/m/benefit": ("long", {"json": {"benefits": BENEFITS}}),
    "POST /acquire/simulate": (
        "long",
        {"json": {"model": "m", "rows": [[1]], "labels": [1]}},
    ),
    "POST /retrieve": (
        "retrieve",
        {"json": {"probabilities": [0.5], "setting": "binary", "loss": {"name": "am"}}},
    ),
    "POST /datasets?label=b": (
        "upload",
        {"content": b"a,b\n1,2\n", "headers": {"Content-Type": "text/csv"}},
    ),
    "POST /predict": ("long", {"content": b" " * 2_000_000}),
    "POST /predict?short": ("short", {"content": b" " * 20_000}),
    "POST /acquire": ("short", {"json": {"model": "m", "known": {}}}),
    "POST /acquire?by case": ("long", {"json": {"model": "m", **BY_CASE}}),
    "POST /predict?limits": (
        "long",
        {"json": {"benefits": BENEFITS, "classes": ["a", "b"], **LIMITED}},
    ),
    "GET /metrics": ("metrics", {}),
    "GET /health/ready": ("health", {}),
}


@pytest.fixture(autouse=True, scope="module")
def open_to_all(wired) -> None:
    wired.keyring.start()


def test_a_route_in_the_threads_of_all_is_known_to_be_cheap(app):
    """Those that the documentation lists. One that computes is `async`, and runs its work in one of `Limiters`."""
    every = [context.original_route for context in iter_route_contexts(app.routes)]
    gated = [route for route in every if isinstance(route, GatedRoute)]
    routes = [
        route for route in gated if not route.path.startswith("/console/")
    ]  # files, which are open
    plain = {
        f"{method} {template_of(route.path)}"
        for route in routes
        if not inspect.iscoroutinefunction(route.endpoint)
        and not inspect.isasyncgenfunction(route.endpoint)
        for method in route.methods
    }

    assert plain == SHARED


@pytest.mark.parametrize("route", COMPUTING)
def test_work_has_threads_of_its_own(app, route, monkeypatch):
    """With no place left at its limiter alone the route is told to come again."""
    card = SimpleNamespace(fitted={"acquire": ACQUIRES})
    askable = SimpleNamespace(name="m", classes=["no", "yes"], card=card)
    monkeypatch.setattr(
        app.state.service.stores.registry.cache, "get", lambda _: askable
    )  # every model is in memory
    limiter, options = COMPUTING[route]
    method, path = re.sub(r"\?(limits|short|by case)$", "", route).split(" ", 1)
    app.state.service.limiters = replace(Limiters(), **{limiter: Limiter(1, -1)})
    response = ask(app, method, path, **options)

    assert response.status_code == 503
    assert response.json()["title"] == "Too many requests are in progress"
    assert response.headers["retry-after"] == "2"


async def connected() -> dict[str, str]:
    await asyncio.sleep(60)
    raise AssertionError


async def gone() -> dict[str, str]:
    return {"type": "http.disconnect"}


async def worked(limiter: Limiter, receive, work, name: str, key: str = "") -> None:
    """Work of a request of a key."""
    service = SimpleNamespace(limiters=replace(Limiters(), long=limiter))
    app = SimpleNamespace(state=SimpleNamespace(service=service))
    request = Request({"type": "http", "headers": [], "app": app}, receive)
    exchange_of(request.scope).caller = SimpleNamespace(client=key or None)
    await limiters(request).long.run(request, work, name)


def test_nothing_is_begun_for_a_client_that_has_gone_while_it_waited():
    limiter, go, done = Limiter(1, 10), threading.Event(), []

    def work(name: str) -> None:
        go.wait(10)
        done.append(name)

    async def run() -> None:
        asked = [("first", connected), ("gone", gone), ("here", connected)]
        tasks = []
        for name, receive in asked:
            tasks.append(asyncio.create_task(worked(limiter, receive, work, name)))
            await asyncio.sleep(0.05)
        go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in results] == [
            type(None),
            ClientDisconnect,
            type(None),
        ]

    asyncio.run(run())
    assert done == ["first", "here"]


def test_a_key_has_half_of_the_threads():
    """Two uploads of one key held both readers; another key's waits for none of them."""
    limiter, go, running = Limiter(2, 10), threading.Event(), []

    def work(name: str) -> None:
        running.append(name)
        go.wait(10)

    async def run() -> list[str]:
        names = ("a1", "a2", "b1")
        tasks = [
            asyncio.create_task(worked(limiter, connected, work, name, name[0]))
            for name in names
        ]
        for _ in range(500):
            await asyncio.sleep(0.01)
            if len(running) == 2:
                break
        at_once = sorted(running)
        go.set()
        await asyncio.gather(*tasks)
        return at_once

    assert asyncio.run(run()) == ["a1", "b1"]
    assert sorted(running) == ["a1", "a2", "b1"]


def test_the_waiting_calls_of_a_key_take_no_place_from_another():
    """Simulations of one key on 30 connections had the reports of others answered with 503."""
    limiter, go, done = Limiter(2, 2), threading.Event(), []

    def work(name: str) -> None:
        go.wait(10)
        done.append(name)

    async def run() -> list[type]:
        names = [f"a{i}" for i in range(9)] + ["b0", "b1"]
        calls = [worked(limiter, connected, work, name, name[0]) for name in names]
        tasks = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0.1)
        go.set()
        return [
            type(result)
            for result in await asyncio.gather(*tasks, return_exceptions=True)
        ]

    refused = [type(None)] * 4 + [Busy] * 5
    assert asyncio.run(run()) == [*refused, type(None), type(None)]
    assert sorted(done) == ["a0", "a1", "a2", "a3", "b0", "b1"]
