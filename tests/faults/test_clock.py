"""Clocks that are wrong."""

import shutil
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from tests.faults.life import finished, order
from tests.servers.crowd import Caller
from tests.servers.fixtures import absent
from tests.servers.service import JobWorker, Replica

pytestmark = pytest.mark.thorough

STEADY = {
    "FAKETIME_DONT_FAKE_MONOTONIC": "1"
}  # the clock that waits are measured by never jumps
SLOW = {"learner": {"kind": "random_forest", "n_estimators": 60}}


def test_workers_whose_clocks_are_wrong(postgres_url, tmp_path):
    """Two hours fast, two hours slow. Leases and times are the database's: no job is taken, all times are right."""
    if shutil.which("faketime") is None:
        absent("faketime is not installed (Debian: apt-get install faketime)")
    shared = {
        "database": postgres_url,
        "models": tmp_path / "models",
        "datasets": tmp_path / "datasets",
    }
    with ExitStack() as stack:
        for shift in ("+2h", "-2h"):
            worker = JobWorker(shared, STEADY)
            stack.callback(worker.close)
            worker.wrapper = ["faketime", "-f", shift]
            worker.start()
        replica = Replica(shared | {"workers": 0})  # all three begin side by side
        stack.callback(replica.close)
        replica.start()
        caller = stack.enter_context(Caller([replica]))
        sent = [
            caller.insist("POST", "/train", json=order("timely", number, **SLOW)).json()
            for number in range(2)
        ]
        for job in [finished(caller, job["id"]) for job in sent]:
            assert job["attempt"] == 1
            card = caller.insist(
                "GET", f"/models/timely/versions/{job['model']['version']}"
            ).json()
            for moment in (
                job["created_at"],
                job["started_at"],
                job["finished_at"],
                card["created_at"],
            ):
                assert (
                    abs(
                        (
                            datetime.now(UTC) - datetime.fromisoformat(moment)
                        ).total_seconds()
                    )
                    < 600
                )
