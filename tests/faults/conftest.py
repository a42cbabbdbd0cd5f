"""One system of real processes for all fault tests; each test finds it whole."""

from collections.abc import Iterator

import pytest

from tests.servers import postgres
from tests.servers.fixtures import absent
from tests.servers.system import System

SETTINGS = {
    "lease_seconds": 2,
    "database_seconds": 2,
    "job_attempts": 20,
    "access_log": False,
    "log_level": "warning",
}


@pytest.fixture(scope="session")
def _system() -> Iterator[System]:
    if not postgres.installed():
        absent("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    system = System(SETTINGS)
    try:
        yield system
    finally:
        system.close()


@pytest.fixture
def system(_system: System) -> System:
    """PostgreSQL, an S3 server, a Dask scheduler with two workers, two replicas and a worker: all running."""
    _system.heal()
    return _system
