"""Valid requests of every route, one value changed or two: none is answered with a server error or a lost place."""

from __future__ import annotations

import pytest

from tests.effort import repeated
from tests.servers.direct import Answer
from tests.servers.fuzzing import Sent
from tests.servers.mutation_run import run
from tests.servers.verdict import flaws_of, resolves

MUTATIONS = repeated(10_000)  # `benchmarks/fuzz.py mutations` sends as many as are asked for


@pytest.mark.thorough
def test_mutated_requests_are_answered_as_documented(tmp_path):
    """No 5xx, problem documents whose places resolve, finite numbers; and afterwards the service answers as before."""
    account = run(tmp_path, MUTATIONS, seed=17)

    assert account.lines() == []
    assert sum(account.statuses.values()) == MUTATIONS
    assert account.statuses[422] > MUTATIONS / 3
    assert account.statuses[200] > MUTATIONS / 10


SENT = {"instances": [[1, 2], [3]], "costs": {"a/b": 1, "~": None}, "": {"": 0}}


@pytest.mark.parametrize(
    ("loc", "leads"),
    [
        ("", True),
        ("/instances/1/0", True),
        ("/instances/1/1", False),
        ("/instances/-1", False),
        ("/instances/x", False),
        ("/costs/a~1b", True),
        ("/costs/a/b", False),
        ("/costs/~0", True),
        ("/costs/absent", True),
        ("/costs/absent/more", False),
        ("/absent", True),
        ("/absent/0", False),
        ("costs", False),
        ("//", True),
    ],
)
def test_a_place_leads_somewhere(loc, leads):
    """Into what was sent, or to an absent member of an object that was sent."""
    assert resolves(loc, SENT) == leads


PROBLEM = b'{"type":"t","title":"t","status":%d,"detail":"d","errors":[{"loc":"%s","msg":"m"}]}'
KINDS = {"problem": "application/problem+json", "json": "application/json"}


@pytest.mark.parametrize(
    ("status", "kind", "body", "found"),
    [
        (500, "problem", PROBLEM % (500, b""), "a server error"),
        (503, "problem", PROBLEM % (503, b""), "a server error"),
        (418, "problem", PROBLEM % (418, b""), "not documented"),
        (422, "json", PROBLEM % (422, b""), "an error comes as application/json"),
        (422, "problem", PROBLEM % (404, b""), "no problem document"),
        (422, "problem", PROBLEM % (422, b"/b/0"), "leads nowhere"),
        (422, "problem", b'{"type":"t","title":"t","status":422,"detail":"d"}', "names no place"),
        (200, "json", b'{"probabilities": [[0.5, NaN]]}', "no JSON"),
        (200, "json", b'{"probabilities": [[0.5, 0.4]]}', "do not sum to 1"),
        (422, "problem", PROBLEM % (422, b"/a"), None),
        (200, "json", b'{"probabilities": [[0.5, 0.5]]}', None),
    ],
)
def test_the_judge_finds_what_is_wrong(status, kind, body, found):
    """Each of the properties is checked."""
    document = {"paths": {"/predict": {"post": {"responses": dict.fromkeys(["200", "422", "500", "503"])}}}}
    route = type("Route", (), {"path": "/predict"})()
    flaws = flaws_of(
        Answer(status, {"content-type": KINDS[kind]}, body, route), Sent("POST", "/predict"), b'{"a": 1}', document
    )

    assert any(found in flaw for flaw in flaws) if found else flaws == [], flaws
