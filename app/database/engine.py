"""One SQL database, SQLite or PostgreSQL, with the transactions this service needs."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from types import ModuleType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Engine,
    Table,
    cast,
    create_engine,
    event,
    extract,
    func,
    literal_column,
    make_url,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from app.database.polling import Changes
from app.errors import Unavailable
from app.storage.circuit_breaker import CircuitBreaker
from app.storage.disks import unwritable
from payoff.errors import Invalid

# how long a writer waits for another; writes here take about a millisecond
_BUSY_MS = 15_000
_POOL_SECONDS = 3.0  # how long to wait for one of this process's own connections
_READ_ONLY = "25006"  # SQLSTATE of a standby before it is promoted
_WAIT_SECONDS = 0.25
_ANSWER_SECONDS = 1.0  # well within the time that a prober of readiness allows

_log = logging.getLogger(__name__)


class DatabaseAway(Unavailable):
    """The database does not answer"""

    def __init__(self, reason: str) -> None:
        super().__init__("the database does not answer at the moment; try again")
        self.reason = reason  # for operators alone: it may contain addresses and names


class Database:
    """Transactions over one SQLAlchemy URL.

    `changes` reports what other processes change. `connections` is the maximum to PostgreSQL, and
    `seconds` that of one of its statements, or of waiting for a lock. While the database cannot be
    reached every transaction is refused with Unavailable, and soon.
    """

    def __init__(
        self, url: str, *, connections: int = 10, seconds: float = 5.0
    ) -> None:
        self.engine = _engine(url, connections, seconds)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self.file = self.engine.url.database if self.is_sqlite else None
        snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._reader = self.engine.execution_options(
            payoff_read=True, **({} if self.is_sqlite else snapshot)
        )
        self.changes = Changes(self.reading)
        self.failures = 0  # statements that it did not answer
        self._breaker = CircuitBreaker()
        self._answered = True  # so that changes are logged once

    def reading(
        self, *, without_timeout: bool = False
    ) -> AbstractContextManager[Connection]:
        """A snapshot to read from; never waits for a writer. No time-out if `without_timeout`."""
        return self._begun(self._reader.connect, without_timeout=without_timeout)

    def writing(
        self, *, without_timeout: bool = False
    ) -> AbstractContextManager[Connection]:
        """A transaction, committed at the end and rolled back on an exception.

        On SQLite it holds the write lock from its first moment (BEGIN IMMEDIATE): a deferred
        transaction that turns writer half-way fails with "database is locked", whatever the
        time-out. No time-outs with `without_timeout`.
        """
        return self._begun(self.engine.begin, without_timeout=without_timeout)

    @contextmanager
    def _begun(
        self,
        begin: Callable[[], AbstractContextManager[Connection]],
        *,
        without_timeout: bool,
    ) -> Iterator[Connection]:
        if self._breaker.reason:  # else the call would do nothing
            self._breaker.admit(DatabaseAway)
        with self.translating(), begin() as connection:
            if not self._answered:
                self._answered = True
                self._breaker.reset()
                _log.warning("the database answers again")
            if without_timeout and not self.is_sqlite:
                _postgres().lift_limits(connection)
            yield connection

    @property
    def now(self) -> ColumnElement[float]:
        """The database's own clock in seconds since 1970: one clock for all who share it."""
        if self.is_sqlite:
            return literal_column("((julianday('now') - 2440587.5) * 86400.0)", Double)
        return cast(extract("epoch", func.clock_timestamp()), Double)

    def obstacle(self) -> str:
        """Why the database cannot be used, as a clause without names; empty where it answers and
        can be written.

        Takes a second at most. A SQLite file that was removed under its open connections does not
        answer.
        """
        is_standby: list[bool] = []

        def ask() -> None:
            # That of SQLite reads a page of the file, which opening it does not.
            query = (
                "SELECT count(*) < 0 FROM sqlite_master"
                if self.is_sqlite
                else "SELECT pg_is_in_recovery()"
            )
            with suppress(SQLAlchemyError, Unavailable), self.reading() as connection:
                is_standby.append(bool(connection.execute(text(query)).scalar()))

        asking = Thread(
            target=ask, daemon=True
        )  # it may hang for longer than the caller has time
        asking.start()
        asking.join(_ANSWER_SECONDS)
        if not is_standby or (self.file and not Path(self.file).exists()):
            return "the database does not answer"
        if is_standby[0]:
            return "the database is a standby, which cannot be written"
        obstacle = unwritable(self.file) if self.file else ""
        return f"the database cannot be written: {obstacle}" if obstacle else ""

    def wait(self, seconds: float) -> None:
        """Wait for a server that does not run yet; DatabaseAway after so many `seconds`.

        A file is not waited for, except that two connections that create it at the same moment find
        it locked, whatever their time-out.
        """
        until = monotonic() + seconds
        while True:
            try:
                with self.reading():
                    return
            except DatabaseAway as error:
                if monotonic() > until or (
                    self.is_sqlite and "locked" not in error.reason
                ):
                    raise
                sleep(_WAIT_SECONDS)

    def own_connection(self) -> Connection:
        """A connection outside of the pool, whose statements each commit themselves, for one thread
        to keep. It is to be used within `translating`.
        """
        self._breaker.admit(DatabaseAway)
        with self.translating():
            connection = self.engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            )
            connection.detach()
            return connection

    @property
    def driver(self) -> Any:
        """The module of the driver, with the classes of its errors."""
        return self.engine.dialect.loaded_dbapi

    def close(self) -> None:
        """Stop following changes, and close connections: idle ones now, those in use when their
        transactions end.
        """
        self.changes.stop()
        event.listen(
            self.engine, "checkin", lambda _connection, record: record.invalidate()
        )
        self.engine.dispose()

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Raise DatabaseAway where an error, SQLAlchemy's or the driver's, means that the database
        does not answer now; those of statements are raised as they are.
        """
        try:
            yield
        except (SQLAlchemyError, self.driver.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            is_away = isinstance(
                cause,
                NoConnectionFree
                | self.driver.OperationalError
                | self.driver.InterfaceError,
            )
            # SQLite raises this very class for a file that it cannot read.
            is_damaged = type(cause) is self.driver.DatabaseError
            is_lost = (
                getattr(error, "connection_invalidated", False)
                or getattr(cause, "sqlstate", None) == _READ_ONLY
            )
            if is_away or is_lost or is_damaged:
                raise self._away(cause) from error
            raise

    def _away(self, cause: BaseException | None) -> DatabaseAway:
        """Note that the database does not answer; returns the error to raise."""
        self.failures += 1
        if not self.is_sqlite and _postgres().is_silence(cause):
            self._breaker.trip("it did not answer a moment ago")
        obstacle = unwritable(self.file) if self.file else ""
        message = " ".join(str(cause).split())
        away = DatabaseAway(": ".join(filter(None, (self.file, obstacle, message))))
        if self._answered:
            _log.warning("the database does not answer: %s", away.reason)
            self._answered = False
        return away


def upsert(connection: Connection, table: Table) -> Any:
    """An INSERT with `on_conflict_do_update`, which both dialects have."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)


def _engine(url: str, connections: int, seconds: float) -> Engine:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: the port is no number
        raise Invalid(
            "PAYOFF_DATABASE is not a URL such as postgresql://user:password@host/name"
        ) from error
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        # Errors go to the log, and specs may contain secrets.
        engine = create_engine(parsed, hide_parameters=True)
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if kind not in {"postgresql", "postgres"}:
        raise Invalid(f"PAYOFF_DATABASE names {kind}: there are sqlite and postgresql")
    postgres = _postgres()
    engine = create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        hide_parameters=True,
        pool_pre_ping=True,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=_POOL_SECONDS,
        pool_use_lifo=True,  # connections of a busy hour become idle, and a proxy may close them
    )
    event.listen(
        engine,
        "do_connect",
        lambda _dialect, _record, _words, named: postgres.connect(named, seconds),
    )
    event.listen(
        engine,
        "reset",
        lambda connection, _record, _state: postgres.limit(connection, seconds),
    )
    return engine


def _postgres() -> ModuleType:
    try:
        from app.database import postgres  # noqa: PLC0415 - its client is an extra
    except ModuleNotFoundError as error:
        raise Invalid(
            "PAYOFF_DATABASE needs psycopg; in the clone: pip install -r requirements-scale.lock"
        ) from error
    return postgres


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # `_begin_sqlite` alone begins transactions
    for pragma in (
        f"busy_timeout={_BUSY_MS}",
        "synchronous=FULL",
        "foreign_keys=ON",
        "journal_mode=WAL",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    reading = connection.get_execution_options().get("payoff_read", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
