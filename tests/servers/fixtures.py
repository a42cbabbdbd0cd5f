"""Real servers for all tests; each xdist worker starts its own, when the first of its tests asks."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import LocalStore
from sqlalchemy import make_url

from app.database.engine import Database
from app.database.migrations import migrate
from app.jobs.queue import Queue
from app.storage import circuit_breaker, storage
from tests.servers import postgres
from tests.servers.dask import DaskCluster
from tests.servers.postgres import Postgres
from tests.servers.proxy import Proxy
from tests.servers.s3 import ObjectStore, access


def absent(reason: str) -> None:
    """Skip; where CI is to prove everything, fail."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    if not postgres.installed():
        absent("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    server = Postgres()
    server.start()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a fresh empty PostgreSQL database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    """What stands between the database and those who want it."""
    yield from _proxy(make_url(postgres_url).port)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """An empty queue of jobs on SQLite."""
    queue = Queue(Database(f"sqlite:///{tmp_path / 'jobs.db'}"))
    migrate(queue.database)
    yield queue
    queue.database.close()


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    server = ObjectStore()
    server.start()
    yield server
    server.close()


@pytest.fixture
def bucket(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """The `s3://` URL of a fresh empty bucket, with the variables set by which clients find its server."""
    for name, value in access(object_store.endpoint).items():
        monkeypatch.setenv(name, value)
    return object_store.create_bucket()


@pytest.fixture(params=["folder", "s3"])
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh empty place: a folder, or a bucket on a real server."""
    if request.param == "folder":
        return str(tmp_path / "root")
    return f"{request.getfixturevalue('bucket')}/root"


@pytest.fixture
def way(object_store: ObjectStore) -> Iterator[Proxy]:
    """The network between the service and the store."""
    yield from _proxy(object_store.port)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second instead of four for an answer of the store, and a short rest; other numbers are the real ones."""
    monkeypatch.setattr(storage, "_CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(storage, "_SECONDS", 0.5)
    monkeypatch.setattr(circuit_breaker, "REST_SECONDS", 0.2)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The requests to object stores, which no folder is, that this process makes from now on, with their paths."""
    made: list[tuple[str, str]] = []

    def count(name: str) -> None:
        ask = getattr(obstore, name)

        def counted(
            store: Any, path: str | None = None, *arguments: Any, **named: Any
        ) -> Any:
            if not isinstance(store, LocalStore):  # of another service in this process
                made.append((name, path or ""))
            return ask(store, path, *arguments, **named)

        monkeypatch.setattr(obstore, name, counted)

    for name in ("get", "put", "list", "list_with_delimiter", "delete"):
        count(name)
    return made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(
            f"no disk of our own can be mounted here: {mounted.stderr.decode()}"
        )
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[str]:
    """The address of a Dask scheduler with two workers of one thread each."""
    cluster = DaskCluster()
    cluster.start()
    yield cluster.address
    cluster.close()


def _proxy(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    proxy.start()
    yield proxy
    proxy.close()
