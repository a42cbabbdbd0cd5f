"""How long a body may take, and how many requests are answered at a time."""

import socket
from contextlib import ExitStack

import pytest

from app.api import exchange
from tests.conftest import serving, settings_for

HEAD = b"POST /%b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(exchange, "MAX_AT_ONCE", 3)
    with serving(settings_for(tmp_path, workers=0)) as client:
        yield client


def begun(client, path, length):
    """A connection with a request of which half has come."""
    connection = socket.create_connection(
        ("127.0.0.1", client.base_url.port), timeout=20
    )
    connection.sendall(HEAD % (path, length) + b"{" + b" " * (length // 2))
    return connection


def answer(connection):
    received = b""
    while part := connection.recv(65_536):
        received += part
    return received


@pytest.mark.parametrize("path", [b"predict", b"train"])
@pytest.mark.parametrize("length", [100, 30_000])
def test_a_body_that_does_not_arrive_gets_408_and_the_end_of_its_connection(
    client, path, length
):
    with begun(client, path, length) as connection:
        received = answer(connection)

    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in received.lower()
    assert b"urn:payoff:problem:request-timeout" in received


def test_too_many_requests_at_a_time_get_503_and_health_is_exempt(client):
    with ExitStack() as stack:
        opened = [
            stack.enter_context(begun(client, b"train", 30_000)) for _ in range(3)
        ]
        refused = client.get("/models")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.headers["content-type"] == "application/problem+json"
        assert (
            client.get("/health/live").status_code
            == client.get("/health/ready").status_code
            == 200
        )
        for connection in opened:
            assert answer(connection).startswith(b"HTTP/1.1 408 ")
    assert client.get("/models").status_code == 200
