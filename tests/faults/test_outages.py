"""Parts that hang, refuse or stutter: who needs them is told within seconds, predictions go on, and jobs end.

Parts that are killed are struck by benchmarks/faults.py, which is run with the other scripts.
"""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from tests.faults.life import QUESTION, finished, model_of, order
from tests.servers.crowd import Account, Caller, Crowd
from tests.servers.service import Replica

pytestmark = pytest.mark.thorough

OUTAGE_SECONDS = 3.0
OUTAGES = {
    "the database is frozen": lambda system: system.postgres.pause(),
    "the database's network is silent": lambda system: system.to_database.hang(),
    "the store answers 503": lambda system: system.to_store.unavailable(),
    "the store is silent": lambda system: system.to_store.hang(),
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_predictions_go_on_and_all_else_is_told(system, outage):
    name = model_of(system, versions=3)
    first, second = system.replicas
    if "store" in outage:
        first.restart()
        shutil.rmtree(
            first.home / "copies"
        )  # version 2 is neither in memory, being not current, nor there
        asks = (
            lambda: first.client.post(
                "/predict", json=QUESTION | {"model": f"{name}:2"}
            ),
            lambda: second.client.post(
                "/datasets",
                files={"file": b"x,y\n1,a\n2,b\n" * 20},
                data={"label": "y"},
            ),
        )
    else:
        asks = (
            lambda: first.client.get("/health/ready"),
            lambda: second.client.post("/train", json=order(name)),
            lambda: second.client.get("/models"),
        )
    account, live = Account(), QUESTION | {"model": f"{name}@live"}
    with ExitStack() as stack, Crowd() as crowd:
        for _ in range(2):
            caller = stack.enter_context(Caller(system.replicas, account))
            crowd.do(
                lambda caller=caller: caller.ask("POST", "/predict", json=live),
                pause=0.05,
            )
        forest = order(name, learner={"kind": "random_forest", "n_estimators": 60})
        job = (
            caller_of(system, stack).insist("POST", "/train", json=forest).json()["id"]
        )
        began, answered = time.monotonic(), account.answered
        OUTAGES[outage](system)
        try:
            with ThreadPoolExecutor(len(asks)) as pool:
                list(pool.map(told_in_time, asks))
            time.sleep(max(0.0, began + OUTAGE_SECONDS - time.monotonic()))
            assert account.answered > answered
        finally:
            system.heal()
        caller = caller_of(system, stack)
        finished(caller, job)
        assert (
            caller.insist(
                "POST", "/predict", json=live | {"model": f"{name}:2"}
            ).json()["model"]["version"]
            == 2
        )
    assert account.failed == []


def caller_of(system, stack) -> Caller:
    return stack.enter_context(Caller(system.replicas))


def told_in_time(ask) -> None:
    """It answers 503 with the reason and when to come again, before the client has lost its patience."""
    response = ask()
    assert response.status_code == 503, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert int(response.headers["retry-after"]) >= 1


@pytest.mark.parametrize("fault", ["kill", "hang", "unavailable"])
def test_a_replica_that_starts_without_the_store_is_ready_and_answers(system, fault):
    """With an admin key: without, it would have to see that no key was ever made."""
    name = model_of(system, versions=2)
    replica = Replica(
        system.settings | {"admin_key": "mine", "workers": 0}, system.environment
    )
    replica.client.headers["X-API-Key"] = "mine"
    with closing(replica):
        replica.start()  # and has loaded what is current
        replica.kill()
        getattr(system.to_store, fault)()

        replica.start()

        for reference, version in ((f"{name}@live", 1), (name, 2), (f"{name}:1", 1)):
            answer = replica.client.post(
                "/predict", json=QUESTION | {"model": reference}
            )
            assert answer.status_code == 200, (answer.text, replica.tail())
            assert answer.json()["model"]["version"] == version


@pytest.mark.parametrize("fault", ["kill", "hang"])
def test_a_replica_that_starts_without_the_database_ends_with_the_reason(system, fault):
    """It has waited for one that starts at the same time, and whoever started it starts it again."""
    replica = system.replicas[0]
    replica.kill()
    getattr(system.to_database, fault)()

    replica.start(wait=False)

    until = time.monotonic() + 60
    while replica.running:
        assert not replica.ready()
        assert time.monotonic() < until, replica.tail()
        time.sleep(0.2)
    assert "the database cannot be used" in replica.tail()
