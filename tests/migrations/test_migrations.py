"""Tables come up to date from whatever is there, whole or not at all, and are what the program means."""

import importlib
import os
import pkgutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select, update

import app
from app.database import Database
from app.errors import Conflict
from app.migrations import REVISION, current, known, migrate

ROOT = Path(__file__).resolve().parents[2]
METADATA = [
    importlib.import_module(module.name).TABLES
    for module in pkgutil.walk_packages(app.__path__, "app.")
    if module.name.endswith(".tables") and not module.name.startswith("app.api.")  # of bodies
]


@pytest.fixture
def database(database_url):
    database = Database(database_url)
    yield database
    database.close()


def revision(database):
    with database.reading() as connection:
        return current(connection)


def tables(database):
    with database.reading() as connection:
        return {*inspect(connection).get_table_names()}


def start(database_url, how, number):
    command = [sys.executable, Path(__file__).with_name("starting.py"), database_url, how, str(number)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_migrated_tables_are_those_the_program_means(database):
    """Alembic sees no difference to the metadata, which are in no other modules than the step names."""
    migrate(database)

    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": REVISION.name})
        assert compare_metadata(context, METADATA) == []


def test_an_empty_database_gets_all_tables_and_a_current_one_is_left_alone(database):
    assert revision(database) is None
    migrate(database)
    assert revision(database) == known()[-1]
    migrate(database)
    assert revision(database) == known()[-1]


def test_a_database_of_a_newer_program_is_refused_by_name(database):
    migrate(database)
    with database.writing() as connection:
        connection.execute(update(REVISION).values(version_num="9999"))
    with pytest.raises(Conflict, match=rf"revision 9999.* up to {known()[-1]}"):
        migrate(database)
    with database.reading() as connection:
        assert connection.execute(select(REVISION.c.version_num)).scalar() == "9999"


@pytest.mark.thorough
def test_ten_processes_that_start_at_once_on_an_empty_database_all_come_up(database, database_url):
    ended = start(database_url, "together", 10)

    assert ended.stdout.strip() == str([0] * 10), ended.stderr
    assert revision(database) == known()[-1]


@pytest.mark.parametrize("at", [3, 8])
@pytest.mark.thorough
def test_a_kill_half_way_leaves_the_database_as_it_was(database, database_url, at):
    assert start(database_url, "die", at).returncode == -signal.SIGKILL
    assert tables(database) == set()
    assert revision(database) is None
    migrate(database)
    assert revision(database) == known()[-1]
