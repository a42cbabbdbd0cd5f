"""Databases and archives of recorded decisions."""

import pytest

from app.outcomes.archive import Archive
from tests.conftest import migrated


@pytest.fixture
def database(database_url):
    with migrated(database_url) as database:
        yield database


@pytest.fixture
def archive(database, tmp_path):
    return Archive(database, str(tmp_path / "decisions"))
