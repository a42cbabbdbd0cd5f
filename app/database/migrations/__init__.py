"""The database's tables as numbered steps, brought up to date when the service or a worker starts.

Each step is a file in `versions`, named by its revision, `0002_what_it_does.py`, and follows the
one before it. Steps run in one transaction, so that a process killed half-way leaves the tables as
they were.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    String,
    Table,
    func,
    inspect,
    select,
)

from app.errors import Conflict

FOLDER = Path(__file__).parent
REVISION = Table(
    "payoff_revision", MetaData(), Column("version_num", String(32), primary_key=True)
)

_LOCK = 0x7061796F6666  # "payoff": the process that holds it in PostgreSQL may change the tables


class Transactions(Protocol):
    """The transactions of a database; on SQLite `writing` holds the write lock from the start."""

    def reading(self) -> AbstractContextManager[Connection]: ...

    def writing(
        self, *, without_timeout: bool
    ) -> AbstractContextManager[Connection]: ...


def known() -> list[str]:
    """All revisions, oldest first; the last is what this program needs."""
    return sorted(
        file.name.split("_")[0] for file in (FOLDER / "versions").glob("[0-9]*_*.py")
    )


def current(connection: Connection) -> str | None:
    """The revision that the tables are at; None where they are absent."""
    if not inspect(connection).has_table(REVISION.name):
        return None
    return connection.execute(select(REVISION.c.version_num)).scalar()


def migrate(database: Transactions) -> None:
    """Bring the tables up to date; of many processes that start at once one does it and the others
    wait.

    Conflict where the tables belong to a newer program. One query where they are up to date.
    """
    with database.reading() as connection:
        if _is_done(connection):
            return
    # No time-out: another process may take long for a step.
    with database.writing(without_timeout=True) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        if not _is_done(connection):
            _upgrade(connection)


def _is_done(connection: Connection) -> bool:
    revision = current(connection)
    newest = known()[-1]
    if revision is not None and revision not in known():
        raise Conflict(
            f"the database is at revision {revision}, made by a newer version of this program,"
            f" which knows revisions up to {newest}: install that version,"
            " or name another database in PAYOFF_DATABASE"
        )
    return revision == newest


def _upgrade(connection: Connection) -> None:
    # alembic is slow to load, and not needed where the tables are up to date.
    from alembic import command, config  # noqa: PLC0415

    settings = config.Config(attributes={"connection": connection})
    settings.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    command.upgrade(settings, "head")
