"""What a service and a worker, as processes, tell those who operate them: log lines, and the worker's metrics."""

import json
import re
from contextlib import closing
from io import BytesIO

import httpx
import numpy as np
import pytest

from tests.conftest import two_class_rows
from tests.jobs.waiting import eventually
from tests.servers.program import free_port
from tests.servers.service import JobWorker, Replica

KEY = "k3y-of-the-test"
SECRETS = (
    KEY,
    "31337",
    "ssn-123",
)  # the key, a benefit that is sent, the id of a decision
TABLE = two_class_rows()
DATA = TABLE | {
    "features": TABLE["features"][:2],
    "rows": [row[:2] for row in TABLE["rows"]],
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The lines of a service and of a worker, after a model was trained and asked, and the job's id."""
    folder, port = tmp_path_factory.mktemp("told"), free_port()
    settings = {
        "home": folder / "home",
        "models": folder / "models",
        "admin_key": KEY,
        "log_level": "debug",
    }
    service = Replica(settings | {"workers": 0})
    worker = JobWorker(settings | {"metrics_port": port, "metrics_prot": 1})
    with closing(service), closing(worker):
        worker.start()
        service.start()
        service.client.headers["X-API-Key"] = KEY
        job = asked(service.client)
        page = f"http://127.0.0.1:{port}/metrics"
        eventually(
            lambda: (
                'payoff_jobs_ended_total{kind="train",status="succeeded"} 1.0'
                in httpx.get(page).text
            )
        )
        metrics = httpx.get(page).text
        service.stop()
        worker.stop()
        logs = service.log.read_text(), worker.log.read_text()
    assert not [secret for secret in SECRETS if secret in "".join(logs) + metrics]
    # The address is for people, on standard error.
    lines = [
        [line for line in log.splitlines() if "Payoff is at http" not in line]
        for log in logs
    ]
    return *([json.loads(line) for line in log] for log in lines), job


def asked(client: httpx.Client) -> str:
    order = {
        "model": "ward",
        "learner": {"kind": "logistic"},
        "data": DATA,
        "benefits": [[0, 0], [0, 31337]],
    }
    job = client.post(
        "/train", json=order, headers={"X-Request-ID": "order-1", "Prefer": "wait=60"}
    )
    assert job.json()["status"] == "succeeded", job.text
    array = BytesIO()
    np.save(array, np.array([[50.0, 70.0]]))
    query, kind = (
        {"model": "ward:1", "benefits": "[[0,0],[0,31337]]"},
        {"Content-Type": "application/x-npy"},
    )
    assert (
        client.post(
            "/predict", params=query, content=array.getvalue(), headers=kind
        ).status_code
        == 200
    )
    for path in (
        "/outcomes/ssn-123",
        "/outcomes/a%2Fssn-123",
        "/none/outcomes/ssn-123",
    ):
        assert client.delete(path).status_code == 404
    assert (
        client.delete("/outcomes/ssn-123", headers={"X-API-Key": "wrong"}).status_code
        == 401
    )
    assert client.put("/outcomes/ssn-123").status_code == 405
    return job.json()["id"]


def test_every_line_is_json_and_tells_no_secret(told):
    """The server's own lines, too, and those of the job's process; times have one format."""
    for line in [*told[0], *told[1]]:
        assert {"event", "level"} <= line.keys(), line
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["timestamp"]
        ), line


def test_lines_name_the_request_its_job_and_no_decision(told):
    service, worker, job = told
    assert "/outcomes/{id}" in {line.get("path") for line in service}
    (line,) = [line for line in service if line.get("path") == "/train"]
    assert (line["request_id"], line["status"]) == ("order-1", 200)
    ended = {
        line["event"]: line
        for line in worker
        if line["event"] in ("job begins", "job ended")
    }
    assert [
        (line["job"], line["attempt"], line["request_id"]) for line in ended.values()
    ] == [(job, 1, "order-1")] * 2
    assert ended["job ended"]["status"] == "succeeded"


def test_a_misspelt_setting_is_told_at_the_start_with_the_nearest_name(told):
    words = "unknown setting 'PAYOFF_METRICS_PROT'; did you mean 'PAYOFF_METRICS_PORT'?"
    assert words in [line["event"] for line in told[1]]
