"""Databases and archives of recorded decisions."""

import pytest

from app.database import Database
from app.migrations import migrate
from app.outcomes.archive import Archive


@pytest.fixture
def database(database_url):
    database = Database(database_url)
    migrate(database)
    yield database
    database.close()


@pytest.fixture
def archive(database, tmp_path):
    return Archive(database, str(tmp_path / "decisions"))
