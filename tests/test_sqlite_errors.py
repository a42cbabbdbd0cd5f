"""Every error code of SQLite is explained, with a fix, or is a statement's own."""

from __future__ import annotations

import sqlite3

import pytest

from app.database import Database, DatabaseAway
from app.sqlite_errors import explained

CODES = {
    name: value
    for name, value in vars(sqlite3).items()
    if name.startswith("SQLITE_") and isinstance(value, int) and isinstance(name, str)
}
OF_THE_SYSTEM = (
    "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PERM", "SQLITE_CORRUPT",
    "SQLITE_NOTADB", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL", "SQLITE_NOMEM",
)  # fmt: skip


def error(code):
    found = sqlite3.OperationalError("what SQLite says")
    found.sqlite_errorcode = code
    return found


@pytest.mark.parametrize("name", [name for name in CODES if name.startswith(OF_THE_SYSTEM)])
def test_codes_of_the_disk_the_file_and_the_machine_have_a_fix(name, tmp_path):
    file = str(tmp_path / "payoff.db")

    found = explained(error(CODES[name]), file)

    assert found.what.startswith(file)
    assert found.fix


def test_errors_of_statements_and_of_other_libraries_have_none(tmp_path):
    for code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH):
        assert explained(error(code), str(tmp_path)) is None
    assert explained(None, "") is None
    assert explained(sqlite3.OperationalError("no code"), "") is None


@pytest.mark.parametrize("damaged", [b"no database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_a_database_that_cannot_be_used(tmp_path, damaged):
    """503 in the service, and one line in a command; it used to be an error of its own."""
    (tmp_path / "payoff.db").write_bytes(damaged)
    database = Database(f"sqlite:///{tmp_path / 'payoff.db'}")

    assert database.problem() == "the database does not answer"
    for transaction in (database.reading, database.writing):
        with pytest.raises(DatabaseAway) as away, transaction() as connection:
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
        assert "put a backup in its place" in away.value.fix
        assert str(tmp_path) not in away.value.detail
    database.close()
