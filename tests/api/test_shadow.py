"""Requests to an alias with challengers: whoever answers, these decide on what was recorded."""

import pytest
from sqlalchemy import select

from app.outcomes.tables import SHADOW_DECISIONS
from tests.conftest import database_of, serving, settings_for, trained, two_class_rows
from tests.jobs.waiting import eventually
from tests.messages import says

ROWS = [[58.0, 77.5, "mild"], [33.0, 61.0, "none"], [70.0, 99.0, "severe"]]
QUESTION = {"benefits": [[0, -1], [-10, 5]], "actions": ["wait", "treat"]}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shadow")
    with serving(settings_for(folder)) as client:
        for regularization in (1.0, 0.001):
            learner = {"kind": "logistic", "C": regularization}
            trained(
                client, {"model": "ward", "learner": learner, "data": two_class_rows()}
            )
        target = {"version": 1, "shadow": ["ward:2"]}
        client.put("/models/ward/aliases/live", json=target).raise_for_status()
        client.folder = folder
        yield client


@pytest.fixture(scope="module")
def database(client):
    with database_of(client) as database:
        yield database


def chosen(database, ids):
    with database.reading() as connection:
        rows = connection.execute(
            select(SHADOW_DECISIONS).where(SHADOW_DECISIONS.c.id.in_(ids))
        ).all()
    by_id = {row.id: (row.challenger, row.choice) for row in rows}
    return [by_id.get(id_) for id_ in ids]


def test_a_challenger_that_decides_alike_explores_alike(client, database):
    """Else it would seem better by what exploration costs."""
    trained(
        client,
        {"model": "ward", "learner": {"kind": "logistic"}, "data": two_class_rows()},
    )
    version = max(
        one["version"] for one in client.get("/models/ward").json()["versions"]
    )
    target = {"version": 1, "shadow": [f"ward:{version}"]}
    client.put("/models/ward/aliases/twin", json=target).raise_for_status()
    eventually(lambda: chosen(database, ask(client, "ward@twin")["ids"])[0] is not None)

    body = {
        "model": "ward@twin",
        "instances": ROWS * 10,
        "record": True,
        "explore": 0.5,
        **QUESTION,
    }
    answer = client.post("/predict", json=body).json()
    assert min(answer["propensities"]) < 0.5
    expected = [
        (f"ward:{version}", answer["actions"].index(decision))
        for decision in answer["decisions"]
    ]
    eventually(lambda: chosen(database, answer["ids"]) == expected, seconds=20)


def ask(client, reference):
    answer = client.post(
        "/predict",
        json={"model": reference, "instances": ROWS, "record": True, **QUESTION},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_no_version_is_its_own_challenger(client):
    path = "/models/ward/aliases/promoted"
    refused = client.put(path, json={"version": 1, "shadow": ["ward:2", "ward:1"]})
    assert refused.status_code == 422
    assert refused.json()["errors"] == [
        says("/shadow/1", "ward:1", "the version that the alias means")
    ]

    first = client.put(path, json={"version": 1, "shadow": ["ward:2"]}).json()
    assert (first["shadow"], first["warnings"]) == (["ward:2"], [])
    moved = client.put(path, json={"version": 2}).json()
    assert (
        moved["shadow"]
        == client.get("/models/ward").json()["shadows"].get("promoted", [])
        == []
    )
    assert [warning.split()[0] for warning in moved["warnings"]] == ["ward:2"]
    assert client.put(path, json={"version": 2, "shadow": ["ward:1"]}).json()[
        "shadow"
    ] == ["ward:1"]
    assert client.put(path, json={"version": 2}).json() == {
        "name": "ward", "alias": "promoted", "version": 2, "shadow": ["ward:1"], "warnings": []
    }  # fmt: skip
