"""The service that the tour asks, and how it asks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

_START_SECONDS = 120  # on a busy machine
_REPORT_SECONDS = 10  # before the reason for waiting is printed
_JOB_SECONDS = 300


def post(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    return answered(client.post(path, **body))


def answered(response: httpx.Response) -> dict[str, Any]:
    """The JSON of a response; SystemExit where it is an error."""
    if response.is_error:
        raise SystemExit(f"{response.url.path} answered {response.status_code}: {response.text}")
    answer: dict[str, Any] = response.json()
    return answer


def wait(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end of a job and print its progress."""
    until = time.monotonic() + _JOB_SECONDS
    while job["status"] in ("queued", "running") and time.monotonic() < until:
        if sys.stdout.isatty():
            print(f"POST /train      {job['progress']:4.0%} {job['stage'] or job['status']:<40}", end="\r", flush=True)
        time.sleep(0.1)
        job = client.get(f"/train/{job['id']}").json()
    if job["status"] != "succeeded":
        raise SystemExit(f"the training job ended as {job['status']}: {job['error']}")
    return job


def client_of(url: str) -> httpx.Client:
    key = os.environ.get("PAYOFF_ADMIN_KEY")
    return httpx.Client(base_url=url, headers={"X-API-Key": key} if key else {}, timeout=60)


@contextmanager
def service(port: int) -> Iterator[httpx.Client]:
    """Start the service in a process and wait until it is ready."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise SystemExit(
                f"port {port} is in use; choose another port: payoff demo --port 8001, or make demo PORT=8001"
            )
    environment = {"PAYOFF_ACCESS_LOG": "false", "PAYOFF_LOG_LEVEL": "warning", **os.environ}
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port)]
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # else the service would stay, with the port
    server = subprocess.Popen(command, env=environment)  # noqa: S603 - our own command
    try:
        with client_of(f"http://127.0.0.1:{port}") as client:
            _await_ready(client, server)
            yield client
    finally:
        server.terminate()
        server.wait()


def _await_ready(client: httpx.Client, server: subprocess.Popen[bytes]) -> None:
    """Wait until the service is ready; print why it is not if that takes long."""
    began, printed, reason = time.monotonic(), "", "no answer"
    while time.monotonic() < began + _START_SECONDS:
        if server.poll() is not None:
            raise SystemExit("the service exited; see its last log lines")
        try:
            answer = client.get("/health/ready")
        except httpx.TransportError:
            reason = "no answer"
        else:
            if answer.status_code == httpx.codes.OK:
                return
            reason = answer.json()["detail"]
        if time.monotonic() > began + _REPORT_SECONDS and reason != printed:
            print(f"waiting for the service: {reason}", flush=True)
            printed = reason
        time.sleep(0.05)
    raise SystemExit(f"the service did not become ready: {reason}")
