"""The hot path answers as the route does, byte for byte, and hands on what it is not sure of."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from itertools import islice

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.api.hot_path import HotPath
from app.api.middleware.http_protocol import MAX_AT_ONCE, MAX_PIPELINED, BoundedHeads
from app.api.middleware.observe import CLIENT_GONE
from app.usecases.plans import Plan
from tests.conftest import settings_for
from tests.effort import repeated
from tests.servers import zoo
from tests.servers.direct import ask, direct
from tests.servers.fuzzing import Sent
from tests.servers.mutations import content_of, mutations

MODELS = [each for each in zoo.ANIMALS if each.name in ("plain", "numbered", "unheld", "weighed", "staged", "heights")]
ROUNDS = repeated(3_000)
CELLS = (0, 1, 1.0, -0.0, -1, 5, -10, 2.5, 1e-300, 1e150, 1 / 3)
DRAWN_ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # of a recorded decision that came without one
MEANS = (54, 74, 9, 4)  # of the features in training
VALUES = (0, 1, -0.0, 50, 70.25, None, 1e-300, 1e6, 1e308, -1e308)


class Taken(Counter):
    """Counts what the hot path answers, by status of the twin; `on` says whether it may."""

    on = True

    def __init__(self, real):
        super().__init__()
        self.real = real

    def tried(self, *question):
        return self.count(self.real(*question)) if self.on else None

    def count(self, answer):
        self["hot" if answer is not None else "plain"] += 1
        return answer


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


async def compare(folder, taken):
    chance = random.Random(14)
    valid = [Sent("POST", "/predict", json.loads(content_of(sent))) for sent in islice(random_requests(chance), 12)]
    differing = []
    async with direct(settings_for(folder, workers=0)) as app:
        await zoo.train(app, [animal.order() for animal in MODELS])
        for one in (*islice(random_requests(chance), ROUNDS), *islice(mutations(valid, 14), ROUNDS)):
            sent = Sent(one.method, one.path, one.body, one.query, {**one.headers, "X-Request-ID": "mine"})
            answers = []
            for taken.on in (True, False):
                answer = await ask(app, sent, content_of(sent))
                answers.append((answer.status, DRAWN_ID.sub(b"drawn", answer.body), answer.headers))
            if answers[0] != answers[1]:
                differing.append((sent, answers))
    return differing


def test_answers_are_those_of_the_route(tmp_path, monkeypatch):
    taken = Taken(HotPath.tried)
    monkeypatch.setattr(HotPath, "tried", lambda *question: taken.tried(*question))  # noqa: PLW0108 - a method

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
                await ask(app, Sent("POST", "/predict", known), json.dumps(known).encode())
            return (await ask(app, Sent("POST", "/predict", {}), body)).status

    assert asyncio.run(status()) == 422


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
    connection, wire = BoundedHeads(config, ServerState(), {}), Wire()
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
            assert asked == {True: 4}
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


@pytest.mark.parametrize("record", [{}, {"record": True}, "ids"])
def test_an_answer_that_is_too_long_for_the_hot_path_is_not_computed_there(tmp_path, monkeypatch, record):
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
                body |= {"record": {"ids": [f"{rows}-{i}" for i in range(rows)]}} if record == "ids" else record
                content = json.dumps(body, separators=(",", ":")).encode()
                assert b" 200 OK" in await received(app, on_the_wire(content))

    monkeypatch.setattr(Plan, "decide", decide_counted)
    monkeypatch.setattr(HotPath, "answer", answer_counted)
    asyncio.run(run())
    assert decided[True] == answered[True] >= 2
    assert answered[False] >= 1


def spaced(body, size):
    return body[:-1] + b" " * (size - len(body)) + body[-1:]


@pytest.mark.parametrize(
    ("body", "most"),
    [(ROW, MAX_AT_ONCE), (spaced(ROW, 8_000), 3), (spaced(ROW, 16_000), 2)],
    ids=["short", "longer", "long"],
)
def test_pipelined_requests_do_not_hold_the_event_loop(tmp_path, monkeypatch, body, most):
    """Few of one piece are answered at once; the others are, in order, as on the plain way, and so is too many."""
    asked = []
    real = HotPath.answer
    monkeypatch.setattr(HotPath, "answer", lambda *question: asked.append(1) or real(*question))
    few = most + 5

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            await received(app, on_the_wire(body))
            asked.clear()
            connection, wire = connected(app)
            for turn in (1, 2):
                piece = b"".join(on_the_wire(body, b"X-Request-ID: n%d-%d" % (turn, i)) for i in range(few))
                connection.data_received(piece)
                assert len(asked) == most * turn
                while wire.written.count(b"HTTP/1.1 200 OK") < few * turn:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            order = [line.rpartition(b"n")[2] for line in wire.written.split(b"\r\n") if b"x-request-id" in line]
            assert order == [b"%d-%d" % (turn, i) for turn in (1, 2) for i in range(few)]
            connection.data_received(on_the_wire(body) * (MAX_AT_ONCE + MAX_PIPELINED + 2))
            assert len(asked) == most * 3
            assert wire.closed

    asyncio.run(run())


def test_a_client_that_does_not_read_gets_one_more_answer_computed(tmp_path, monkeypatch):
    """It waits until the client has read, and with it the requests that follow."""
    computed = []
    real = HotPath.tried
    monkeypatch.setattr(HotPath, "tried", lambda *question: computed.append(1) or real(*question))

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            await received(app, on_the_wire())
            computed.clear()
            connection, wire = connected(app)
            connection.pause_writing()
            for _ in range(5):
                connection.data_received(on_the_wire() * 10)
            await asyncio.sleep(0.1)
            assert (wire.written, len(computed)) == (b"", 1)
            connection.resume_writing()
            while wire.written.count(b"HTTP/1.1 200 OK") < 50:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    asyncio.run(run())


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


RECORDED = ROW[:-1] + b',"record":{"ids":["%b"]}}'


def test_a_recorded_answer_waits_for_its_commit_and_later_ones_for_it(tmp_path, monkeypatch):
    """On the wire: in order, none before its commit, with `Connection: close` where the server stops meanwhile."""
    waiting = []
    plain = []
    counted = []
    real = BoundedHeads._start_held

    def submit(_path, hot, _loop, done):
        waiting.append((hot, done))

    def start(connection):
        plain.append(connection)
        real(connection)

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            await received(app, on_the_wire())
            monkeypatch.setattr(HotPath, "submit", submit)
            monkeypatch.setattr(BoundedHeads, "_start_held", start)
            connection, wire = connected(app)
            connection.data_received(on_the_wire(RECORDED % b"a") + on_the_wire())
            assert wire.written == b""
            assert len(waiting) == 1
            waiting[0][1](None)
            while wire.written.count(b"HTTP/1.1 200") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            assert wire.written.index(b'"ids":["a"]') < wire.written.rindex(b"HTTP/1.1")
            connection.data_received(on_the_wire(RECORDED % b"b"))
            connection.shutdown()
            assert not wire.closed
            waiting[1][1](None)
            assert b"connection: close" in wire.written
            assert wire.closed
            connection.connection_lost(None)

            monkeypatch.setattr(HotPath, "count", lambda _path, _scope, _hot, status=200: counted.append(status))
            for behind in (b"", on_the_wire(), on_the_wire(RECORDED % b"d")):
                connection, wire = connected(app)
                connection.data_received(on_the_wire(RECORDED % b"c") + behind)
                connection.connection_lost(None)  # the client left
                waiting.pop()[1](None)
                assert wire.written == b""
                assert counted.pop() == CLIENT_GONE
            assert plain == []

    asyncio.run(run())


def test_where_recording_fails_the_plain_way_answers(tmp_path, monkeypatch):
    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            assert b'"ids":["a"]' in await received(app, on_the_wire(RECORDED % b"a"))
            other = RECORDED.replace(b"-10", b"-9")
            assert b"HTTP/1.1 409 " in await received(app, on_the_wire(other % b"a"))
            sent = Sent("POST", "/predict", {})
            assert (await ask(app, sent, other % b"a")).status == 409
            monkeypatch.setattr("app.outcomes.recorder._MAX_PENDING", 0)
            assert b"HTTP/1.1 503 " in await received(app, on_the_wire(RECORDED % b"b"))
            assert (await ask(app, sent, RECORDED % b"b")).status == 503

    asyncio.run(run())


@pytest.mark.parametrize("failing", ["app.outcomes.recorder.Recorder.submit", "app.outcomes.row_store.RowStore.write"])
def test_an_unexpected_error_of_the_recorder_is_answered_and_nothing_is_decided_again(tmp_path, monkeypatch, failing):
    """Within all layers, by the server's own way and under another server."""
    decided = []
    real = Plan.decide

    def fail(*_question):
        raise ValueError("unexpected")

    async def run():
        async with direct(settings_for(tmp_path, workers=0)) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            await received(app, on_the_wire())
            monkeypatch.setattr(failing, fail)
            monkeypatch.setattr(Plan, "decide", lambda *question, **more: decided.append(1) or real(*question, **more))
            monkeypatch.setattr("app.usecases.predict.predict", fail)
            answer = await ask(app, Sent("POST", "/predict", {}, headers={"X-Request-ID": "mine"}), RECORDED % b"b")
            assert (answer.status, answer.headers["x-request-id"]) == (500, "mine")
            assert b"see the log for request mine" in answer.body
            written = await received(app, on_the_wire(RECORDED % b"b", b"X-Request-ID: mine"))
            assert written.startswith(b"HTTP/1.1 500 ")
            assert written.endswith(answer.body)
            assert len(decided) == 2

    asyncio.run(run())


def test_a_request_over_its_rate_is_refused_before_it_is_decided(tmp_path, monkeypatch):
    tried = []
    real = HotPath.tried

    async def run():
        async with direct(settings_for(tmp_path, workers=0, rate_limit="2/day")) as app:
            await zoo.train(app, [next(each for each in MODELS if each.name == "unheld").order()])
            monkeypatch.setattr(HotPath, "tried", lambda *question: tried.append(1) or real(*question))
            assert (await received(app, on_the_wire())).startswith(b"HTTP/1.1 200 ")
            assert (await received(app, on_the_wire())).startswith(b"HTTP/1.1 429 ")
            assert (await ask(app, Sent("POST", "/predict", {}), ROW)).status == 429
            assert len(tried) == 1

    asyncio.run(run())
