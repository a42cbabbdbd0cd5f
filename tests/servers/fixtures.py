"""Real servers for all tests; each xdist worker starts its own, when the first of its tests asks."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import botocore.session
import pytest

from tests.servers import postgres
from tests.servers.dask import DaskCluster
from tests.servers.postgres import Postgres
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


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    server = ObjectStore()
    server.start()
    with pytest.MonkeyPatch.context() as patch:  # each new client would read a megabyte of JSON about S3 again
        patch.setattr("botocore.session.create_loader", functools.cache(botocore.session.create_loader))
        yield server
    server.close()


@pytest.fixture
def bucket(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """The `s3://` URL of a fresh empty bucket, with the variables set by which clients find its server."""
    for name, value in access(object_store.endpoint).items():
        monkeypatch.setenv(name, value)
    return object_store.create_bucket()


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[str]:
    """The address of a Dask scheduler with two workers of one thread each."""
    cluster = DaskCluster()
    cluster.start()
    yield cluster.address
    cluster.close()
