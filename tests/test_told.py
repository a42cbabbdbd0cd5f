"""What a service and a worker, as processes, tell those who operate them: log lines, and the worker's metrics."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from io import BytesIO

import httpx
import numpy as np
import pytest

from tests.conftest import serving, settings_for, trained, two_class_rows
from tests.jobs.waiting import eventually
from tests.servers.program import free_port
from tests.servers.service import JobWorker, Replica

KEY = "k3y-of-the-test"
SECRETS = (KEY, "31337", "ssn-123")  # the key, a benefit that is sent, the id of a decision


@dataclass
class Told:
    """What came out of the processes."""

    service_log: list[str] = field(default_factory=list)
    worker_log: list[str] = field(default_factory=list)
    worker_metrics: str = ""
    job: dict = field(default_factory=dict)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A model trained and asked once.

    What is asked is a version before the latest one when the service starts: this one is not loaded beforehand.
    """
    result, folder, port = Told(), tmp_path_factory.mktemp("told"), free_port()
    with serving(settings_for(folder)) as client:
        for _ in range(2):
            trained(client, {"model": "ward", "learner": {"kind": "logistic"}, "data": _numbers()})
    settings = {"home": folder / "home", "models": folder / "models", "admin_key": KEY, "log_level": "debug"}
    service = Replica(settings | {"workers": 0})
    worker = JobWorker(settings | {"metrics_port": port, "metrics_prot": 1})
    try:
        service.spawn()
        worker.start()
        service.wait_ready()
        service.client.headers["X-API-Key"] = KEY
        result.job = _ask(service.client)
        counted = 'payoff_jobs_ended_total{kind="train",status="succeeded"} 1.0'
        page = f"http://127.0.0.1:{port}/metrics"
        eventually(lambda: counted in httpx.get(page).text)
        result.worker_metrics = httpx.get(page).text
        service.stop()
        worker.stop()
        result.service_log = service.log.read_text().splitlines()
        result.worker_log = worker.log.read_text().splitlines()
    finally:
        service.close()
        worker.close()
    return result


def _ask(client: httpx.Client) -> dict:
    order = {
        "model": "ward",
        "learner": {"kind": "logistic"},
        "data": _numbers(),
        "benefits": [[0, 0], [0, 31337]],
    }
    headers = {"X-Request-ID": "order-1", "Prefer": "wait=60"}
    job = client.post("/train", json=order, headers=headers)
    assert job.json()["status"] == "succeeded", job.text
    array = BytesIO()
    np.save(array, np.array([[50.0, 70.0]]))
    query = {"model": "ward:1", "benefits": "[[0,0],[0,31337]]"}
    answer = client.post(
        "/predict", params=query, content=array.getvalue(), headers={"Content-Type": "application/x-npy"}
    )
    assert answer.status_code == 200, answer.text
    assert client.delete("/outcomes/ssn-123").status_code == 404
    assert client.delete("/outcomes/a%2Fssn-123").status_code == 404
    assert client.delete("/outcomes/ssn-123", headers={"X-API-Key": "wrong"}).status_code == 401
    assert client.put("/outcomes/ssn-123").status_code == 405
    assert client.delete("/none/outcomes/ssn-123").status_code == 404
    return job.json()


def _numbers() -> dict:
    table = two_class_rows()
    return table | {"features": table["features"][:2], "rows": [row[:2] for row in table["rows"]]}


def test_neither_keys_nor_what_was_sent_are_told(told):
    everything = "".join(told.service_log + told.worker_log) + told.worker_metrics

    assert not [secret for secret in SECRETS if secret in everything]


def test_every_log_line_is_json(told):
    """The server's own lines, too, and those of the job's process; times have one format."""
    for line in told.service_log + told.worker_log:
        found = json.loads(line)
        assert {"event", "level"} <= found.keys(), line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found["timestamp"]), line


def test_a_jobs_lines_name_the_request_that_ordered_it(told):
    lines = [json.loads(line) for line in told.worker_log]
    begins = next(line for line in lines if line["event"] == "job begins")
    ended = next(line for line in lines if line["event"] == "job ended")

    for line in (begins, ended):
        assert (line["job"], line["attempt"], line["request_id"]) == (told.job["id"], 1, "order-1")
    assert ended["status"] == "succeeded"


def test_request_lines_name_the_request_and_no_decision(told):
    lines = [json.loads(line) for line in told.service_log]

    assert "/outcomes/{id}" in {line.get("path") for line in lines}
    (line,) = [line for line in lines if line.get("path") == "/train"]
    assert (line["request_id"], line["status"]) == ("order-1", 200)


def test_a_misspelt_setting_is_told_at_the_start_with_the_nearest_name(told):
    lines = [json.loads(line)["event"] for line in told.worker_log]

    assert "unknown setting 'PAYOFF_METRICS_PROT'; did you mean 'PAYOFF_METRICS_PORT'?" in lines
