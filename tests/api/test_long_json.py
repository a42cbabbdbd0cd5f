"""Long bodies of numbers are read as the plain way reads them, errors included."""

import random
from collections import Counter

import numpy as np
import pytest

from app.api.codecs import json as json_codec
from app.api.codecs import predict_bodies
from tests.conftest import serving, settings_for, trained
from tests.effort import repeated

ROUNDS = repeated(600)
NAMES = ("unheld", "numbered")
STRANGE = (
    b"-0", b"-0.0", b"1E5", b"1.5e+300", b"5e-324", b"1e-400", b"1e400", b"9007199254740993", b"9223372036854775808",
    b"18446744073709551615", b"18446744073709551616", b"-9223372036854775809", b"1" + b"0" * 400, b"null", b"true",
    b"false", b'"1"', b"[1]", b"[]", b"{}", b'{"a":1}', b"01", b"1.", b".5", b"+1", b"NaN", b"-Infinity", b"", b" 7 ",
    b"\t7", b"\x0b7", b"1,2", b"1],[2", b"1]]", b"\xff",
)  # fmt: skip
FIELDS = (
    b'"benefits":[[0,-1],[-10,5]]', b'"benefits":[[0,-1],[-10,5]],"actions":["a]]","[[b"]',
    b'"benefits":[[0,-1],[-10]]', b'"benefits":{"healthy":{"a":1,"b:":2},"ill":{"a":3,"b:":2}}',
    b'"rule":"most_probable"', b'"unknown":1', b'"ids":[1]',
    b'"benefits":[[0,-1],[-10,5]],"actions":["instances","b"]', b'"instances":[[1,2,3,4]]',
    b'"probabilities":[[1,0]]', b'"benefits":[[0,-1],[-10,5]],"explain":true',
    b'"benefits":[[0,-1],[-10,5]],"benefits":1', b'"rule":"\\u0061"',
    b'"benefits":[[0,-1],[-10,5]],"priors":{"healthy":0.5,"ill":0.5}',
    *(b'"benefits":[[0,{"column":"[fee"}],[-10,5]],"columns":{"[fee":[%b]}' % fees
      for fees in (b"1.5," * 299 + b"-2", b"1," * 299 + b"null", b"[1],2", b'"1"')),
)  # fmt: skip


def decimals(chance: random.Random) -> bytes:
    """A number as programs and people write it."""
    value = chance.gauss(50, 10)
    return chance.choice(
        [
            lambda: repr(value),
            lambda: f"{value:.{chance.randrange(25)}f}",
            lambda: f"{value:.{chance.randrange(30)}e}",
            lambda: str(chance.randrange(-100, 100)),
            lambda: f"{chance.getrandbits(70)}e-{chance.randrange(18, 60)}",
        ]
    )().encode()


def bodies(chance: random.Random, count: int):
    for _ in range(count):
        rows = [
            [decimals(chance) for _ in range(4)]
            for _ in range(chance.choice((300, 300, 400)))
        ]
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            row = chance.choice(rows)
            row[chance.randrange(len(row))] = chance.choice(STRANGE)
        if chance.random() < 0.2:
            chance.choice(rows).pop()
        if chance.random() < 0.1:
            rows = [row[:3] for row in rows]
        comma = chance.choice((b",", b", "))
        listed = comma.join(b"[%b]" % comma.join(row) for row in rows)
        instances = b'"instances"%b[%b]' % (
            chance.choice((b":", b": ", b" :\n")),
            listed,
        )
        model = b'"model":"%b"' % chance.choice((*NAMES, "absent")).encode()
        parts = [model, instances, chance.choice(FIELDS[:1] * 8 + FIELDS)]
        chance.shuffle(parts)
        yield b"{%b}" % comma.join(parts)


def order(name, classes):
    """Of a model of four numbers, whose classes overlap."""
    chance, code = np.random.default_rng(0), np.arange(48) % len(classes)
    X = (
        chance.normal([50, 70, 5, 0], [10, 8, 1, 2], (48, 4)) + 4 * code[:, None]
    ).round(1)
    data = {
        "features": ["age", "pulse", "chol", "thal"],
        "rows": X.tolist(),
        "labels": [classes[c] for c in code],
    }
    return {
        "model": name,
        "learner": {"kind": "logistic", "calibration": "none"},
        "data": data,
        "holdout": 0,
    }


@pytest.mark.thorough
def test_answers_are_those_of_the_plain_way(tmp_path, monkeypatch):
    real, found, differing = json_codec.split, Counter(), []

    def counted(*question):
        parts = real(*question)
        found[parts is not None] += 1
        return parts

    with serving(settings_for(tmp_path)) as client:
        for name, classes in zip(NAMES, (["healthy", "ill"], [0, 1, 7]), strict=True):
            trained(client, order(name, classes))
        client.headers.update(
            {"X-Request-ID": "mine", "Content-Type": "application/json"}
        )
        for body in bodies(random.Random(18), ROUNDS):
            answers = []
            for way in (counted, lambda *_: None):
                monkeypatch.setattr(predict_bodies, "split", way)
                answer = client.post("/predict", content=body)
                answer.headers.pop("date")
                answers.append((answer.status_code, answer.content, answer.headers))
            found[answers[0][0]] += 1
            if answers[0] != answers[1]:
                differing.append((body, answers))
    assert differing[:1] == []
    assert found[True] > ROUNDS / 4
    assert found[200] > ROUNDS / 20
    assert found[422] > ROUNDS / 8


def test_numbers_are_those_of_float():
    chance = random.Random(0)
    words = [decimals(chance) for _ in range(20_000)]
    body = b'{"instances":[[%b]]}' % b",".join(words)

    rows = json_codec.split(body).rows

    assert rows.tobytes() == np.array([[float(word) for word in words]]).tobytes()


@pytest.mark.parametrize(
    "body",
    [
        *(
            b'{"instances":%b}' % rows
            for rows in (
                b"[]",
                b"5",
                b"[1]",
                b"[[1],]",
                b"[[1,2],[3]]",
                b"[[1,[2]],3]",
                b"[[1] [2]]",
                b"[[]]",
            )
        ),
        rb'{"k":{"instances":[[1,2]]},"inst\u0061nces":[]}',
        rb'{"inst\u0061nces":[],"k":{"instances":[[1,2]]}}',
        rb'{"k":"\"instances\":[[1]]","instances":[[2]]}',
        rb'{"instances":[[1]],"inst\u0061nces":[[5]]}',
        rb'{"instances":[[1]],"instances":[[5]]}',
        rb'{"k":{"instances":[[1,2]]}}',
        rb'{"k":{"instances":[[1,2]]},"instances":[]}',
        rb'[{"instances":[[1,2]]}]',
        b'{"instances":[[1,2]],"k":%b%b}'
        % (b"[" * 500, b"]" * 500),  # deeper than can be written
        rb'{"instances":[[1,2]],"model":"\u0061"}',
        b'\xef\xbb\xbf{"instances":[[1,2]]}',  # a mark of byte order, which short bodies may not have either
    ],
)
def test_only_rows_of_one_length_in_the_top_level_field_are_split(body):
    """Whichever way the name of the field is written."""
    assert json_codec.split(body) is None
