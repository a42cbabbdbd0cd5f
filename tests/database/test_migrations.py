"""Tables come up to date from whatever is there, whole or not at all, and are what the program means."""

import importlib
import os
import pkgutil
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select, update

import app
from app.database.engine import Database
from app.database.migrations import REVISION, current, known, migrate
from app.errors import Conflict

ROOT = Path(__file__).resolve().parents[2]
METADATA = [
    importlib.import_module(module.name).TABLES
    for module in pkgutil.walk_packages(app.__path__, "app.")
    if re.fullmatch(r"app\.(access|jobs|outcomes|registry)\.tables", module.name)
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


DIE = """
import os, signal, sys
from sqlalchemy import event
from app.database.engine import Database
from app.database.migrations import migrate

database, seen = Database(sys.argv[1]), []

@event.listens_for(database.engine, "before_cursor_execute")
def count(_connection, _cursor, statement, *_rest):
    seen.extend([statement] * statement.lstrip().startswith(("CREATE", "INSERT")))
    if len(seen) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

migrate(database)
"""


def test_the_migrated_tables_are_those_the_program_means(database):
    """Alembic sees no difference to the metadata, which are in no other modules than the step names."""
    migrate(database)

    with database.reading() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": REVISION.name}
        )
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
def test_ten_that_start_at_once_on_an_empty_database_all_come_up(
    database, database_url
):
    def start(all_there):
        own = Database(database_url)
        all_there.wait()
        own.wait(60)
        migrate(own)
        own.close()

    with ThreadPoolExecutor(10) as threads:
        list(threads.map(start, [Barrier(10)] * 10))

    assert revision(database) == known()[-1]


@pytest.mark.parametrize("at", [3, 8])
@pytest.mark.thorough
def test_a_kill_half_way_leaves_the_database_as_it_was(database, database_url, at):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    died = subprocess.run(
        [sys.executable, "-c", DIE, database_url, str(at)], env=environment, check=False
    )

    assert died.returncode == -signal.SIGKILL
    assert tables(database) == set()
    assert revision(database) is None
    migrate(database)
    assert revision(database) == known()[-1]
