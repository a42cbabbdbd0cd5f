"""The entrance answers short requests as the route does, and hands on what it is not sure of."""

import json
import re
import socket
from collections import Counter
from itertools import product
from time import sleep

import pytest

from app.api.entrance import Entrance
from payoff.decisions.benefit import Prepared
from tests.conftest import serving, settings_for, trained, two_class_rows
from tests.jobs.waiting import eventually

ROW = b'{"model":"numeric","instances":[[50,70]],"benefits":[[0,-1],[-10,5]]}'
PLAIN = json.loads(ROW)
ORDER = {"model": "numeric", "learner": {"kind": "logistic"}}
ORDER["data"] = two_class_rows() | {
    "features": ["age", "pulse"],
    "rows": [row[:2] for row in two_class_rows()["rows"]],
}


def on_the_wire(body=ROW, *more):
    lines = [
        b"Host: localhost",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *more,
    ]
    return b"\r\n".join([b"POST /predict HTTP/1.1", *lines]) + b"\r\n\r\n" + body


def received(client, *pieces, answers=1):
    """What the server writes to a connection, but for the date."""
    found = b""
    with socket.create_connection(
        (client.base_url.host, client.base_url.port), timeout=20
    ) as connection:
        for piece in pieces:
            connection.sendall(piece)
            sleep(0.002)
        file = connection.makefile("rb")
        for _ in range(answers):
            head = b"".join(iter(file.readline, b"\r\n"))
            assert head, "the connection was closed"
            found += re.sub(rb"(?i)date: .*\r\n", b"", head) + file.read(
                int(re.search(rb"(?i)length: (\d+)", head)[1])
            )
    return found


@pytest.fixture
def asked(monkeypatch):
    """How often the entrance was asked, and answered."""
    counted, real = Counter(), Entrance.answer

    def answer(*question):
        found = real(*question)
        counted[found is not None] += 1
        return found

    monkeypatch.setattr(Entrance, "answer", answer)
    return counted


def test_the_server_writes_the_same_bytes_as_by_the_route(service, numeric, asked):
    mine, again = (
        b"X-Request-ID: mine",
        (b"X-Other: 1", b"X-Other: 2"),
    )  # a header that comes twice is not plain
    one, refused = (
        on_the_wire(ROW, mine),
        on_the_wire(ROW.replace(b"50", b'"50"'), mine),
    )
    received(
        service, on_the_wire(ROW, mine, *again)
    )  # the first answer says the matrix in words
    plain = received(service, on_the_wire(ROW, mine, *again))
    assert asked == {}
    assert plain.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received(service, one) == plain
    assert asked == {True: 1}
    assert received(service, one * 3, answers=3) == plain * 3
    assert (
        asked == {True: 4}
    )  # of pipelined requests the first in the server, the others around the application
    for cut in range(1, len(one), 37):  # a head or a body that comes in two pieces
        assert received(service, one[:cut], one[cut:]) == plain
    wrong = received(service, on_the_wire(ROW.replace(b"50", b'"50"'), mine, *again))
    assert received(service, refused + one, answers=2) == wrong + plain
    closing = received(service, on_the_wire(ROW, mine, b"Connection: close"))
    assert closing.replace(b"connection: close\r\n", b"") == plain != closing


def test_a_pipelined_request_is_answered_wherever_the_next_one_is_cut(service, numeric):
    """The first is running, the entrance could answer the second, and of the third a part of the head has come."""
    running, one = (
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
        on_the_wire(),
    )
    for cut in range(0, len(one) - len(ROW), 7):
        received(service, running + one + one[:cut], answers=2)


def test_no_timer_of_an_answer_runs_on_while_the_next_request_of_the_piece_is_in_progress(
    tmp_path,
):
    with serving(settings_for(tmp_path)) as client:
        trained(client, ORDER)
    with serving(settings_for(tmp_path, workers=0), timeout_keep_alive=1) as client:
        client.post("/predict", json=PLAIN).raise_for_status()  # loads the model
        job = client.post("/train", json=ORDER).json()["id"].encode()
        waiting = (
            b"GET /train/%b HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=2\r\n\r\n" % job
        )
        assert (
            received(client, on_the_wire() + waiting, answers=2).count(
                b"HTTP/1.1 200 OK"
            )
            == 2
        )


def test_every_answer_has_its_log_line_and_one_over_its_rate_is_not_decided(
    tmp_path, capfdbinary, monkeypatch
):
    with serving(settings_for(tmp_path)) as client:
        trained(client, ORDER)
    decided, real = [], Prepared.decide
    monkeypatch.setattr(
        Prepared, "decide", lambda *question: decided.append(1) or real(*question)
    )
    with serving(
        settings_for(tmp_path, workers=0, access_log=True, rate_limit="20/day")
    ) as client:
        sent = [on_the_wire(ROW, b"X-Request-ID: mine-%d" % i) for i in range(21)]
        statuses = [received(client, one).split()[1] for one in sent]

        def logged():
            lines = [
                json.loads(line)
                for line in capfdbinary.readouterr().out.splitlines()
                if b'"mine-' in line
            ]
            found.extend((line["request_id"], line["status"]) for line in lines)
            return len(found) == 21

        found = []
        eventually(logged)
    assert statuses == [b"200"] * 20 + [b"429"]
    assert found == [(f"mine-{i}", int(status)) for i, status in enumerate(statuses)]
    assert len(decided) == 20


ROWS = [[50, 70], [50.5, 71], [None, 70], [1e6, 70], [-0.0, 70]]
STAKES = [
    {"benefits": [[0, -1], [-10, 5]]},
    {"benefits": [[0, -1], [-10, 5]], "actions": ["wait", "treat"]},
    {"benefits": [[1, 1], [2, 2]]},
    {
        "cost_matrix": {
            "healthy": {"a": 1, "b": 2, "c": 1},
            "ill": {"a": 1, "b": 0, "c": 1},
        }
    },
    {"benefits": [[0, -1], [-10, 5]], "record": False},
    {"benefits": [[0, -1], [-10, 5]], "limits": {"ill": 1}},
    {"rule": "most_probable", "priors": {"healthy": 0.5, "ill": 0.5}},
    {"benefits": [[0, -1], [-10, 5]], "ids": ["one"]},
]
RIGHT = [
    {"benefits": None, "instances": [row]} | stakes
    for row, stakes in product([*ROWS, *ROWS], STAKES)
]
RIGHT += [{"benefits": [[0, 1], [-10, 5]]}, {"actions": ["a", "b"]}]
WRONG = [  # each differs in one sign from a request that was answered before
    {"instances": [[50, True]]},
    {"benefits": [[0, True], [-10, 5]]},
    {"actions": ["a", "a"]},
    {"instances": [[50, 70], {"age": 50, "pulse": 70}]},
    {"actions": ["a", "b\0"]},
]


def test_the_entrance_answers_as_the_route_does(service, numeric, asked):
    """What was asked before is not checked again."""
    for changes, status in (*product(RIGHT, [200]), *product(WRONG, [422])):
        service.post(
            "/predict", json=PLAIN | changes
        )  # whose answer says the matrix in words
        asked.clear()
        first, other = (
            service.post(
                "/predict",
                json=PLAIN | changes,
                headers={"X-Request-ID": "mine", **more},
            )
            for more in ({}, {"Accept": "application/json;q=1"})
        )
        assert asked[True] == (status == 200), changes
        assert first.status_code == other.status_code == status, changes
        for answer in (first, other):
            answer.headers.pop("date")
        assert (first.headers, first.content) == (other.headers, other.content), changes
