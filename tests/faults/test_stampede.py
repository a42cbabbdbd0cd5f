"""200 clients at one moment."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.faults.life import QUESTION, alone, finished, order

pytestmark = pytest.mark.thorough

CLIENTS = 200


@pytest.fixture(scope="module")
def caller():
    with alone({}) as caller:
        yield caller


def at_once(caller, path: str, body: dict, headers: dict | None = None) -> list[httpx.Response]:
    """The same request from as many clients, each with a connection of its own."""

    async def send() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=CLIENTS)
        async with httpx.AsyncClient(base_url=caller.replica.url, timeout=60, limits=limits) as client:
            return await asyncio.gather(*[client.post(path, json=body, headers=headers) for _ in range(CLIENTS)])

    return asyncio.run(send())


def test_the_first_load_of_a_model(caller):
    """All are answered alike, and the model is read once."""
    job = finished(caller, caller.insist("POST", "/train", json=order("herd")).json()["id"])
    assert job["status"] == "succeeded"
    caller.replica.restart()  # nothing is in memory
    answers = at_once(caller, "/predict", QUESTION | {"model": "herd"})
    assert [answer.status_code for answer in answers] == [200] * CLIENTS
    assert len({answer.text for answer in answers}) == 1
    lines = caller.replica.client.get("/metrics").text.splitlines()
    assert [float(line.split()[-1]) for line in lines if line.startswith("payoff_model_loads_total")] == [1.0]
