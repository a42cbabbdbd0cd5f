"""Models that have to be read, from a store that may hang."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event

import httpx
import pytest

from app.storage import Storage
from tests.conftest import serving, settings_for, trained, two_class_rows


@pytest.fixture
def client(tmp_path) -> Iterator[httpx.Client]:
    """A service with two versions, of which it reads the second ahead of any request."""
    with serving(settings_for(tmp_path)) as maker:
        for _ in range(2):
            trained(maker, {"model": "ward", "learner": {"kind": "logistic"}, "data": two_class_rows()})
    with serving(settings_for(tmp_path, workers=0)) as client:
        yield client


def test_a_store_that_hangs_holds_no_thread_that_answers(client, monkeypatch):
    """Sixty requests for one version waited in the forty threads, and all that lists or is long waited with them."""
    go, read = Event(), Storage.read

    def hang(self, *path):
        go.wait(30)
        return read(self, *path)

    def question(reference: str) -> dict:
        return {"model": reference, "instances": two_class_rows(3)["rows"], "benefits": [[0, -1], [-5, 2]]}

    def retrieval(reference: str) -> dict:
        rows = two_class_rows(3)["rows"]
        return {"model": reference, "instances": rows, "setting": "binary", "loss": {"name": "am"}}

    matrix = {"benefits": [[0, -1], [-5, 2]]}

    async def ask() -> tuple[list[httpx.Response], float, list[httpx.Response]]:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=30) as everybody:
            waiting = [
                asyncio.create_task(everybody.post(path, json=body))
                for callers, path, body in (
                    (60, "/predict", question("ward:1")),  # more than the framework has threads
                    (10, "/retrieve", retrieval("ward:1")),
                    (10, "/models/ward:1/benefit", matrix),
                )
                for _ in range(callers)
            ]
            await asyncio.sleep(0.5)
            quick = await asyncio.gather(
                everybody.get("/models"),
                everybody.get("/v2/models/ward:2"),
                everybody.post("/predict", json=question("ward:2")),
                everybody.post("/predict", json=question("ward:2") | {"explain": True}),
                everybody.post("/retrieve", json=retrieval("ward:2")),
                everybody.post("/models/ward:2/benefit", json=matrix),
            )
            assert not any(task.done() for task in waiting)
            go.set()
            return quick, await asyncio.gather(*waiting)

    assert client.post("/retrieve", json=retrieval("ward:2")).status_code == 200  # compiled
    monkeypatch.setattr(Storage, "read", hang)
    quick, waited = asyncio.run(ask())

    assert [response.status_code for response in quick] == [200] * len(quick)
    assert {response.status_code for response in waited} == {200}
    assert waited[0].json()["model"]["version"] == 1
