"""What clients do while something breaks, and what has to be true of it afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count

from tests.conftest import two_class_rows
from tests.servers.crowd import Account, Caller, Crowd
from tests.servers.service import Replica
from tests.servers.system import System

ENDED = ("succeeded", "failed", "cancelled")
QUESTION = {"instances": [[50, 70, "mild"]], "rule": "most_probable"}
_NUMBERS = count()


def order(model: str, seed: int = 0, **changes: object) -> dict:
    return {"model": model, "learner": {"kind": "logistic"}, "data": two_class_rows(120, seed=seed), **changes}


def model_of(system: System) -> str:
    """A model of the test's own with one version and the alias `live`, in the memory of both replicas."""
    name = f"model{next(_NUMBERS)}"
    with Caller(system.replicas) as caller:
        job = finished(caller, caller.insist("POST", "/train", json=order(name)).json()["id"])
        assert job["status"] == "succeeded", job
        caller.insist("PUT", f"/models/{name}/aliases/live", json={"version": 1})
    for replica in system.replicas:
        until = time.monotonic() + 60
        while replica.client.post("/predict", json=QUESTION | {"model": f"{name}@live"}).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.1)
    return name


@contextmanager
def alone(settings: Mapping[str, object], environment: Mapping[str, str] | None = None) -> Iterator[Caller]:
    """One replica, started, and a client of it."""
    replica = Replica({"access_log": False, "log_level": "warning", **settings}, environment)
    try:
        replica.start()
        with Caller([replica]) as caller:
            yield caller
    finally:
        replica.close()


def finished(caller: Caller, job_id: str, seconds: float = 120) -> dict:
    """The job once it has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        job = caller.insist("GET", f"/train/{job_id}", headers={"Prefer": "wait=5"}).json()
        if job["status"] in ENDED:
            return job
    raise AssertionError(f"the job did not end: {job}")


class Life:
    """Clients of one model that submit, predict and move its alias."""

    def __init__(self, system: System, name: str, jobs: int) -> None:
        self.name = name
        self.jobs: list[str] = []
        self.predicting, self.managing = Account(), Account()
        self._system = system
        self._most = jobs

    def submit(self, caller: Caller) -> None:
        number = len(self.jobs)
        if number == self._most:
            return
        self.jobs.append("")
        key = {"Idempotency-Key": f"{self.name} {number}"}
        self.jobs[number] = caller.insist("POST", "/train", json=order(self.name, number), headers=key).json()["id"]

    def predict(self, caller: Caller) -> None:
        caller.ask("POST", "/predict", json=QUESTION | {"model": f"{self.name}@live"})

    def move(self, caller: Caller) -> None:
        page = caller.ask("GET", f"/models/{self.name}")
        if page is not None:
            versions = [line["version"] for line in page.json()["versions"]]
            caller.ask("PUT", f"/models/{self.name}/aliases/live", json={"version": versions[0]})

    def settle(self) -> None:
        """Each job succeeded once, with a version of its own; the alias has its version; predictions were answered."""
        with Caller(self._system.replicas) as caller:
            jobs = [finished(caller, job) for job in self.jobs]
            assert [job["status"] for job in jobs] == ["succeeded"] * len(jobs), jobs
            page = caller.insist("GET", f"/models/{self.name}").json()
            versions = [line["version"] for line in page["versions"]]
            assert sorted(versions) == sorted([1, *(job["model"]["version"] for job in jobs)])
            assert page["aliases"]["live"] in versions
            caller.insist("POST", "/predict", json=QUESTION | {"model": f"{self.name}@live"})
        assert self.predicting.failed == []
        assert self.predicting.answered > 10
        assert [line for line in self.managing.failed if ": 503 " not in line] == []


@contextmanager
def life_goes_on(system: System, *, jobs: int = 4) -> Iterator[Life]:
    """Clients train, predict and move aliases while the block runs; then everything is healed, and judged."""
    life = Life(system, model_of(system), jobs)
    with ExitStack() as stack:
        submitting, moving = (stack.enter_context(Caller(system.replicas, life.managing)) for _ in range(2))
        predicting = [stack.enter_context(Caller(system.replicas, life.predicting)) for _ in range(2)]
        with Crowd() as crowd:
            crowd.do(lambda: life.submit(submitting), pause=0.3)
            crowd.do(lambda: life.move(moving), pause=0.3)
            for caller in predicting:
                crowd.do(lambda caller=caller: life.predict(caller), pause=0.05)
            time.sleep(0.3)
            yield life
            system.heal()
            until = time.monotonic() + 30  # a short fault on a busy machine: some predictions follow it
            while life.predicting.answered <= 10 and time.monotonic() < until:
                time.sleep(0.05)
    with Crowd() as crowd:
        crowd.do(system.revive, pause=0.5)  # a Dask worker may take a while to see that its scheduler had gone
        life.settle()
