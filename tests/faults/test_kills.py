"""One process on SQLite, killed at any moment: what was accepted or answered is accounted for, once."""

import json
import signal
import threading
import time

import httpx
import pytest

from app.database.engine import Database
from tests.conftest import two_class_rows
from tests.outcomes.test_recorder import stored
from tests.servers.service import Replica

pytestmark = pytest.mark.thorough

SETTINGS = {
    "lease_seconds": 1.5,
    "job_attempts": 10,
    "workers": 2,
    "access_log": False,
    "log_level": "warning",
}
QUESTION = {
    "model": "ward",
    "instances": [[58.0, 77.5, "mild"]],
    "benefits": [[0, -1], [-10, 5]],
}
CLIENTS = 4


@pytest.fixture
def replica():
    replica = Replica(SETTINGS)
    replica.start()
    yield replica
    replica.close()


def submit(client: httpx.Client, number: int) -> str:
    order = {
        "model": "ward",
        "learner": {"kind": "logistic"},
        "data": two_class_rows(300, seed=number),
    }
    response = client.post(
        "/train", json=order, headers={"Idempotency-Key": f"job-{number}"}
    )
    assert response.status_code == 202, response.text
    return response.json()["id"]


def version_of(client: httpx.Client, job: str) -> int:
    """The version that the job made, once it has."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        found = client.get(f"/train/{job}", headers={"Prefer": "wait=5"}).json()
        if found["status"] in ("succeeded", "failed", "cancelled"):
            break
    assert found["status"] == "succeeded", found
    return found["model"]["version"]


def test_jobs_and_recorded_decisions_survive_kills(replica):
    """Killed three times while jobs wait and run, and decisions are recorded."""
    jobs, answered = [submit(replica.client, 0)], set()
    version_of(replica.client, jobs[0])

    def ask(number):
        with httpx.Client(base_url=replica.url) as client:
            for i in range(10_000):
                record = {"ids": [f"{number}-{i}"]} if i % 2 else True
                try:
                    answer = client.post(
                        "/predict", json={**QUESTION, "record": record}
                    )
                except httpx.TransportError:
                    return
                answered.update(answer.json()["ids"])

    for turn in range(3):
        before = len(answered)
        threads = [
            threading.Thread(target=ask, args=(f"{turn}-{client}",))
            for client in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        jobs += [submit(replica.client, len(jobs) + i) for i in range(2)]
        until = time.monotonic() + 30
        while len(answered) < before + 100 and time.monotonic() < until:
            time.sleep(0.01)
        replica.kill()
        for thread in threads:
            thread.join()
        assert len(answered) >= before + 100
        replica.start()

    versions = [version_of(replica.client, job) for job in jobs]
    listed = replica.client.get("/models/ward").json()["versions"]
    assert sorted(versions) == sorted(line["version"] for line in listed)
    assert submit(replica.client, 0) == jobs[0], (
        "the same key after all that: still the first job"
    )
    database = Database(f"sqlite:///{replica.home / 'payoff.db'}")
    rows = stored(database)
    database.close()
    assert answered <= rows.keys()
    assert len(rows) <= len(answered) + 3 * CLIENTS  # what was not answered any more


def test_a_stop_finishes_running_requests(replica):
    """SIGTERM: a large request under way is answered whole, then the process ends cleanly."""
    version_of(replica.client, submit(replica.client, 0))
    body = json.dumps(QUESTION | {"instances": [[50, 70, "mild"]] * 200_000}).encode()
    answers, sent = [], threading.Event()

    def content():
        yield body
        sent.set()

    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    asking = threading.Thread(
        target=lambda: answers.append(
            replica.client.post("/predict", content=content(), headers=headers)
        )
    )
    asking.start()
    assert sent.wait(60)
    code = replica.stop()
    asking.join()

    assert answers[0].status_code == 200
    assert len(answers[0].json()["decisions"]) == 200_000
    assert code in (0, -signal.SIGTERM)
