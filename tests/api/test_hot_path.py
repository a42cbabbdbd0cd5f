"""The hot path answers as the route does, byte for byte, and hands on what it is not sure of."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from itertools import islice

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.api.hot_path import HotPath
from app.api.hot_protocol import HotProtocol
from app.usecases.plans import Plan
from tests.conftest import settings_for
from tests.effort import repeated
from tests.servers import zoo
from tests.servers.direct import ask, direct, scope_of
from tests.servers.fuzzing import Sent
from tests.servers.mutations import content_of, mutations

MODELS = [each for each in zoo.ANIMALS if each.name in ("plain", "numbered", "unheld", "weighed", "staged", "heights")]
ROUNDS = repeated(3_000)
CELLS = (0, 1, 1.0, -0.0, -1, 5, -10, 2.5, 1e-300, 1e150, 1 / 3)
MEANS = (54, 74, 9, 4)  # of the features in training
VALUES = (0, 1, -0.0, 50, 70.25, None, 1e-300, 1e6, 1e308, -1e308)


def random_requests(chance):
    """Rows and matrices of all kinds: ties, signed zeros, tiny and huge numbers, names with signs, many or no rows."""
    while True:
        animal = chance.choice(MODELS)
        classes = [str(name) for name in animal.classes] or ["a", "b"]
        rows = [
            [chance.gauss(mean, 2) if chance.random() < 0.95 else chance.choice(VALUES) for mean in MEANS]
            for _ in range(chance.choice((0, 1, 1, 3)))
        ]
        actions = chance.sample(["treat", "wait", "a:b", "é", "x y", *classes], chance.choice((2, 2, 3)))
        body = {"model": chance.choice((animal.name, f"{animal.name}:1")), "benefits": [], "instances": rows}
        named = chance.random() < 0.6
        if named:
            body["actions"] = actions
        width = chance.choice((len(actions), len(actions), len(classes))) if named else len(classes)
        body["benefits"] = [[chance.choice(CELLS) for _ in range(width)] for _ in classes]
        if chance.random() < 0.3:
            body["instances"] = [dict(zip(("age", "pulse", "chol", "thal"), row, strict=True)) for row in rows]
        if chance.random() < 0.2:
            cells = ({action: chance.choice(CELLS) for action in actions} for _ in classes)
            body["benefits"] = dict(zip(classes, cells, strict=True))
        if chance.random() < 0.1:
            names = [f"{'é:' * chance.randrange(2)}{chance.random()}" for _ in rows]
            body["record"] = chance.choice(
                ({"ids": names}, {"ids": names, "instances": True}, {"ids": names[1:]}, False)
            )
        yield Sent("POST", "/predict", body, headers=chance.choice(({}, {"Accept": "application/json"})))


def answer_of_hot_path(app, sent, content):
    """Status, body and headers; None where the request takes the plain way."""
    path, scope = app.state.hot_path, scope_of(sent, content)
    head = path.plain_head(scope)
    found = None if head is None else path.answer(scope, head, content)
    if found is None:
        return None
    lines, _, body = found.lines([]).partition(b"\r\n\r\n")
    status, *headers = lines.decode("latin-1").split("\r\n")
    return int(status.split()[1]), body, dict(header.split(": ", 1) for header in headers)


async def compare(folder, taken):
    chance = random.Random(14)
    valid = [Sent("POST", "/predict", json.loads(content_of(sent))) for sent in islice(random_requests(chance), 12)]
    differing = []
    async with direct(settings_for(folder, workers=0)) as app:
        await zoo.train(app, [animal.order() for animal in MODELS])
        for one in (*islice(random_requests(chance), ROUNDS), *islice(mutations(valid, 14), ROUNDS)):
            sent = Sent(one.method, one.path, one.body, one.query, {**one.headers, "X-Request-ID": "mine"})
            found = answer_of_hot_path(app, sent, content_of(sent))
            taken["plain" if found is None else "hot"] += 1
            if found is not None:
                answer = await ask(app, sent, content_of(sent))
                if (answer.status, answer.body, answer.headers) != found:
                    differing.append((sent, answer, found))
    return differing


def test_answers_are_those_of_the_route(tmp_path):
    taken = Counter()

    assert asyncio.run(compare(tmp_path, taken))[:2] == []
    assert taken["hot"] > ROUNDS / 3
    assert taken["plain"] > ROUNDS / 3


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"unheld","model":"unheld","instances":[[50,70,5,0]],"benefits":[[0,-1],[-10,5]]}',
        b'{"model":"unheld","instances":[{"age":50,"pulse":70,"chol":5,"thal":0,"thal":0}],"benefits":[[0,-1],[-10,5]]}',
        b'{"model":"unheld","instances":[[50,70,5,true]],"benefits":[[0,-1],[-10,5]]}',
        b'{"model":"unheld","instances":[[50,70,5,0]],"benefits":[[0,true],[-10,5]]}',
        b'{"model":"unheld","instances":[[50,70,5,0]],"benefits":[[0,-1],[-10,5]],"actions":["a","a"]}',
        b'{"model":"unheld","instances":[[50,70,5,0]],"benefits":[[0,-1],[-10,5]],"actions":["a","b\\u0000"]}',
        b'{"model":"unheld","instances":[[50,70,5,0]],"benefits":{"healthy":{"a":1,"b":2,"a":1},"ill":{"a":1,"b":2}}}',
    ],
)
@pytest.mark.thorough
def test_a_known_matrix_opens_no_way_round_a_check(tmp_path, body):
    """Each of these differs in one sign from a request that was answered before."""
    plain = {"model": "unheld", "instances": [[50, 70, 5, 0]], "benefits": [[0, -1], [-10, 5]]}
    words = {"healthy": {"a": 1, "b": 2}, "ill": {"a": 1, "b": 2}}

    async def status():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            for known in (plain, {**plain, "benefits": [[0, 1], [-10, 5]]}, {**plain, "benefits": words}):
                await received(app, on_the_wire(json.dumps(known).encode()))
            return (await received(app, on_the_wire(body))).split()[1]

    assert asyncio.run(status()) == b"422"


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
    real = HotPath.answer

    def answer(*question):
        found = real(*question)
        asked[found is not None] += 1
        return found

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            one = on_the_wire(ROW, mine)
            plain = await received(app, on_the_wire(ROW, mine, *again))
            assert asked == {}
            assert plain.startswith(b"HTTP/1.1 200 OK\r\n")
            assert await received(app, one) == plain
            assert asked == {True: 1}
            assert await received(app, one * 3, answers=3) == plain * 3
            assert asked == {True: 2}  # of pipelined requests the first
            for cut in range(1, len(one), 37):  # a head or a body that comes in two pieces
                assert await received(app, one[:cut], one[cut:]) == plain
            wrong = ROW.replace(b"50", b'"50"')
            refused = await received(app, on_the_wire(wrong, mine, *again))
            assert await received(app, on_the_wire(wrong, mine) + one, answers=2) == refused + plain
            closing = await received(app, on_the_wire(ROW, mine, b"Connection: close"))
            assert b"\r\nconnection: close\r\n" in closing
            assert closing.replace(b"connection: close\r\n", b"") == plain

    monkeypatch.setattr(HotPath, "answer", answer)
    asyncio.run(run())


def test_a_pipelined_request_is_answered_wherever_the_next_one_is_cut(tmp_path):
    """The first is running, the hot path could answer the second, and of the third a part of the head has come."""
    running, one = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", on_the_wire()

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            for cut in range(0, len(one) - len(ROW), 7):
                await received(app, running + one + one[:cut], answers=2)

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


def test_an_answer_that_is_too_long_for_the_hot_path_is_not_computed_there(tmp_path, monkeypatch):
    """Otherwise it would be computed twice, once while no other request is answered."""
    decided, answered = Counter(), Counter()
    decide, answer = Plan.decide, HotPath.answer

    def answer_counted(*question):
        found = answer(*question)
        answered[found is not None] += 1
        return found

    def decide_counted(*question, **more):
        decided[True] += 1
        return decide(*question, **more)

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            await received(app, on_the_wire())
            answered.clear()
            decided.clear()
            for rows in (1, 100, 500, 1000):
                body = json.loads(ROW) | {"instances": [[50, 70, 5, 0]] * rows}
                content = json.dumps(body, separators=(",", ":")).encode()
                assert b" 200 OK" in await received(app, on_the_wire(content))

    monkeypatch.setattr(Plan, "decide", decide_counted)
    monkeypatch.setattr(HotPath, "answer", answer_counted)
    asyncio.run(run())
    assert decided[True] == answered[True] >= 2
    assert answered[False] >= 1


def test_every_answer_has_its_log_line_after_the_turn(tmp_path, capfdbinary):
    sent = [on_the_wire(ROW, b"X-Request-ID: mine-%d" % i) for i in range(20)]

    async def run():
        async with direct(settings_for(tmp_path, workers=0, access_log=True)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            await received(app, on_the_wire())
            await asyncio.gather(*(received(app, one) for one in sent))
            await asyncio.sleep(0)

    asyncio.run(run())
    lines = [line for line in capfdbinary.readouterr().out.splitlines() if b'"mine-' in line]
    assert [json.loads(line)["request_id"] for line in lines] == [f"mine-{i}" for i in range(20)]
    assert {json.loads(line)["status"] for line in lines} == {200}


def test_a_request_over_its_rate_is_refused_before_it_is_decided(tmp_path, monkeypatch):
    tried = []
    real = HotPath.tried

    async def run():
        async with direct(settings_for(tmp_path, workers=0, rate_limit="2/day")) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            monkeypatch.setattr(HotPath, "tried", lambda *question: tried.append(1) or real(*question))
            assert (await received(app, on_the_wire())).startswith(b"HTTP/1.1 200 ")
            assert (await received(app, on_the_wire())).startswith(b"HTTP/1.1 429 ")
            assert len(tried) == 1

    asyncio.run(run())
