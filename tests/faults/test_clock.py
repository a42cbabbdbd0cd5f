"""Clocks that are wrong, and clocks that jump."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.faults.life import alone, finished, order
from tests.servers.fixtures import absent
from tests.servers.service import JobWorker

STEADY = {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}  # the clock that waits are measured by never jumps
SLOW = {"learner": {"kind": "random_forest", "n_estimators": 60}}


@pytest.mark.parametrize("shift", ["+2h", "-2h"])
def test_a_worker_whose_clock_is_wrong(postgres_url, tmp_path, shift):
    """Leases and times are the database's: it keeps its jobs, nobody's are taken, and all times are right."""
    if shutil.which("faketime") is None:
        absent("faketime is not installed (Debian: apt-get install faketime)")
    shared = {"database": postgres_url, "models": tmp_path / "models", "datasets": tmp_path / "datasets"}
    wrong = JobWorker(shared, STEADY)
    wrong.wrapper = ["faketime", "-f", shift]
    with alone(shared | {"workers": 0}) as caller:
        try:
            wrong.start()
            job = finished(caller, caller.insist("POST", "/train", json=order("timely", **SLOW)).json()["id"])
        finally:
            wrong.close()
        assert (job["status"], job["attempt"]) == ("succeeded", 1)
        card = caller.insist("GET", "/models/timely/versions/1").json()
        for moment in (job["created_at"], job["started_at"], job["finished_at"], card["created_at"]):
            assert abs((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()) < 600


@pytest.mark.parametrize("seconds", [7200, -7200])
def test_the_clock_of_the_database_jumps_while_a_job_runs(seconds):
    """Every lease looks two hours older, or younger: the job under way is tried again at most, and the next one runs.

    libfaketime cannot jump under a program that sleeps, so the leases are moved instead of the clock.
    """
    with alone({}) as caller:
        job = caller.insist("POST", "/train", json=order("jump", **SLOW)).json()["id"]
        while caller.insist("GET", f"/train/{job}").json()["status"] == "queued":
            time.sleep(0.02)
        with closing(sqlite3.connect(caller.replica.home / "payoff.db", timeout=10)) as database, database:
            moved = database.execute(
                "UPDATE jobs SET lease_until = lease_until - ? WHERE status = 'running'", (seconds,)
            )
            assert moved.rowcount == 1
        ended = finished(caller, job)
        assert ended["status"] == "succeeded", ended
        assert ended["attempt"] <= 2
        after = caller.insist("POST", "/train", json=order("jump", 1)).json()["id"]
        assert finished(caller, after)["status"] == "succeeded"
        assert len(caller.insist("GET", "/models/jump").json()["versions"]) == 2
