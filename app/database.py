"""One SQL database, SQLite or PostgreSQL, with the transactions this service needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    MetaData,
    cast,
    create_engine,
    event,
    extract,
    func,
    literal_column,
    text,
)
from sqlalchemy.exc import SQLAlchemyError

_BUSY_MS = 15_000  # how long a writer waits for another; writes here take about a millisecond


class Database:
    """Transactions over one SQLAlchemy URL."""

    def __init__(self, url: str) -> None:
        self.engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        if self.is_sqlite:
            event.listen(self.engine, "connect", _configure_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A snapshot to read from; never waits for a writer."""
        with self.engine.connect().execution_options(payoff_read=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, committed at the end and rolled back on an exception.

        On SQLite it holds the write lock from its first moment (BEGIN IMMEDIATE): a deferred transaction that turns
        writer half-way fails with "database is locked", whatever the time-out.
        """
        with self.engine.begin() as connection:
            yield connection

    @property
    def now(self) -> ColumnElement[float]:
        """The database's own clock in seconds since 1970: one clock for all who share it."""
        if self.is_sqlite:
            return literal_column("((julianday('now') - 2440587.5) * 86400.0)", Double)
        return cast(extract("epoch", func.clock_timestamp()), Double)

    def create(self, tables: MetaData) -> None:
        """Make the tables that are not there yet."""
        with self.writing() as connection:
            tables.create_all(connection)

    def answers(self) -> bool:
        """Whether a query comes back; a SQLite file that was removed under its open connections counts as gone."""
        try:
            with self.reading() as connection:
                connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return False
        return not self.is_sqlite or not self.engine.url.database or Path(self.engine.url.database).exists()

    def close(self) -> None:
        self.engine.dispose()


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the begin event below is the only one that begins
    for pragma in (f"busy_timeout={_BUSY_MS}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    reading = connection.get_execution_options().get("payoff_read", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
