"""The hot path answers as the route does, byte for byte, and hands on what it is not sure of."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from itertools import islice

import pytest

from app.api import hot_path
from tests.conftest import settings_for
from tests.effort import repeated
from tests.servers import zoo
from tests.servers.direct import ask, direct
from tests.servers.fuzzing import Sent
from tests.servers.mutations import content_of, mutations

MODELS = [each for each in zoo.ANIMALS if each.name in ("plain", "numbered", "unheld", "weighed", "staged", "heights")]
ROUNDS = repeated(3_000)
CELLS = (0, 1, 1.0, -0.0, -1, 5, -10, 2.5, 1e-300, 1e150, 1 / 3)
MEANS = (54, 74, 9, 4)  # of the features in training
VALUES = (0, 1, -0.0, 50, 70.25, None, 1e-300, 1e6, 1e308, -1e308)


class Taken(Counter):
    """Counts what the hot path answers, by status of the twin; `on` says whether it may."""

    on = True

    def __init__(self, real):
        super().__init__()
        self.real = real

    def answer(self, request, body):
        return self.count(self.real(request, body)) if self.on else None

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
                answers.append((answer.status, answer.body, answer.headers))
            if answers[0] != answers[1]:
                differing.append((sent, answers))
    return differing


def test_answers_are_those_of_the_route(tmp_path, monkeypatch):
    taken = Taken(hot_path.answer)
    monkeypatch.setattr(hot_path, "answer", taken.answer)

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
