"""What the doctor says of Dask clusters."""

from __future__ import annotations

import socket

import pytest

from app.doctor import cluster
from app.doctor.cluster import check_dask
from app.doctor.finding import Level

THERE = {"threads": 2, "memory": 2**30, "packages": cluster._OURS}


def said(monkeypatch, workers) -> tuple[Level, str]:
    monkeypatch.setattr(cluster, "_asked", lambda _address: workers)
    (finding,) = check_dask("tcp://scheduler:8786")
    return finding.level, finding.text


def test_a_cluster_that_runs_is_in_order(dask_cluster):
    (finding,) = check_dask(dask_cluster)

    assert finding.level is Level.OK, finding
    assert "2 workers with 2 threads in all" in finding.text


def test_what_is_not_set_is_not_looked_at():
    assert list(check_dask("")) == []


def test_a_scheduler_that_accepts_and_says_nothing_is_wrong(monkeypatch):
    monkeypatch.setattr(cluster, "_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (finding,) = check_dask(f"tcp://127.0.0.1:{silent.getsockname()[1]}")

    assert finding.level is Level.WRONG
    assert finding.text.endswith("does not answer")


@pytest.mark.parametrize(
    ("workers", "level", "words"),
    [
        ([], Level.WARNING, "has no workers"),
        ([THERE, THERE | {"memory": 0}], Level.OK, "2 workers with 4 threads in all, 1,024 MB or more each"),
        ([THERE | {"memory": 0}], Level.OK, "without limits on memory"),
        ([THERE, THERE | {"packages": cluster._OURS | {"numpy": "1.0"}}], Level.WRONG, "have numpy 1.0; here are"),
        ([THERE | {"packages": cluster._OURS | {"scikit-learn": None}}], Level.WRONG, "have scikit-learn not at all"),
    ],
)
def test_workers_are_counted_and_compared(monkeypatch, workers, level, words):
    found, text = said(monkeypatch, workers)

    assert found is level
    assert words in text
