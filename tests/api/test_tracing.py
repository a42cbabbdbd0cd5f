"""What a service and a worker, as processes, tell those who operate them: traces, log lines, and the worker's metrics.

A collector of the test's own listens on loopback.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO

import httpx
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conftest import serving, settings_for, trained, two_class_rows
from tests.jobs.waiting import eventually
from tests.servers.program import free_port
from tests.servers.service import JobWorker, Replica

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
KEY = "k3y-of-the-test"
SECRETS = (KEY, "31337", "ssn-123")  # the key, a benefit that is sent, the id of a decision


@dataclass
class Told:
    """What came out of the processes."""

    spans: list[dict] = field(default_factory=list)
    service_log: list[str] = field(default_factory=list)
    worker_log: list[str] = field(default_factory=list)
    worker_metrics: str = ""
    job: dict = field(default_factory=dict)

    def named(self, name: str) -> list[dict]:
        return [span for span in self.spans if span["name"] == name]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A model trained and asked once, within a trace that its client began.

    What is asked is a version before the latest one when the service starts: this one is not loaded beforehand.
    """
    result, folder, port = Told(), tmp_path_factory.mktemp("told"), free_port()
    with serving(settings_for(folder)) as client:
        for _ in range(2):
            trained(client, {"model": "ward", "learner": {"kind": "logistic"}, "data": _numbers()})
    with Collecting(result.spans) as collector:
        settings = {"home": folder / "home", "models": folder / "models", "admin_key": KEY, "log_level": "debug"}
        fast = {"OTEL_BSP_SCHEDULE_DELAY": "100"}
        service = Replica(settings | {"workers": 0, "telemetry": collector}, fast)
        worker = JobWorker(settings | {"telemetry": collector, "metrics_port": port, "metrics_prot": 1}, fast)
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
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "order-1", "Prefer": "wait=60"}
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


class Collecting:
    """A collector that keeps the spans which it is sent."""

    def __init__(self, spans: list[dict]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                spans.extend(_spans_of(ExportTraceServiceRequest.FromString(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def _spans_of(sent: ExportTraceServiceRequest) -> list[dict]:
    return [
        {
            "name": span.name,
            "trace": span.trace_id.hex(),
            "id": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "attributes": {item.key: item.value.string_value or item.value.int_value for item in span.attributes},
            "events": len(span.events),
        }
        for resource in sent.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@pytest.mark.thorough
def test_a_job_is_below_the_request_that_ordered_it_and_its_stages_below_the_job(told):
    (request,) = told.named("POST /train")
    (job,) = told.named("job train")
    stages = [span["name"] for span in told.spans if span["parent"] == job["id"]]

    assert (request["trace"], request["parent"]) == (TRACE, PARENT)
    assert (job["trace"], job["parent"]) == (TRACE, request["id"])
    assert job["attributes"]["payoff.job"] == told.job["id"]
    assert job["attributes"]["payoff.request_id"] == "order-1"
    assert stages[0] == "reading data"
    assert stages[-1] == "publishing"


def test_requests_are_named_after_their_routes_and_health_is_not_traced(told):
    (request,) = told.named("POST /predict")  # a route that goes past the framework

    assert request["attributes"]["http.route"] == "/predict"
    assert request["attributes"]["http.response.status_code"] == 200
    assert not [span for span in told.spans if "health" in span["name"]]


def test_loading_a_model_is_a_part_of_the_request_that_needed_it(told):
    (request,) = told.named("POST /predict")
    (load,) = [span for span in told.named("load model") if span["attributes"]["payoff.model"] == "ward:1"]

    assert load["parent"] == request["id"]


def test_neither_keys_nor_what_was_sent_are_told(told):
    everything = json.dumps(told.spans) + "".join(told.service_log + told.worker_log) + told.worker_metrics

    assert told.named("POST /predict")[0]["attributes"]["url.query"] == "REDACTED"
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


def test_request_lines_name_the_trace(told):
    lines = [json.loads(line) for line in told.service_log]

    assert "/outcomes/{id}" in {line.get("path") for line in lines}
    (line,) = [line for line in lines if line.get("path") == "/train"]
    assert (line["trace_id"], line["request_id"], line["status"]) == (TRACE, "order-1", 200)


def test_a_misspelt_setting_is_told_at_the_start_with_the_nearest_name(told):
    found = [line for line in map(json.loads, told.worker_log) if line["event"] == "unknown setting"]

    assert ("PAYOFF_METRICS_PROT", "PAYOFF_METRICS_PORT") in [
        (line["variable"], line["did_you_mean"]) for line in found
    ]


def test_a_worker_tells_its_metrics_at_a_port_of_its_own(told):
    for name in (
        "payoff_build_info",
        "payoff_job_seconds_count",
        "payoff_job_wait_seconds_count",
        "payoff_workers 1.0",
    ):
        assert name in told.worker_metrics
