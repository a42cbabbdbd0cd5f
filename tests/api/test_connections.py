"""What one connection may send, and how long it may take: raw sockets against the server's protocol alone."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import ClassVar

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.api.middleware import connections, timeouts
from app.api.middleware.http_protocol import DRAINED_BYTES, MAX_BYTES, MAX_PIPELINED, BoundedHeads
from app.api.middleware.timeouts import Wait
from tests.conftest import free_port

BIG = 30_000_000
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
FLOODS = {
    "trailer": (b"0\r\nX-A: ", b"a" * 100_000),
    "trailers": (b"0\r\n", b"a:b\r\n" * 20_000),
    "chunk extension": (b"5;", b"a" * 100_000),
    "chunk extensions": (b"", b"1;" + b"a" * 70_000 + b"\r\na\r\n"),
}


class Quick(BoundedHeads):
    """The same protocol with little time."""

    waits: ClassVar = {Wait.HEAD: 0.6, Wait.BODY: 0.6, Wait.READ: 0.6, Wait.CLOSE: 0.3}


class Few(BoundedHeads):
    """The same protocol with few connections, and all the time there is."""

    most = staticmethod(lambda: 10)


class Application:
    """Answers in the ways that matter here, and remembers what it saw."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.disconnected = 0
        self.began = threading.Event()
        self.released = threading.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return
        self.headers = scope["headers"]
        status, body = await getattr(self, scope["path"].strip("/"))(scope, receive)
        if status is None:
            return
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": status, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    async def read(self, _scope, receive):
        """The whole request is read."""
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnected += 1
                return None, b""
            size, more = size + len(message["body"]), message["more_body"]
        return 200, b"%d" % size

    async def refused(self, _scope, _receive):
        """Nothing is read."""
        return 401, b"no key"

    async def accepted(self, _scope, _receive):
        return 200, b"fine"

    async def long(self, _scope, _receive):
        return 200, bytes(BIG)

    async def held(self, _scope, _receive):
        """The answer comes when the test lets it."""
        self.began.set()
        await asyncio.to_thread(self.released.wait)
        return 200, b"late"

    async def slow(self, _scope, _receive):
        await asyncio.sleep(2)
        return 200, b"late"


class Server:
    def __init__(self, port: int, application: Application, state: ServerState) -> None:
        self.port = port
        self.application = application
        self.state = state

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            yield connection


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setattr(timeouts, "_SECONDS", 0.05)
    with serving(Quick) as server:
        yield server


@pytest.fixture
def small_server() -> Iterator[Server]:
    with serving(Few) as server:
        yield server


@contextmanager
def serving(protocol: type[BoundedHeads]) -> Iterator[Server]:
    port, application = free_port(), Application()
    running = uvicorn.Server(
        uvicorn.Config(application, port=port, log_config=None, lifespan="off", loop="uvloop", http=protocol, ws="none")
    )
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield Server(port, application, running.server_state)
    running.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def head(path: str, *lines: bytes, method: str = "POST") -> bytes:
    return f"{method} /{path} HTTP/1.1\r\nHost: a\r\n".encode() + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def flooded(connection: socket.socket, part: bytes, total: int = BIG) -> int:
    """How much could be sent."""
    sent = 0
    try:
        while sent < total:
            connection.sendall(part)
            sent += len(part)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return sent


def answer(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    received = b""
    try:
        while part := connection.recv(1 << 20):
            received += part
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize(
    ("path", "status"), [("refused", b"401"), ("accepted", b"200"), ("read", b"431")], ids=["401", "200", "unanswered"]
)
@pytest.mark.thorough
def test_trailers_and_chunk_extensions_are_bounded(server, path, status, flood):
    """After an early answer, good or bad, and before any."""
    begin, part = FLOODS[flood]
    with server.connection() as connection:
        connection.sendall(f"POST /{path} HTTP/1.1\r\nHost: a\r\n".encode() + CHUNKED + begin)
        time.sleep(0.1)
        sent = flooded(connection, part)
        received = answer(connection)

    assert sent < 15_000_000  # sockets alone hold some
    assert received.split(b" ")[1] == status
    assert b"connection: close" in received


@pytest.mark.parametrize("path", ["refused", "accepted"])
@pytest.mark.parametrize("length", [b"Content-Length: 30000000", b"Transfer-Encoding: chunked"])
def test_the_rest_of_a_body_is_not_read_after_the_answer(server, path, length):
    with server.connection() as connection:
        connection.sendall(head(path, length))
        sent = flooded(connection, b"186a0\r\n" + b"a" * 100_000 + b"\r\n")
        received = answer(connection)

    assert sent < 15_000_000
    assert b"connection: close" in received


def test_a_client_that_ends_its_request_after_the_answer_gets_it_and_a_clean_end(server):
    with server.connection() as connection:
        connection.sendall(head("refused", b"Content-Length: %d" % (DRAINED_BYTES // 2)))
        time.sleep(0.1)
        connection.sendall(b"a" * (DRAINED_BYTES // 2))

        assert answer(connection).endswith(b"no key")


def test_a_request_that_is_complete_keeps_its_connection_whatever_the_answer(server):
    body = b"Content-Length: 5"
    with server.connection() as connection:
        for _ in range(3):
            connection.sendall(head("refused", body) + b"abcde" + head("read", b"Transfer-Encoding: chunked"))
            connection.sendall(b"3\r\nabc\r\n0\r\nX-Trailer: yes\r\n\r\n")
            received = b""
            while not received.endswith(b"\r\n\r\n3"):
                received += connection.recv(10_000)

            assert b"close" not in received


def test_an_answer_after_the_connections_end_is_no_error(server, caplog):
    """Of a running request with another one behind it, which the server takes for the one to end."""
    with server.connection() as connection:
        connection.sendall(head("held") * 2 + b"no HTTP")
        assert answer(connection) == b""
    assert server.application.began.wait(10)
    server.application.released.set()
    while server.state.tasks:
        time.sleep(0.01)
    assert [record for record in caplog.records if record.levelname != "WARNING"] == []


def test_trailers_are_no_headers(server):
    """Else they could add what the balancer takes away."""
    with server.connection() as connection:
        connection.sendall(head("read", b"Transfer-Encoding: chunked", b"Connection: close"))
        connection.sendall(b"0\r\nX-API-Key: stolen\r\n\r\n")
        assert answer(connection).startswith(b"HTTP/1.1 200")

    assert b"x-api-key" not in dict(server.application.headers)


@pytest.mark.parametrize("path", ["read", "slow"])
def test_many_short_headers_are_too_many(server, path):
    with server.connection() as connection:
        connection.sendall(head(path, *[b"a:b"] * 300, method="GET"))
        received = answer(connection)

    assert received.split(b" ")[1] in {b"400", b"431"}
    assert json.loads(received.partition(b"\r\n\r\n")[2])["status"] in {400, 431}


def test_pipelined_requests_are_answered_in_order_and_bounded(server):
    with server.connection() as connection:
        connection.sendall(head("accepted", method="GET") * 50 + head("refused", b"Connection: close", method="GET"))
        received = answer(connection)
    assert received.count(b"HTTP/1.1 200") == 50
    assert received.endswith(b"no key")

    with server.connection() as connection:
        connection.sendall(head("slow", method="GET") + head("accepted", method="GET") * (MAX_PIPELINED + 2))
        assert answer(connection) == b""


SLOW = {
    "silent": (b"", b"", b""),
    "silent after line ends": (b"\r\n" * 10, b"", b""),
    "half a head": (b"GET /read HTTP/1.1\r\nX-A: ", b"", b"408"),
    "trickling head": (b"GET /read HTTP/1.1\r\nX-A: ", b"a", b"408"),
    "no body": (head("read", b"Content-Length: 5"), b"", b"408"),
    "trickling body": (head("read", b"Content-Length: 5000"), b"a", b"408"),
    "trickling chunks": (head("read", b"Transfer-Encoding: chunked"), b"1\r\na\r\n", b"408"),
    "trickling trailers": (head("read", b"Transfer-Encoding: chunked") + b"0\r\n", b"a:b\r\n", b"408"),
    "body that is not wanted": (head("refused", b"Content-Length: 5000"), b"a", b"401"),
    "upgrade": (head("read", b"Connection: upgrade", b"Upgrade: websocket"), b"a", b"200"),
    "idle after an answer": (head("read", method="GET"), b"", b"200"),
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.thorough
def test_slow_clients_are_disconnected(server, name):
    begin, drop, status = SLOW[name]
    with server.connection() as connection:
        connection.sendall(begin)
        until = time.monotonic() + 15
        connection.settimeout(0.05)
        received, closed = b"", False
        while not closed:
            assert time.monotonic() < until
            try:
                connection.sendall(drop)
                part = connection.recv(10_000)
                received, closed = received + part, not part
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                closed = True

    assert received[9:12] == status


@pytest.mark.thorough
def test_an_answer_that_is_not_read_is_given_up(server):
    with server.connection() as connection:
        connection.sendall(head("long", method="GET"))
        time.sleep(3)

        assert len(answer(connection)) < BIG


def test_an_answer_that_is_read_slowly_arrives(server):
    with server.connection() as connection:
        connection.sendall(head("long", b"Connection: close", method="GET"))
        count = 0
        while part := connection.recv(500_000):
            count += len(part)
            time.sleep(0.02)

    assert count > BIG


def test_the_server_may_take_its_time(server):
    with server.connection() as connection:
        connection.sendall(head("slow", b"Connection: close", method="GET"))

        assert answer(connection).endswith(b"late")


def test_a_body_that_comes_in_time_is_read(server):
    with server.connection() as connection:
        connection.sendall(head("read", b"Content-Length: 600000", b"Connection: close"))
        for _ in range(30):
            connection.sendall(b"a" * 20_000)
            time.sleep(0.05)

        assert answer(connection).endswith(b"600000")


ODD = {
    "WebSocket": (head("accepted", b"Connection: upgrade", b"Upgrade: websocket", method="GET"), b"200"),
    "h2c": (head("accepted", b"Connection: upgrade", b"Upgrade: h2c", method="GET"), b"200"),
    "upgrade with a body": (head("read", b"Connection: upgrade", b"Upgrade: x", b"Content-Length: 2") + b"{}", b"200"),
    "CONNECT": (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
    "absolute target": (b"GET http://a/accepted HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"200"),
    "HTTP/1.0": (b"GET /accepted HTTP/1.0\r\n\r\n", b"200"),
    "HTTP/1.0 with a body": (b"POST /read HTTP/1.0\r\nContent-Length: 1\r\n\r\na", b"200"),
    "expected and refused": (head("refused", b"Expect: 100-continue", b"Content-Length: 9"), b"401"),
    "HEAD with a body": (head("accepted", b"Content-Length: 2", b"Connection: close", method="HEAD") + b"ab", b"200"),
    "two lengths": (head("read", b"Content-Length: 2", b"Content-Length: 3"), b"400"),
    "length and chunks": (head("read", b"Content-Length: 2", b"Transfer-Encoding: chunked"), b"400"),
    "negative length": (head("read", b"Content-Length: -2"), b"400"),
    "chunk of no size": (head("read", b"Transfer-Encoding: chunked") + b"x\r\n", b"400"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00", b"400"),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.thorough
def test_odd_requests_get_one_answer_and_an_end(server, name):
    message, status = ODD[name]
    with server.connection() as connection:
        connection.sendall(message)
        received = answer(connection)

    assert received.count(b"HTTP/1.1 ") == 1
    assert received[9:12] == status


def test_a_body_without_end_disconnects_the_application(server):
    with server.connection() as connection:
        connection.sendall(head("read", b"Transfer-Encoding: chunked") + b"5;")
        flooded(connection, b"a" * (MAX_BYTES // 2))
        assert answer(connection).startswith(b"HTTP/1.1 431 ")

    until = time.monotonic() + 10
    while not server.application.disconnected and time.monotonic() < until:
        time.sleep(0.01)
    assert server.application.disconnected == 1


WAITING = {
    "nothing": b"",
    "half a head": b"GET /read HTTP/1.1\r\nX-A: ",
    "idle": head("accepted", method="GET"),
    "body that is not wanted": head("refused", b"Content-Length: 5000"),
}


@pytest.mark.parametrize("name", WAITING)
@pytest.mark.thorough
def test_connections_that_wait_make_room_for_others(small_server, name):
    """The one that has waited longest is closed; one whose request is in progress is not."""
    with ExitStack() as stack:
        busy = stack.enter_context(small_server.connection())
        busy.sendall(head("slow", b"Connection: close", method="GET"))
        time.sleep(0.1)
        crowd = [stack.enter_context(small_server.connection()) for _ in range(40)]
        for connection in crowd:
            with suppress(ConnectionError):
                connection.sendall(WAITING[name])
        with small_server.connection() as connection:
            connection.sendall(head("accepted", b"Connection: close", method="GET"))
            assert answer(connection).endswith(b"fine")

        assert answer(busy).endswith(b"late")
        assert sum(map(is_open, crowd)) <= 10


def test_a_new_connection_is_closed_where_all_others_have_a_request_in_progress(small_server):
    with ExitStack() as stack:
        busy = [stack.enter_context(small_server.connection()) for _ in range(10)]
        for connection in busy:
            connection.sendall(head("slow", b"Connection: close", method="GET"))
        time.sleep(0.3)
        with small_server.connection() as connection:
            assert answer(connection) == b""

        assert all(answer(connection).endswith(b"late") for connection in busy)


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        while connection.recv(10_000):
            continue
    except TimeoutError:
        return True
    except ConnectionError:
        pass
    return False


@pytest.mark.parametrize(
    ("soft", "most"), [(256, 128), (1024, 512), (65_536, 10_000), (resource.RLIM_INFINITY, 10_000)]
)
def test_connections_leave_descriptors_for_files(monkeypatch, soft, most):
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (soft, soft))

    assert connections.most_connections() == most
    assert soft == resource.RLIM_INFINITY or most + connections.backlog() <= 3 * soft // 4


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"), [(256, 4096, 4096), (256, resource.RLIM_INFINITY, 65_536), (100_000, 200_000, None)]
)
def test_the_limit_of_open_files_is_raised(monkeypatch, soft, hard, wanted):
    found = []
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _what, limits: found.append(limits))
    connections.raise_descriptor_limit()

    assert found == ([] if wanted is None else [(wanted, hard)])
