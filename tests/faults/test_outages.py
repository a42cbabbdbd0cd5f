"""Parts that do not die but hang, refuse or stutter: clients are told within seconds, and predictions go on."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import two_class_rows
from tests.faults.life import QUESTION, finished, life_goes_on, model_of, order
from tests.servers.crowd import Caller

pytestmark = pytest.mark.thorough

OUTAGE_SECONDS = 3.0


def test_a_frozen_database(system):
    """SIGSTOP to PostgreSQL: predictions go on; what needs it is refused in time; then jobs go on where they were."""
    with life_goes_on(system) as life:
        system.postgres.pause()
        try:
            answered = life.predicting.answered
            told_in_time(lambda: system.replicas[0].client.get("/health/ready"))
            told_in_time(lambda: system.replicas[1].client.get("/models"))
            assert life.predicting.answered > answered
        finally:
            system.postgres.resume()


def test_a_database_behind_a_silent_network(system):
    """Packets to PostgreSQL are swallowed: the same."""
    with life_goes_on(system) as life:
        system.to_database.hang()
        answered = life.predicting.answered
        told_in_time(lambda: system.replicas[0].client.get("/health/ready"))
        told_in_time(lambda: system.replicas[1].client.post("/train", json=order(life.name)))
        assert life.predicting.answered > answered
        system.to_database.start()


@pytest.mark.parametrize("fault", ["unavailable", "hang"])
def test_a_store_that_answers_503_or_nothing(system, fault):
    """Models in memory answer; others say 503 in time, and answer when the store is back; jobs wait for it."""
    name = model_of(system)
    with Caller(system.replicas) as caller:
        for seed in (1, 2):
            finished(caller, caller.insist("POST", "/train", json=order(name, seed)).json()["id"])
        system.replicas[0].restart()
        shutil.rmtree(
            system.replicas[0].home / "copies"
        )  # version 2 is neither in memory, being not current, nor there
        with life_goes_on(system) as life:
            getattr(system.to_store, fault)()
            began, answered = time.monotonic(), life.predicting.answered
            cold = QUESTION | {"model": f"{name}:2"}
            asked = (
                lambda: system.replicas[0].client.post("/predict", json=cold),
                lambda: system.replicas[1].client.post("/datasets", files=upload(), data={"label": "class"}),
            )
            with ThreadPoolExecutor(len(asked)) as pool:
                list(pool.map(told_in_time, asked))
            time.sleep(max(0.0, began + OUTAGE_SECONDS - time.monotonic()))
            assert life.predicting.answered > answered
            system.to_store.start()
            assert caller.insist("POST", "/predict", json=cold).json()["model"]["version"] == 2


def test_a_job_waits_for_a_store_that_is_away(system):
    """It is tried again until the store is back, however often that is, and succeeds."""
    forest = {"learner": {"kind": "random_forest", "n_estimators": 60}}
    with Caller(system.replicas) as caller:
        job = caller.insist("POST", "/train", json=order("patient", **forest)).json()["id"]
        system.to_store.unavailable()
        time.sleep(OUTAGE_SECONDS)
        assert caller.insist("GET", f"/train/{job}").json()["status"] in ("queued", "running")
        system.to_store.start()
        ended = finished(caller, job)
    assert ended["status"] == "succeeded", ended


def told_in_time(ask) -> None:
    """It answers 503 with the reason and when to come again, before the client has lost its patience."""
    response = ask()
    assert response.status_code == 503, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert int(response.headers["retry-after"]) >= 1


def upload() -> dict:
    data = two_class_rows(60, seed=time.monotonic_ns() % 2**32)
    lines = [",".join([*data["features"], "class"])]
    lines += [",".join(map(str, [*row, label])) for row, label in zip(data["rows"], data["labels"], strict=True)]
    return {"file": ("table.csv", "\n".join(lines).encode())}
