"""The entrance answers short requests as the route does, and hands on what it is not sure of."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import product

import uvicorn
from uvicorn.server import ServerState

from app.api.entrance import Entrance
from app.api.hot_protocol import HotProtocol
from app.decisions.benefit import Prepared
from tests.conftest import settings_for
from tests.servers import zoo
from tests.servers.direct import Sent, ask, direct


class Wire:
    """The transport of a connection that keeps what the server writes."""

    def __init__(self):
        self.written = b""
        self.closed = False

    def write(self, part):
        if self.closed:
            raise RuntimeError("the transport is closed")  # as uvloop's
        self.written += part

    def close(self):
        self.closed = True

    def get_extra_info(self, name, default=None):
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 8000)}.get(name, default)

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return self.closed

    def __getattr__(self, name):
        return lambda: None


ROW = b'{"model":"unheld","instances":[[50,70,5,0]],"benefits":[[0,-1],[-10,5]]}'


def on_the_wire(body=ROW, *more, version=b"1.1"):
    lines = [b"Host: localhost", b"Content-Type: application/json", b"Content-Length: %d" % len(body), *more]
    head = b"\r\n".join([b"POST /predict HTTP/%b" % version, *lines])
    return head + b"\r\n\r\n" + body


def connected(app):
    config = uvicorn.Config(app, lifespan="off", log_config=None, proxy_headers=False)
    config.load()
    connection, wire = HotProtocol(config, ServerState(), {}), Wire()
    connection.connection_made(wire)
    return connection, wire


async def received(app, *pieces, answers=1):
    connection, wire = connected(app)
    for piece in pieces:
        connection.data_received(piece)
    async with asyncio.timeout(60):
        while wire.written.count(b"HTTP/1.1 ") < answers or not connection.cycle.response_complete:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    connection.connection_lost(None)
    return wire.written


def test_the_server_writes_the_same_bytes_without_a_task(tmp_path, monkeypatch):
    mine, again = b"X-Request-ID: mine", (b"X-Other: 1", b"X-Other: 2")  # a header that comes twice is not plain
    asked = Counter()
    real = Entrance.answer

    def answer(*question):
        found = real(*question)
        asked[found is not None] += 1
        return found

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [zoo.UNHELD])
            one = on_the_wire(ROW, mine)
            plain = await received(app, on_the_wire(ROW, mine, *again))
            assert asked == {}
            assert plain.startswith(b"HTTP/1.1 200 OK\r\n")
            assert await received(app, one) == plain
            assert asked == {True: 1}
            assert await received(app, one * 3, answers=3) == plain * 3
            assert asked == {
                True: 4
            }  # of pipelined requests the first in the server, the others around the application
            for cut in range(1, len(one), 37):  # a head or a body that comes in two pieces
                assert await received(app, one[:cut], one[cut:]) == plain
            wrong = ROW.replace(b"50", b'"50"')
            refused = await received(app, on_the_wire(wrong, mine, *again))
            assert await received(app, on_the_wire(wrong, mine) + one, answers=2) == refused + plain
            closing = await received(app, on_the_wire(ROW, mine, b"Connection: close"))
            assert b"\r\nconnection: close\r\n" in closing
            assert closing.replace(b"connection: close\r\n", b"") == plain

    monkeypatch.setattr(Entrance, "answer", answer)
    asyncio.run(run())


def test_a_pipelined_request_is_answered_wherever_the_next_one_is_cut(tmp_path):
    """The first is running, the hot path could answer the second, and of the third a part of the head has come."""
    running, one = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", on_the_wire()

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            for cut in range(0, len(one) - len(ROW), 7):
                await received(app, running + one + one[:cut], answers=2)

    asyncio.run(run())


def test_no_timer_of_an_answer_runs_on_while_the_next_request_of_the_piece_is_in_progress(tmp_path):
    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [zoo.UNHELD])
            await received(app, on_the_wire())  # loads the model
            connection, wire = connected(app)
            connection.data_received(on_the_wire() + b"GET /models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.written.startswith(b"HTTP/1.1 200 OK")
            assert connection.timeout_keep_alive_task is None
            while wire.written.count(b"HTTP/1.1 ") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            connection.connection_lost(None)

    asyncio.run(run())


def test_a_length_with_thousands_of_zeros_is_read(tmp_path):
    """On every way that reads it; an `int` refuses more than 4,300 digits."""

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            for line in (b"POST /predict", b"POST /acquire", b"GET /health/live"):
                head = line + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                usual, long = [await received(app, head + zeros + b"2\r\n\r\n{}") for zeros in (b"", b"0" * 5000)]
                assert long.split()[1] == usual.split()[1] != b"500"

    asyncio.run(run())


def test_every_answer_has_its_log_line_after_the_turn(tmp_path, capfdbinary):
    sent = [on_the_wire(ROW, b"X-Request-ID: mine-%d" % i) for i in range(20)]

    async def run():
        async with direct(settings_for(tmp_path, workers=0, access_log=True)) as app:
            await zoo.train(app, [zoo.UNHELD])
            await received(app, on_the_wire())
            await asyncio.gather(*(received(app, one) for one in sent))
            await asyncio.sleep(0)

    asyncio.run(run())
    lines = [line for line in capfdbinary.readouterr().out.splitlines() if b'"mine-' in line]
    assert [json.loads(line)["request_id"] for line in lines] == [f"mine-{i}" for i in range(20)]
    assert {json.loads(line)["status"] for line in lines} == {200}


def test_a_request_over_its_rate_is_refused_before_it_is_decided(tmp_path, monkeypatch):
    decided = Counter()
    real = Prepared.decide

    def counted(*question):
        decided[True] += 1
        return real(*question)

    async def run():
        async with direct(settings_for(tmp_path, workers=0, rate_limit="2/day")) as app:
            await zoo.train(app, [zoo.UNHELD])
            monkeypatch.setattr(Prepared, "decide", counted)
            assert (await received(app, on_the_wire())).startswith(b"HTTP/1.1 200 ")
            assert (await received(app, on_the_wire())).startswith(b"HTTP/1.1 429 ")
            assert decided[True] == 1

    asyncio.run(run())


ROWS = [[50, 70, 5, 0], [50.5, 70, 4, 1], [None, 70, 5, 0], [1e6, 70, 5, 0], [-0.0, 70, 5, 0]]
STAKES = [
    {"benefits": [[0, -1], [-10, 5]]},
    {"benefits": [[0, -1], [-10, 5]], "actions": ["wait", "treat"]},
    {"benefits": [[1, 1], [2, 2]]},
    {"cost_matrix": {"healthy": {"a": 1, "b": 2, "c": 1}, "ill": {"a": 1, "b": 0, "c": 1}}},
    {"benefits": [[0, -1], [-10, 5]], "record": False},
    {"benefits": [[0, -1], [-10, 5]], "limits": {"ill": 1}},
    {"rule": "most_probable", "priors": {"healthy": 0.5, "ill": 0.5}},
    {"benefits": [[0, -1], [-10, 5]], "ids": ["one"]},
]


WRONG = [  # each differs in one sign from a request that was answered before
    {"instances": [[50, 70, 5, True]]},
    {"benefits": [[0, True], [-10, 5]]},
    {"actions": ["a", "a"]},
    {"instances": [[50, 70, 5, 0], {"age": 50, "pulse": 70, "chol": 5, "thal": 0}]},
    {"actions": ["a", "b\0"]},
]


def test_the_entrance_answers_as_the_route_does(tmp_path):
    """As a layer around the application; what was asked before is not checked again."""
    mine, through_all = {"X-Request-ID": "mine"}, {"X-Request-ID": "mine", "Accept": "application/json;q=1"}
    right = [{"benefits": None, "instances": [row]} | stakes for row, stakes in product([*ROWS, *ROWS], STAKES)]
    before = [{}, {"benefits": [[0, 1], [-10, 5]]}, {"actions": ["a", "b"]}]

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [zoo.UNHELD])
            await ask(app, Sent("POST", "/predict", {}), ROW)  # loads the model
            for changes, status in (*product((*right, *before), [200]), *product(WRONG, [422])):
                body = json.loads(ROW) | changes
                content = json.dumps(body).encode()
                first = await ask(app, Sent("POST", "/predict", body, headers=mine), content)
                other = await ask(app, Sent("POST", "/predict", body, headers=through_all), content)
                assert (first.status, first.headers, first.body) == (other.status, other.headers, other.body), body
                assert (first.status, other.route is None) == (status, False), body
                assert (first.route is None) == (status == 200), body

    asyncio.run(run())
