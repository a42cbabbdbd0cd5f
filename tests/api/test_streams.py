"""What event streams and other look-ups of jobs read from the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from tests.conftest import serving, settings_for, two_class_rows
from tests.jobs.waiting import eventually

FOLDER = "streams"
ORDER = {"model": "waiting", "learner": {"kind": "logistic"}, "data": two_class_rows(40), "holdout": 0}


@pytest.fixture(scope="module")
def queueing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service without workers, whose jobs wait."""
    with serving(settings_for(tmp_path_factory.mktemp(FOLDER), workers=0)) as client:
        yield client


@pytest.fixture
def job(queueing: httpx.Client) -> str:
    response = queueing.post("/train", json=ORDER)
    assert response.status_code == 202
    return f"/train/{response.json()['id']}"


@contextmanager
def statements() -> Iterator[list[str]]:
    """What the service without workers asks of the job table."""
    asked: list[str] = []

    def remember(connection, _cursor, statement, parameters, *_more):
        if "FROM jobs" in statement and FOLDER in str(connection.engine.url):
            asked.append(f"{statement} {parameters}")

    event.listen(Engine, "before_cursor_execute", remember)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", remember)


@contextmanager
def streams(client: httpx.Client, path: str, count: int) -> Iterator[list[Iterator[str]]]:
    """Open event streams, each with its first event read."""
    with ExitStack() as stack:
        lines = []
        for _ in range(count):
            stream = stack.enter_context(client.stream("GET", path))
            assert stream.status_code == 200, stream.read()
            lines.append(stream.iter_lines())
            assert next(lines[-1]).startswith("event: job")
        yield lines


def test_all_streams_of_a_job_share_one_look_at_the_database(queueing, job):
    """Thirty of one job look as often as one of another."""
    other = queueing.post("/train", json=ORDER | {"model": "other"}).json()["id"]
    with streams(queueing, f"{job}/events", 30), streams(queueing, f"/train/{other}/events", 1), statements() as asked:
        eventually(lambda: sum(other in look for look in asked) >= 4)
        looks = list(asked)

    assert 3 <= sum(job.rpartition("/")[2] in look for look in looks) <= 6
