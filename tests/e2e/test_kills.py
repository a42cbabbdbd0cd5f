"""Kill -9 at any moment: what was accepted is accounted for, once."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import two_class_rows
from tests.servers.service import Replica

pytestmark = pytest.mark.thorough

ENDED = ("succeeded", "failed", "cancelled")


SETTINGS = {"lease_seconds": 1.5, "job_attempts": 10, "workers": 2}


@pytest.fixture(scope="module")
def _service():
    service = Replica(SETTINGS)
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
        service_process.restart()
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
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    sent = threading.Event()

    def content() -> Iterator[bytes]:
        yield body
        sent.set()

    asking = threading.Thread(
        target=lambda: answers.append(service_process.client.post("/predict", content=content(), headers=headers))
    )
    asking.start()
    assert sent.wait(60)
    code = service_process.stop()
    asking.join()

    assert answers[0].status_code == 200
    assert len(answers[0].json()["decisions"]) == 200_000
    assert code in (0, -signal.SIGTERM)


def wait_for(client: httpx.Client, job: str) -> dict:
    until = time.monotonic() + 240
    while time.monotonic() < until:
        document = client.get(f"/train/{job}", headers={"Prefer": "wait=5"}).json()
        if document["status"] in ENDED:
            return document
    raise AssertionError(f"the job did not end: {document}")
