"""What clients of a system of replicas do."""

import time
from itertools import count

from tests.conftest import two_class_rows
from tests.servers.crowd import Caller
from tests.servers.system import System

ENDED = ("succeeded", "failed", "cancelled")
QUESTION = {"instances": [[50, 70, "mild"]], "rule": "most_probable"}
_NUMBERS = count()


def order(model: str, seed: int = 0, **changes: object) -> dict:
    return {
        "model": model,
        "learner": {"kind": "logistic"},
        "data": two_class_rows(120, seed=seed),
        **changes,
    }


def finished(caller: Caller, job_id: str, seconds: float = 120) -> dict:
    """The job once it has succeeded."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        job = caller.insist(
            "GET", f"/train/{job_id}", headers={"Prefer": "wait=5"}
        ).json()
        if job["status"] in ENDED:
            break
    assert job["status"] == "succeeded", job
    return job


def model_of(system: System, versions: int = 1) -> str:
    """A model of the test's own; its version 1 has the alias `live` and is in the memory of both replicas."""
    name = f"model{next(_NUMBERS)}"
    with Caller(system.replicas) as caller:
        for seed in range(versions):
            finished(
                caller,
                caller.insist("POST", "/train", json=order(name, seed)).json()["id"],
            )
        caller.insist("PUT", f"/models/{name}/aliases/live", json={"version": 1})
    for replica in system.replicas:
        until = time.monotonic() + 60
        while (
            replica.client.post(
                "/predict", json=QUESTION | {"model": f"{name}@live"}
            ).status_code
            != 200
        ):
            assert time.monotonic() < until
            time.sleep(0.1)
    return name
