"""A replica that is started while the store or the database is unavailable."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from tests.faults.life import QUESTION, alone, finished, order
from tests.servers.proxy import Proxy
from tests.servers.s3 import access

pytestmark = pytest.mark.thorough

ADMIN = {"X-API-Key": "only for these tests"}


@pytest.fixture(scope="module")
def way(object_store):
    """The network between the service and the store."""
    with closing(Proxy(object_store.port)) as way:
        way.start()
        yield way


@pytest.fixture(scope="module")
def proxy(postgres_server):
    """The network between the service and the database."""
    with closing(Proxy(postgres_server.port)) as proxy:
        proxy.start()
        yield proxy


@pytest.fixture(scope="module")
def replica(object_store, way, postgres_server, proxy):
    """One that has published `triage` twice, its store behind `way` and its database behind `proxy`; each test kills it
    and leaves it whole.
    """
    bucket, database = object_store.create_bucket(), postgres_server.create_database()
    settings = {
        "models": f"{bucket}/models",
        "datasets": f"{bucket}/datasets",
        "database": database.replace(f":{postgres_server.port}/", f":{proxy.port}/"),
        "admin_key": ADMIN["X-API-Key"],
        "database_seconds": 1,
        "log_level": "info",
    }
    with alone(settings, access(way.url)) as caller:
        caller.replica.client.headers.update(ADMIN)
        caller._clients[0].headers.update(ADMIN)
        for seed in range(2):
            forest = {"learner": {"kind": "random_forest", "n_estimators": 8}}
            assert finished(caller, caller.insist("POST", "/train", json=order("triage", seed, **forest)).json()["id"])
        caller.insist("PUT", "/models/triage/aliases/live", json={"version": 1})
        answers(caller.replica)
        yield caller.replica
    postgres_server.drop_database(database)


def answers(replica) -> None:
    for model, version in (("triage@live", 1), ("triage", 2), ("triage:1", 1)):
        answer = replica.client.post("/predict", json=QUESTION | {"model": model})
        assert answer.status_code == 200, (answer.text, replica.tail())
        assert answer.json()["model"]["version"] == version


@pytest.mark.parametrize("fault", ["kill", "hang", "unavailable"])
def test_without_the_store_it_is_ready_and_answers(replica, way, fault):
    replica.kill()
    getattr(way, fault)()

    replica.start()

    answers(replica)
    way.start()


@pytest.mark.parametrize("fault", ["kill", "hang"])
def test_without_the_database_it_ends_with_the_reason(replica, proxy: Proxy, fault):
    """It has waited for one that starts at the same time, and whoever started it starts it again."""
    replica.kill()
    getattr(proxy, fault)()

    replica.start(wait=False)

    until = time.monotonic() + 60
    while replica.running:
        assert not replica.ready()
        assert time.monotonic() < until, replica.tail()
        time.sleep(0.2)
    assert "the database cannot be used" in replica.tail()
    proxy.start()
    replica.start()
    answers(replica)
