"""A replica that is started while the store, or the store and the database, are unavailable."""

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
        time.sleep(2)  # it looks twice a second, and copies what has changed
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
def test_without_store_and_database_it_answers_the_admin_key_and_recovers(replica, way, proxy: Proxy, fault):
    """It is not ready, and says why; it becomes ready by itself. Nobody else is let in."""
    replica.kill()
    getattr(way, fault)()
    getattr(proxy, fault)()

    replica.start(wait=False)

    until = time.monotonic() + 60
    while not replica.ready() and "the database does not answer" not in replica.reason:
        assert time.monotonic() < until, replica.tail()
        assert replica.running, replica.tail()
        time.sleep(0.2)
    answers(replica)
    assert "the keys are not read yet" in replica.reason
    refused = replica.client.post("/predict", json=QUESTION | {"model": "triage"}, headers={"X-API-Key": "a" * 9})
    assert refused.status_code == 401
    way.start()
    proxy.start()
    replica.wait_ready(60)
    answers(replica)
