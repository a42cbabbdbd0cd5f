"""Kill -9 at any moment: what was accepted is accounted for, once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conftest import free_port, two_class_rows

ENDED = ("succeeded", "failed", "cancelled")


class Service:
    """`payoff serve` as a real process that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        self._environment = os.environ | {
            "PAYOFF_HOME": str(folder / "home"),
            "PAYOFF_MODELS": str(folder / "models"),
            "PAYOFF_LEASE_SECONDS": "1.5",
            "PAYOFF_JOB_ATTEMPTS": "10",
            "PAYOFF_WORKERS": "2",
        }
        self._log = (folder / "log").open("ab")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        command = [sys.executable, "-m", "app.cli", "serve", "--port", str(self.port)]
        self.process = subprocess.Popen(command, env=self._environment, stdout=self._log, stderr=self._log)
        until = time.monotonic() + 240  # a busy machine; it takes seconds
        while time.monotonic() < until:
            try:
                if self.client.get("/health/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the service did not become ready")

    def kill(self) -> None:
        """As the kernel would: the server alone; what it started has to notice."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)

    def close(self) -> None:
        if self.running:
            self.kill()
        self.client.close()
        self._log.close()


@pytest.fixture(scope="module")
def _service(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("killed"))
    yield service
    service.close()


@pytest.fixture
def service_process(_service):
    """The service, running; a test may end it."""
    if not _service.running:
        _service.start()
    return _service


def submit(client: httpx.Client, number: int) -> str:
    order = {"model": f"m{number % 3}", "learner": {"kind": "logistic"}, "data": two_class_rows(300, seed=number)}
    response = client.post("/train", json=order, headers={"Idempotency-Key": f"job-{number}"})
    assert response.status_code == 202, response.text
    return response.json()["id"]


def test_every_accepted_job_survives_kills_of_the_service(service_process):
    """Killed three times while jobs wait and run: each job succeeds in the end, with one version of its own."""
    rng = random.Random(0)
    ids: list[str] = []
    for _ in range(3):
        ids += [submit(service_process.client, len(ids) + i) for i in range(2)]
        time.sleep(rng.uniform(0.0, 1.2))
        service_process.kill()
        service_process.start()
    jobs = [wait_for(service_process.client, job) for job in ids]

    assert [job["status"] for job in jobs] == ["succeeded"] * len(ids)
    published = {(job["model"]["name"], job["model"]["version"]) for job in jobs}
    assert len(published) == len(ids)
    for name in ("m0", "m1", "m2"):
        listed = {line["version"] for line in service_process.client.get(f"/models/{name}").json()["versions"]}
        assert listed == {version for model, version in published if model == name}
    again = submit(service_process.client, 0)  # the same key after all that: still the first job
    assert again == ids[0]


def test_a_stop_finishes_running_requests(service_process):
    """SIGTERM: a large request under way is answered whole, then the process ends cleanly."""
    wait_for(service_process.client, submit(service_process.client, 0))
    question = {"model": "m0", "rule": "most_probable", "instances": [[50, 70, "mild"]] * 200_000}
    body = json.dumps(question).encode()
    answers: list[httpx.Response] = []
    headers = {"Content-Type": "application/json"}
    asking = threading.Thread(
        target=lambda: answers.append(service_process.client.post("/predict", content=body, headers=headers))
    )
    asking.start()
    time.sleep(0.2)  # it takes longer than that to read and answer 200,000 rows
    code = service_process.stop()
    asking.join()

    assert answers[0].status_code == 200
    assert len(answers[0].json()["decisions"]) == 200_000
    assert code in (0, -signal.SIGTERM)


def test_nothing_is_left_running_when_the_service_is_killed(service_process):
    """The processes of jobs die with the service that started them."""
    order = {"model": "slow", "learner": {"kind": "benefit_logistic"}, "data": two_class_rows(40_000)}
    service_process.client.post("/train", json=order | {"benefits": [[0, -1], [-10, 5]]})
    time.sleep(1)
    started = psutil.Process(service_process.process.pid).children(recursive=True)
    service_process.kill()

    _, alive = psutil.wait_procs(started, timeout=30)  # a fork server that still imports ends after that

    assert [" ".join(process.cmdline()) for process in alive] == []


def wait_for(client: httpx.Client, job: str) -> dict:
    until = time.monotonic() + 240
    while time.monotonic() < until:
        document = client.get(f"/train/{job}", headers={"Prefer": "wait=5"}).json()
        if document["status"] in ENDED:
            return document
    raise AssertionError(f"the job did not end: {document}")
