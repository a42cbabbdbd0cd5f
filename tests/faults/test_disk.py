"""A disk that is full."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.faults.life import QUESTION, alone, finished, order
from tests.faults.test_outages import upload
from tests.servers.crowd import Caller

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("what", ["all of it", "the models"])
def test_a_full_disk(disk, what):
    """Predictions go on, and what cannot be kept is refused with 503 or waits; with space again, all goes on.

    No job is lost, no half-written version is seen, and nothing is left over.
    """
    folders = {"models": disk / "models"} | ({"home": disk / "home"} if what == "all of it" else {})
    with alone(folders) as caller:
        job = caller.insist("POST", "/train", json=order("kept"), headers={"Prefer": "wait=60"}).json()
        assert job["status"] == "succeeded", job
        data = caller.insist("POST", "/datasets", files=upload(), data={"label": "class"}).json()["id"]
        fill(disk)
        waiting = order_through(caller, data, what)
        for _ in range(20):
            assert caller.ask("POST", "/predict", json=QUESTION | {"model": "kept"}) is not None
        if what == "all of it":
            refused = caller.replica.client.post("/datasets", files=upload(), data={"label": "class"})
            assert refused.status_code == 503, refused.text
            assert str(disk) not in refused.text
        time.sleep(2)
        (disk / "filler").unlink()
        waiting = waiting or order_through(caller, data, "")
        assert finished(caller, waiting)["status"] == "succeeded"
        assert caller.insist("POST", "/datasets", files=upload(), data={"label": "class"}).status_code == 201
        assert [entry.name for entry in (disk / "models" / "kept").iterdir() if entry.name.startswith(".")] == []
        versions = caller.insist("GET", "/models/kept").json()["versions"]
        for line in versions:
            caller.insist("POST", "/predict", json=QUESTION | {"model": f"kept:{line['version']}"})
        assert len(versions) == 2


def order_through(caller: Caller, data: str, what: str) -> str | None:
    """The id of a job that was accepted with the disk full; None where the job table is on that disk, too."""
    response = caller.ask("POST", "/train", json=order("kept", data={"dataset": data}))
    if what == "all of it" and response is None:
        assert ": 503 " in caller.account.failed[-1]
        return None
    assert response is not None, caller.account.failed[-1]
    return response.json()["id"]


def fill(disk) -> None:
    """Write until nothing more can be written."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (2**16, 1):
            with contextlib.suppress(OSError):
                while True:
                    filler.write(b"\0" * size)
