"""The load balancer's configuration, in a real nginx before replicas made for the test."""

import json
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPMessage, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from app.settings import Settings
from tests.conftest import free_port, serving
from tests.servers.fixtures import absent
from tests.servers.nginx import balancing

KEY = "secret"


@contextmanager
def replica(
    status: int = 200, check: int | None = None
) -> Iterator[tuple[int, list[str]]]:
    """A server that answers each request with its own head; its port, and the request lines that it has seen.

    Asked whether a key is valid it answers like the service, or always with `check`; those requests are not listed.
    """
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if self.path == "/access":
                self.check()
                return
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append(f"{self.command} {self.path}")
            self.send_response(status)
            body = str(self.headers).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def check(self) -> None:
            self.send_response(
                check or (204 if self.headers["X-API-Key"] == KEY else 401)
            )
            self.send_header("Retry-After", "7")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_HEAD = do_OPTIONS = do_PUT = do_DELETE = do_PATCH = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 500

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Callable[..., httpx.Client]]:
    """Start nginx with the project's configuration before replicas on these ports of this machine."""
    if not shutil.which("nginx"):
        absent("nginx is not installed (Debian: apt-get install nginx)")
    with ExitStack() as stack:

        def start(*ports: int) -> httpx.Client:
            port = stack.enter_context(balancing(tmp_path, *ports))
            return stack.enter_context(
                httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
            )

        yield start


def raw(
    client: httpx.Client, head: str, body: bytes = b""
) -> tuple[HTTPMessage, int, bytes]:
    """Send this, which httpx would refuse or rewrite; the headers, the status and the body of the answer."""
    with connected(client) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n")
        with suppress(OSError):  # nginx may have answered and closed
            connection.sendall(body)
        return answer_on(connection)


def connected(client: httpx.Client) -> socket.socket:
    return socket.create_connection(
        (client.base_url.host, client.base_url.port or 0), timeout=20
    )


def answer_on(connection: socket.socket) -> tuple[HTTPMessage, int, bytes]:
    with HTTPResponse(connection) as answer:
        answer.begin()
        return answer.headers, answer.status, answer.read()


def test_requests_pass_with_an_id_and_where_they_come_from(balancer):
    with replica() as (port, _):
        client = balancer(port)
        given = client.get(
            "/models", headers={"X-Request-ID": "mine-1", "X-API-Key": "secret"}
        ).text
        forged = {
            "X-Forwarded-For": "1.2.3.4",
            "Forwarded": "for=1.2.3.4",
            "Upgrade": "h2c",
        }
        made = client.get("/models", headers=forged).text

    assert "X-Request-ID: mine-1\n" in given
    assert "X-API-Key: secret\n" in given
    assert re.search(r"X-Request-ID: [0-9a-f]{32}\n", made)
    assert re.findall(r"(?i)(?:x-forwarded-for|forwarded|upgrade): .*", made) == [
        "X-Forwarded-For: 127.0.0.1"
    ]


def test_the_access_log_has_no_id_of_a_decision(balancer, tmp_path):
    with replica() as (port, seen):
        client = balancer(port)
        for path in ("/outcomes/ssn-123", "/outcomes/a%20ssn-123", "/outcomes"):
            client.delete(path)
        assert "DELETE /outcomes/ssn-123" in seen
    lines = (tmp_path / "access.log").read_text()
    assert "ssn-123" not in lines
    assert [json.loads(line)["path"] for line in lines.splitlines()] == [
        "/outcomes/{id}"
    ] * 2 + ["/outcomes"]


def test_a_replica_that_cannot_be_reached_costs_no_request(balancer):
    with replica() as (port, seen):
        client = balancer(free_port(), port)
        answers = [
            client.request(method, "/train", content=b"{}")
            for method in ("GET", "POST")
            for _ in range(4)
        ]

    assert [answer.status_code for answer in answers] == [200] * 8
    assert len(seen) == 8


def test_what_changes_nothing_is_asked_again_of_another_replica(balancer):
    with replica(503) as (stopping, refused), replica() as (port, _):
        client = balancer(stopping, port)
        for path in ("/predict", "/retrieve", "/acquire", "/models/m/benefit"):
            assert [client.post(path, content=b"{}").status_code for _ in range(2)] == [
                200,
                200,
            ]

    assert refused


def test_where_nobody_is_behind_it_a_problem_document_says_so(balancer):
    answer = balancer(free_port()).post("/models")

    assert answer.status_code == answer.json()["status"] == 503
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_what_may_change_something_is_asked_once(balancer):
    with replica(503) as (one, first), replica(503) as (other, second):
        client = balancer(one, other)
        assert client.post("/train", content=b"{}").status_code == 503

    assert len(first) + len(second) == 1


# paths

SPELLINGS = r"""
/{} //{} /{}/ /{}// /./{} /{}/. /x/../{} /models/../{} /models/x/../../{} /models/{}/../../{} /docs/../{}
/health/../{} /health/live/../../{} /models?/../{} /models#/../{} /{};x /;x/{} /{}%3Bx /{}?x=1 /{}? /{}%3F /{}#x /{}\
\{} /models\..\{} /%2e/{} /models/%2e%2e/{} /models/%2e./{} /models/..%2f{} /models%2f..%2f{} /%2f{} /{}%2f
/models/..%5c{} /{}%00 /{}%09 /{}%0A /{}%0D /{}%0D%0A /{}%1F /{}%7F /{}%C2%85 /%0A{} /%0A/{} /{}%20 /{}%2500 /{}%250A
http://x/{} http://x//{} http://x/models/../{} {} *
"""  # `{}` is the hidden path
HIDDEN = (
    "metrics",
    "METRICS",
    "%6detrics",
    "metric%73",
    "%256Detrics",
    "%6D%65%74%72%69%63%73",
)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /models%00 HTTP/1.1\nHost: x\n", 400),
        (f"GET /{'a' * 9000} HTTP/1.1\nHost: x\n", 414),
        ("GET /models HTTP/1.1\nHost: x\nTransfer-Encoding: gzip\n", 501),
        ("GET /metrics HTTP/1.1\nHost: x\n", 404),
        ("TRACE /models HTTP/1.1\nHost: x\n", 405),
        (f"GET /models HTTP/1.1\nHost: x\nX-A: {'a' * 9000}\n", 431),
        ("POST /predict HTTP/1.1\nHost: x\nContent-Length: 65537\n", 413),
        ("POST /predict HTTP/1.1\nHost: x\nContent-Length: 65536\n", 401),
    ],
)
def test_what_it_refuses_by_the_head_gets_a_problem_document(balancer, head, status):
    """No metrics for others, no more than a replica would take."""
    with replica() as (port, seen):
        headers, found, body = raw(
            balancer(port), head + "X-Request-ID: mine\nConnection: close\n"
        )

    assert found == json.loads(body)["status"] == status
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["X-Request-ID"]
    assert not seen


# bodies

UPLOADS = (
    ("POST /datasets", "Content-Length: 536870912"),  # as many as may be sent
    ("POST /datasets", "Content-Length: 60000"),  # one more than fits
    ("POST /predict", "Transfer-Encoding: chunked"),
    ("GET /health/live", "Content-Length: 65536"),
)
SENT = 8 * 2**20


@pytest.mark.parametrize(("line", "framing"), UPLOADS)
@pytest.mark.parametrize("key", ["", "X-API-Key: wrong\n"])
def test_no_body_is_read_before_the_key_is_checked(
    balancer, tmp_path, line, framing, key
):
    """A body without a valid key is not written to disk, nor passed on."""
    body = bytes(SENT) if "Length" in framing else b"%x\r\n%b\r\n" % (SENT, bytes(SENT))
    with replica() as (port, seen):
        head = f"{line} HTTP/1.1\nHost: x\n{framing}\n{key}Connection: close\n"
        headers, status, _ = raw(balancer(port), head, body)

    assert (status, headers["WWW-Authenticate"]) == (401, 'ApiKey realm="payoff"')
    assert not seen
    assert "temporary file" not in (tmp_path / "error.log").read_text()


@pytest.mark.parametrize(
    ("path", "size", "check", "kept"),
    [("/datasets", SENT, None, True), ("/predict", 59_999, 500, False)],
)
def test_a_body_is_kept_on_disk_until_it_is_whole_unless_it_is_short(
    balancer, tmp_path, path, size, check, kept
):
    """Short ones stay in memory, and the replica checks the key itself."""
    with replica(check=check) as (port, seen):
        answer = balancer(port).post(
            path, content=bytes(size), headers={"X-API-Key": KEY} if kept else {}
        )

    assert answer.status_code == 200
    assert seen == [f"POST {path}"]
    assert ("temporary file" in (tmp_path / "error.log").read_text()) == kept


@pytest.mark.parametrize(
    ("check", "status", "wait"),
    [(403, 401, None), (429, 429, "7"), (503, 503, "7"), (500, 503, "7")],
)
@pytest.mark.thorough
def test_a_check_that_fails_lets_nobody_in(balancer, check, status, wait):
    with replica(check=check) as (port, seen):
        answer = balancer(port).post(
            "/datasets", content=bytes(100_000), headers={"X-API-Key": KEY}
        )

    assert answer.status_code == answer.json()["status"] == status
    assert answer.headers.get("Retry-After") == wait
    assert not seen


def test_before_the_service_itself(balancer, tmp_path):
    """The service answers the check as the replicas of the other tests do, and its metrics stay hidden."""
    table = b"x,y\n" + b"1,a\n2,b\n" * 10_000
    settings = Settings(
        home=tmp_path / "home",
        models=str(tmp_path / "models"),
        workers=0,
        admin_key=KEY,
    )
    with serving(settings) as service:
        client = balancer(service.base_url.port)
        refused = [
            client.post(
                "/datasets",
                content=table,
                headers={"Content-Type": "text/csv", **headers},
            ).status_code
            for headers in (
                {},
                {"X-API-Key": "wrong"},
                {"Authorization": "Bearer wrong"},
            )
        ]
        assert "temporary file" not in (tmp_path / "error.log").read_text()
        client.headers["X-API-Key"] = KEY
        stored = client.post(
            "/datasets?label=y", content=table, headers={"Content-Type": "text/csv"}
        )
        bodies = [
            raw(
                client,
                f"GET {form.replace('{}', hidden)} HTTP/1.1\nHost: x\nX-API-Key: {KEY}\nConnection: close\n",
            )[2]
            for form in SPELLINGS.split()
            for hidden in HIDDEN
        ]

        assert refused == [401, 401, 401]
        assert stored.status_code == 201, stored.text
        assert (
            service.get("/metrics", headers={"X-API-Key": KEY}).text.count(
                "payoff_request_seconds_count"
            )
            > 1
        )
        assert not any(b"payoff_request_seconds_count" in body for body in bodies)


# slow clients, and many


@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("POST /datasets HTTP/1.1\r\nX-API-Key: secret", 8),
        ("POST /predict HTTP/1.1", 200),
    ],
)
def test_one_address_has_so_many_requests_open_at_once(balancer, line, most):
    head = f"{line}\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode()
    with replica() as (port, seen), ExitStack() as stack:
        client = balancer(port)
        slow = [stack.enter_context(connected(client)) for _ in range(most)]
        for connection in slow:
            connection.sendall(head)
            assert connection.recv(100).startswith(
                b"HTTP/1.1 100 "
            )  # it was counted and let in
        headers, _, body = raw(client, head.decode().replace("\r\n", "\n")[:-1])
        refused = json.loads(body)
        for connection in slow:
            connection.sendall(b"123456789")
        answers = {answer_on(connection)[1] for connection in slow}

    assert (refused["status"], refused["type"]) == (
        429,
        "urn:payoff:problem:too-many-requests",
    )
    assert headers["Retry-After"] == "1"
    assert answers == {200}
    assert len(seen) == most
