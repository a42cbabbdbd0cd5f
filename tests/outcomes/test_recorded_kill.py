"""A decision that was answered is in the database, also where the service is killed at that moment."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

from app.database import Database
from tests.conftest import trained, two_class_rows
from tests.outcomes.test_recorder import stored
from tests.servers.service import Replica

BODY = {"model": "ward", "instances": [[58.0, 77.5, "mild"]], "benefits": [[0, -1], [-10, 5]]}
CLIENTS = 4


@pytest.fixture
def replica():
    replica = Replica({"access_log": False, "log_level": "warning"})
    replica.start()
    yield replica
    replica.close()


def test_what_was_answered_survives_a_kill(replica):
    trained(replica.client, {"model": "ward", "learner": {"kind": "logistic"}, "data": two_class_rows()})
    answered: list[list[str]] = [[] for _ in range(CLIENTS)]

    def ask(number):
        with httpx.Client(base_url=replica.url) as client:
            for i in range(10_000):
                record = {"ids": [f"{number}-{i}"]} if i % 2 else True
                try:
                    answer = client.post("/predict", json={**BODY, "record": record})
                except httpx.TransportError:
                    return
                answered[number] += answer.json()["ids"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 30
    while min(map(len, answered)) < 50 and time.monotonic() < until:
        time.sleep(0.01)
    replica.kill()
    for thread in threads:
        thread.join()

    database = Database(f"sqlite:///{replica.home / 'payoff.db'}")
    rows = stored(database)
    database.close()
    ids = {id_ for each in answered for id_ in each}
    assert min(map(len, answered)) >= 50
    assert ids <= rows.keys()
    assert len(rows) <= len(ids) + CLIENTS  # what was not answered any more
