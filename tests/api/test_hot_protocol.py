"""What the server refuses before there is a request."""

import json
import socket
from time import sleep

import pytest

from tests.api.test_entrance import ROW, on_the_wire

UPGRADE = (
    b"Connection: Upgrade, HTTP2-Settings",
    b"Upgrade: h2c",
    b"HTTP2-Settings: AAEAAEAA",
)


def answered(client, *pieces):
    """All that the server writes until it closes the connection."""
    with socket.create_connection(
        (client.base_url.host, client.base_url.port), timeout=20
    ) as connection:
        for piece in pieces:
            connection.sendall(piece)
            sleep(0.05)  # so that each piece is read by itself
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize("cut", [None, 0, 7])
def test_an_upgrade_with_a_body_is_refused_once(service, cut):
    """Its body was lost, and taken for the next request where it came in a second piece."""
    head, body = on_the_wire(ROW, *UPGRADE)[: -len(ROW)], ROW
    pieces = [head + body] if cut is None else [head + body[:cut], body[cut:]]
    answer = answered(service, *pieces)
    first, _, document = answer.partition(b"\r\n\r\n")

    assert first.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/problem+json" in first.lower()
    assert "without the header Upgrade" in json.loads(document)["detail"]
    assert document.count(b"\r\n\r\n") == 0


def test_an_upgrade_without_a_body_is_answered_as_if_it_did_not_ask(service):
    lines = (b"GET /health/live HTTP/1.1", b"Host: localhost", *UPGRADE)
    plain = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = answered(service, b"\r\n".join(lines) + b"\r\n\r\n", plain)

    assert answer.count(b"HTTP/1.1 200 OK") == 2


def test_what_is_no_request_is_a_problem(service):
    first, _, document = answered(service, b"nonsense\r\n\r\n").partition(b"\r\n\r\n")

    assert first.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(document)["status"] == 400
