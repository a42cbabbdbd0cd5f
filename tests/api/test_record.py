"""Decisions are stored before they are answered, with all that a report needs."""

import json
import os
import time
from types import SimpleNamespace
from uuid import UUID

import httpx
import numpy as np
import pytest
from sqlalchemy import select

from app.access.caller import ANYBODY, Caller, Keyring, Scope
from app.answering import record as usecase
from app.answering.record import Recording, check_moment
from app.outcomes.decision import DAY, Terms, day_of, day_of_id
from app.outcomes.recorder import Recorder
from app.outcomes.rows import read_terms
from app.outcomes.tables import DECISION_TERMS, DECISIONS
from payoff.errors import Invalid
from tests.api.column_bodies import npy
from tests.messages import says

ROW = [58.0, 77.5, "mild"]
NAMED = {"age": 58, "pulse": 77.5, "pain": "mild"}
MATRIX = [[0, -1], [-10, 5]]
CSV = {"Content-Type": "text/csv"}
NO_MATRIX = {"benefits": None, "actions": None}


@pytest.fixture(scope="module")
def client(service, ward, numeric, forest):
    return service


def stored(database, ids):
    """The rows of these ids with their terms, in order."""
    with database.reading() as connection:
        found = {
            row.id: row
            for row in connection.execute(
                select(DECISIONS).where(DECISIONS.c.id.in_(ids))
            )
        }
        terms = {
            row.digest: read_terms(row.content)
            for row in connection.execute(select(DECISION_TERMS))
        }
    return [(found[id_], terms[found[id_].terms]) for id_ in ids]


def count(database):
    with database.reading() as connection:
        return len(connection.execute(select(DECISIONS.c.id)).all())


def fresh():
    return f"case-{os.urandom(6).hex()}"


def predict(client, status=200, **fields):
    body = {
        "model": "ward",
        "instances": [ROW],
        "benefits": MATRIX,
        "actions": ["wait", "treat"],
        **fields,
    }
    response = client.post(
        "/predict",
        json={name: value for name, value in body.items() if value is not None},
    )
    assert response.status_code == status, response.text
    return response.json()


@pytest.mark.parametrize("model", ["ward", "numeric"])
def test_a_decision_is_stored_as_it_was_answered(client, database, model):
    rows = [ROW, [30.0, 60.0, "strong"]] if model == "ward" else [ROW[:2], [30.0, 60.0]]
    predict(
        client, model=model, instances=rows
    )  # the first one says the matrix in words
    before, plain = count(database), predict(client, model=model, instances=rows)
    predict(client, model=model, instances=rows, record=False)
    assert plain == predict(client, model=model, instances=rows, record=False)
    assert count(database) == before
    answer = predict(client, model=model, instances=rows, record=True)
    answer.pop("matrix_in_words", None)

    assert {name: value for name, value in answer.items() if name != "ids"} == plain
    assert [UUID(id_).version for id_ in answer["ids"]] == [7, 7]
    for i, (row, terms) in enumerate(stored(database, answer["ids"])):
        assert terms == Terms(
            "predict",
            model,
            1,
            "expected_benefit",
            ("healthy", "ill"),
            ("wait", "treat"),
            ((0.0, -1.0), (-10.0, 5.0)),
        )
        assert (row.model, row.version, row.given, row.client, row.instance) == (
            model,
            1,
            False,
            None,
            None,
        )
        assert terms.actions[row.choice] == answer["decisions"][i]
        assert row.expected == answer["expected_benefits"][i][row.choice]
        assert (
            np.frombuffer(row.probabilities, "<f8").tolist()
            == answer["probabilities"][i]
        )


@pytest.mark.parametrize("instance", [ROW, NAMED])
def test_an_instance_is_stored_on_request_alone(client, database, instance):
    ids = [fresh()]
    number = int.from_bytes(os.urandom(4))
    assert predict(client, ids=[number], record=True)["ids"] == [number]
    assert (
        predict(client, instances=[instance], record={"ids": ids, "instances": True})[
            "ids"
        ]
        == ids
    )

    (row, _), (bare, _) = stored(database, [*ids, str(number)])
    assert (json.loads(row.instance), row.given, bare.instance, bare.given) == (
        NAMED,
        True,
        None,
        True,
    )


def test_tables_are_recorded_and_what_is_kept_is_no_part_of_the_instance(
    client, database
):
    first, second = fresh(), fresh()
    query = {
        "model": "ward",
        "benefits": json.dumps(MATRIX),
        "id": "case",
        "keep": "name",
        "explore": "0.5",
    }
    table = f"case,age,pulse,pain,name\n{first},58,77.5,mild,Ann\n{second},58,,never seen,Bea\n"
    sent = {"params": query | {"record": '{"instances":true}'}, "content": table}

    answer = client.post("/predict", **sent, headers=CSV).json()
    text = (
        client.post("/predict", **sent, headers={**CSV, "Accept": "text/csv"})
        .text.replace('"', "")
        .splitlines()
    )

    assert (answer["ids"], answer["kept"]) == (
        [first, second],
        {"name": ["Ann", "Bea"]},
    )
    assert (text[0].split(",")[0], text[0].split(",")[-1]) == ("case", "propensity")
    assert [(line.split(",")[0], float(line.split(",")[-1])) for line in text[1:]] == [
        *zip((first, second), answer["propensities"], strict=True)
    ]
    texts = [json.loads(row.instance) for row, _ in stored(database, [first, second])]
    assert texts == [NAMED, {"age": 58.0, "pulse": None, "pain": None}]


def test_each_distinct_matrix_is_recorded_once(client, database):
    matrices = [MATRIX, [[0, -2], [-10, 5]], MATRIX]
    answer = predict(client, instances=[ROW] * 3, benefits=matrices, record=True)

    found = [terms for _, terms in stored(database, answer["ids"])]
    assert [np.array(terms.benefits).tolist() for terms in found] == matrices
    assert found[0] == found[2]


@pytest.mark.parametrize(
    ("fields", "figures"),
    [
        ({"rule": "threshold", "threshold": 0.3, "benefits": None}, {"threshold": 0.3}),
        ({"rule": "most_probable"} | NO_MATRIX, None),
        ({"priors": {"healthy": 0.9, "ill": 0.1}}, None),
        (
            {"limits": {"treat": 1}},
            {"limits": {"treat": {"at_least": None, "at_most": 1}}},
        ),
        (
            {
                "rule": "hierarchical",
                "costs": {"majority": "healthy", "C_HD": 1, "C_DH": 4},
            }
            | NO_MATRIX,
            {
                "threshold": 0.2,
                "costs": {
                    "majority": "healthy",
                    "C_HD": 1.0,
                    "C_DH": 4.0,
                    "C_DD": None,
                },
            },
        ),
    ],
)
def test_terms_hold_what_the_rule_used(client, database, fields, figures):
    answer = predict(client, instances=[ROW, ROW], record=True, **fields)

    for i, (row, terms) in enumerate(stored(database, answer["ids"])):
        assert terms.rule == answer["rule"]
        assert terms.figures == figures
        assert terms.priors == fields.get("priors")
        assert terms.actions[row.choice] == answer["decisions"][i]
        assert (row.expected is None) == ("expected_benefits" not in answer)
        assert (
            np.frombuffer(row.probabilities, "<f8").tolist()
            == answer["probabilities"][i]
        )


def test_a_share_of_the_actions_is_drawn_and_its_chance_recorded(client, database):
    rows = [ROW[:2], [30.0, 60.0]] * 1_000
    body = {
        "model": "numeric",
        "instances": rows,
        "benefits": [[0, -1, -2], [-10, 5, 1]],
        "actions": ["a", "b", "c"],
    }
    best = predict(client, **body)
    ids = [f"drawn {i}" for i in range(len(rows))]  # which alone decide about the draw
    answer, repeat = (
        predict(client, **body, record={"ids": ids}, explore=0.3) for _ in range(2)
    )

    assert (repeat["decisions"], repeat["propensities"]) == (
        answer["decisions"],
        answer["propensities"],
    )
    same = np.array(answer["decisions"]) == np.array(best["decisions"])
    assert np.allclose(answer["propensities"], np.where(same, 0.8, 0.1))
    assert 0.17 < 1 - same.mean() < 0.23
    drawn = [answer["decisions"][i] for i in np.flatnonzero(~same)]
    assert set(drawn) == {"a", "b", "c"} - (
        {*best["decisions"]} if len({*best["decisions"]}) == 1 else set()
    )
    i = int(np.flatnonzero(~same)[0])
    [(row, terms)] = stored(database, [answer["ids"][i]])
    assert terms.figures == {"explore": 0.3}
    assert row.propensity == answer["propensities"][i]
    assert (
        row.expected
        == answer["expected_benefits"][i][terms.actions.index(answer["decisions"][i])]
    )


def test_arrays_are_recorded_and_answered_with_ids(client, database):
    query, before = (
        {"model": "numeric", "benefits": json.dumps(MATRIX), "record": "true"},
        count(database),
    )
    answers = {}
    for accept in ("application/x-npy", "application/json"):
        headers = {"Content-Type": "application/x-npy", "Accept": accept}
        content = npy([[58.0, 77.5], [np.nan, 60.0]])
        answers[accept] = client.post(
            "/predict", params=query, content=content, headers=headers
        ).json()

    assert (
        answers["application/x-npy"]["errors"][0]["loc"] == "/record"
    )  # there is no place for the ids
    assert (
        len(stored(database, answers["application/json"]["ids"]))
        == count(database) - before
        == 2
    )


def test_an_unrecorded_answer_is_not_sent(client, database):
    """While another program holds the database's lock the answer waits."""
    asked = {
        "model": "numeric",
        "instances": [ROW[:2]],
        "benefits": MATRIX,
        "record": True,
    }
    with database.writing(), pytest.raises(httpx.ReadTimeout):
        client.post("/predict", json=asked, timeout=0.3)
    assert len(client.post("/predict", json=asked).json()["ids"]) == 1


def test_what_is_recorded_is_counted_once(client):
    def counted():
        lines = dict(
            line.rsplit(" ", 1)
            for line in client.get("/metrics").text.splitlines()
            if line[0] != "#"
        )
        names = ("payoff_decisions_recorded_total", "payoff_expected_benefit_total")
        return [float(lines[f'{name}{{model="ward",version="1"}}']) for name in names]

    predict(client, record=True)
    before = counted()
    ids = [fresh(), fresh()]
    for _ in range(2):
        answer = predict(client, instances=[ROW, ROW], record={"ids": ids})

    benefit = max(answer["expected_benefits"][0])
    assert np.allclose(np.subtract(counted(), before), [2, 2 * benefit])


def acquire(client, status=200, **fields):
    body = {
        "model": "woods",
        "benefits": MATRIX,
        "actions": ["wait", "treat"],
        **fields,
    }
    response = client.post(
        "/acquire",
        json={name: value for name, value in body.items() if value is not None},
    )
    assert response.status_code == status, response.text
    return response.json()


def test_a_case_is_recorded_once_when_it_is_decided(client, database):
    ids, before = [fresh()], count(database)
    asked = acquire(client, known={}, record={"ids": ids}, benefits=None, actions=None)
    assert (asked["status"], asked["ids"]) == ("acquire", [None])
    assert count(database) == before

    known = {"pulse": 77.5, "age": 58, "pain": "mild"}
    wish = {
        "known": known,
        "record": {"ids": ids, "instances": True},
        "feature_costs": {"age": 0.5},
    }
    answer = acquire(client, **wish)
    assert (answer["status"], answer["ids"]) == ("decided", ids)
    assert acquire(client, **wish) == answer

    [(row, terms)] = stored(database, ids)
    assert (terms.verb, terms.rule, np.array(terms.benefits).tolist()) == (
        "acquire",
        "expected_benefit",
        MATRIX,
    )
    assert terms.figures == {"feature_costs": {"age": 0.5}}
    assert terms.actions[row.choice] == answer["decision"]
    assert row.expected == answer["expected_benefits"][answer["decision"]]
    details = {"asked": ["pulse", "age", "pain"]} | {
        name: answer[name] for name in ("spent", "reason")
    }
    assert (json.loads(row.details), json.loads(row.instance)) == (details, known)
    assert np.frombuffer(row.probabilities, "<f8").tolist() == list(
        answer["probabilities"].values()
    )
    problem = acquire(client, 409, known={**known, "age": 30}, record={"ids": ids})
    assert [error["loc"] for error in problem["errors"]] == ["/record/ids/0"]


def test_of_many_cases_the_decided_ones_are_recorded(client, database):
    known = dict(NAMED)
    fields = {"benefits": None, "actions": None, "budget": 100, "record": True}
    answer = acquire(client, instances=[{}, known, {"age": 58}], **fields)
    statuses = [each["status"] for each in answer["results"]]
    assert [id_ is not None for id_ in answer["ids"]] == [
        status == "decided" for status in statuses
    ]
    [(row, terms)] = stored(database, [answer["ids"][1]])
    assert (terms.rule, terms.benefits, terms.figures) == (
        "most_probable",
        None,
        {"budget": 100},
    )
    assert (terms.actions[row.choice], row.expected) == (
        answer["results"][1]["prediction"],
        None,
    )

    ids = [fresh(), fresh()]
    acquire(client, instances=[known, {"age": 58}], **fields, ids=ids)
    assert stored(database, ids[:1])


@pytest.mark.parametrize(
    ("at", "day"),
    [("2026-03-01T12:00:00Z", 20_513), (86_400, 1), ("2026-03-01", 20_513)],
)
def test_decisions_are_dated_back(client, database, at, day):
    body = {
        "model": "ward",
        "instances": [ROW, ROW],
        "benefits": MATRIX,
        "record": {"at": at},
    }
    ids = client.post("/predict", json=body).json()["ids"]
    assert [day_of_id(id_) for id_ in ids] == [day, day]
    assert [day_of(row.at) for row, _ in stored(database, ids)] == [day, day]


def test_a_key_that_only_predicts_dates_no_decision_back(client, database, monkeypatch):
    """By more than clocks differ; each day that it made would cost every report."""

    def asked(scope, at):
        caller = Caller(scope, scopes=frozenset({Scope("predict"), Scope(scope)}))
        monkeypatch.setattr(Keyring, "caller", lambda *_: caller)
        body = {
            "model": "ward",
            "instances": [ROW],
            "benefits": MATRIX,
            "record": {"at": at},
        }
        return client.post("/predict", json=body)

    before, now = count(database), time.time()
    for at in (now - 3600, now - 3 * DAY, 0):
        refused = asked("predict", at)
        assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (
            403,
            "/record/at",
        )
    assert count(database) == before
    for scope, at in (
        ("predict", now - 30),
        ("train", now - 3 * DAY),
        ("admin", now - 3 * DAY),
    ):
        assert asked(scope, at).status_code == 200


def test_no_decision_is_dated_back_beyond_what_is_kept(database, tmp_path):
    recorder = Recorder(database, lambda *_: {}, keep_seconds=30 * DAY)
    stores = SimpleNamespace(recorder=recorder)

    check_moment(stores, ANYBODY, Recording(at=time.time() - 29 * DAY))
    with pytest.raises(Invalid) as refused:
        check_moment(stores, ANYBODY, Recording(at=time.time() - 31 * DAY))

    assert list(refused.value.flaws) == [says("/record/at", "30 days")]


def test_what_a_request_shares_is_not_stored_once_for_each_of_many_matrices(
    client, database, monkeypatch
):
    """294 kB that were sent became 168 MB; by a cell that depends on the case, 17 kB became 28 MB."""
    monkeypatch.setattr(usecase, "MAX_SHARED", 1 << 20)
    names, n = [f"{a:02d}" + "x" * 198 for a in range(20)], 60
    beds = {"name": "beds", "use": dict.fromkeys(names, 1), "at_most": 1e9}
    many = [[[i, *[1] * 19], [1] * 20] for i in range(n)]
    body = {"model": "ward", "instances": [ROW] * n, "actions": names, "benefits": many}
    body["resources"] = [beds | {"name": f"r{k}"} for k in range(5)]
    before = count(database)
    refused = client.post("/predict", json=body | {"record": True})

    assert (refused.status_code, "fewer matrices" in refused.json()["detail"]) == (
        413,
        True,
    )
    assert count(database) == before
    cells = {
        "actions": [str(a) for a in range(1000)],
        "benefits": [[{"column": "age"}, *[1] * 999], [1] * 1000],
    }
    rows = [[age, *ROW[1:]] for age in range(200)]
    body_of_cells = {"model": "ward", "instances": rows, "record": True} | cells
    assert client.post("/predict", json=body_of_cells).status_code == 413
    assert (
        client.post(
            "/predict", json=body_of_cells | {"instances": rows[:30]}
        ).status_code
        == 200
    )
    assert (
        client.post("/predict", json=body_of_cells | {"instances": []}).status_code
        == 200
    )
    for fewer in (
        {"benefits": many[0]},
        {"resources": None, "actions": [str(a) for a in range(20)]},
        {"benefits": many[:20], "instances": [ROW] * 20},
        {"record": False},
    ):
        asked = {
            name: value
            for name, value in (body | {"record": True} | fewer).items()
            if value is not None
        }
        assert client.post("/predict", json=asked).status_code == 200
