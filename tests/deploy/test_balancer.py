"""The load balancer's configuration, in a real nginx before replicas made for the test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.conftest import free_port

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"

pytestmark = pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")


@contextmanager
def replica(status: int = 200) -> Iterator[tuple[int, list[str]]]:
    """A server that answers each request with its own head, its port, and the lines that it has seen."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append(f"{self.command} {self.path}")
            self.send_response(status)
            body = str(self.headers).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Callable[..., httpx.Client]]:
    """Start nginx with the project's configuration before replicas on these ports of this machine."""
    started: list[tuple[subprocess.Popen[bytes], httpx.Client]] = []

    def start(*ports: int) -> httpx.Client:
        port, health = free_port(), free_port()
        group = "".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ports)
        text = CONFIGURATION.read_text().replace("set $replica service:8000;", "set $replica replicas;")
        text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};").replace("8081", str(health))
        text = text.replace("  server {", f"  upstream replicas {{ {group} }}\n  server {{", 1)
        text = text.replace("client_max_body_size 64m", "client_max_body_size 64k").replace("size 512m", "size 512k")
        text = re.sub(r"/tmp/(\w)", rf"{tmp_path}/\1", text).replace("/dev/stdout", f"{tmp_path}/access.log")
        (tmp_path / "nginx.conf").write_text("daemon off;\n" + ("user root;\n" if os.geteuid() == 0 else "") + text)
        command = ["nginx", "-p", tmp_path, "-e", "stderr", "-c", tmp_path / "nginx.conf"]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}")
        started.append((process, client))
        for _ in range(200):
            try:
                assert httpx.get(f"http://127.0.0.1:{health}/").text == "ok\n"
            except httpx.TransportError:
                assert process.poll() is None, "nginx does not start"
                time.sleep(0.02)
            else:
                return client
        raise AssertionError("nginx does not answer")

    yield start
    for process, client in started:
        client.close()
        process.terminate()
        process.wait()


def test_the_configuration_is_one(tmp_path):
    (tmp_path / "nginx.conf").write_text(re.sub(r"/tmp/(\w)", rf"{tmp_path}/\1", CONFIGURATION.read_text()))
    command = ["nginx", "-t", "-p", tmp_path, "-e", "stderr", "-c", tmp_path / "nginx.conf"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)

    assert found.returncode == 0, found.stderr


def test_requests_pass_with_an_id_and_where_they_come_from(balancer):
    with replica() as (port, _):
        client = balancer(port)
        given = client.get("/models", headers={"X-Request-ID": "mine-1", "X-API-Key": "secret"}).text
        made = client.get("/models", headers={"X-Forwarded-For": "1.2.3.4"}).text

    assert "X-Request-ID: mine-1\n" in given
    assert "X-API-Key: secret\n" in given
    assert re.search(r"X-Request-ID: [0-9a-f]{32}\n", made)
    assert "X-Forwarded-For: 127.0.0.1\n" in made


def test_a_replica_that_cannot_be_reached_costs_no_request(balancer):
    with replica() as (port, seen):
        client = balancer(free_port(), port)
        answers = [client.request(method, "/train", content=b"{}") for method in ("GET", "POST") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200] * 8
    assert len(seen) == 8


def test_what_changes_nothing_is_asked_again_of_another_replica(balancer):
    with replica(503) as (stopping, refused), replica() as (port, _):
        client = balancer(stopping, port)
        for path in ("/predict", "/retrieve", "/acquire", "/models/m/benefit"):
            assert [client.post(path, content=b"{}").status_code for _ in range(2)] == [200, 200]

    assert refused


def test_what_may_change_something_is_asked_once(balancer):
    with replica(503) as (one, first), replica(503) as (other, second):
        client = balancer(one, other)
        assert client.post("/train", content=b"{}").status_code == 503

    assert len(first) + len(second) == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [("/metrics", b"", 404), ("/predict", bytes(65 * 2**10), 413), ("/models", b"", 503)],
)
def test_errors_of_its_own_are_problem_documents(balancer, path, body, status):
    """No metrics for others, no more than a replica would take, and nobody behind it."""
    answer = balancer(free_port()).post(path, content=body)

    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json().keys() == {"type", "title", "status", "detail"}


def test_uploads_may_be_larger_than_other_bodies(balancer):
    with replica() as (port, seen):
        assert balancer(port).post("/datasets", content=bytes(65 * 2**10)).status_code == 200

    assert seen == ["POST /datasets"]
