"""Connections to PostgreSQL that give up in time: a server that hangs or is cut off costs seconds,
not minutes.

The server ends statements that take too long. That does not help where it is the server, or the
network, that went silent: so a connection waits a little longer than that and is then closed.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection as Transaction
from sqlalchemy import text

from payoff.errors import Invalid

_CONNECT_SECONDS = 2  # the least that the client library knows
_GRACE_SECONDS = 1.0  # for the server's own word that a statement took too long
# A transaction may hold locks while its caller waits for a store, which takes half a minute.
_IDLE_SECONDS = 45.0
_KEEPALIVE = {
    "keepalives_idle": 5,  # seconds
    "keepalives_interval": 2,  # seconds
    "keepalives_count": 3,
}

_Result = TypeVar("_Result")


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time; the connection is closed."""


class Connection(psycopg.Connection[Any]):
    """Waits `timeout` seconds for the end of a command; for ever where it is None."""

    timeout: float | None = None

    def wait(
        self, gen: PQGen[_Result], interval: float = 0.1, timeout: float | None = None
    ) -> _Result:
        limit = self.timeout if timeout is None else timeout
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError as error:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise  # the server itself reported the error
            self.close()
            raise NoAnswer(f"no answer within {limit} s") from error


def connect(parameters: Mapping[str, Any], seconds: float) -> Connection:
    """Open a connection whose statements may take so many seconds, unless the URL sets a limit."""
    limits = {
        "statement_timeout": f"{seconds * 1000:.0f}",
        "lock_timeout": f"{seconds * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS * 1000:.0f}",
        # The server probes, too, for clients that vanish.
        **{f"tcp_{name}": value for name, value in _KEEPALIVE.items()},
    }
    options = " ".join(f"-c {name}={value}" for name, value in limits.items())
    options_of_client: dict[str, Any] = {
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "payoff",
        # Without it the texts of a cluster without an encoding would come as bytes.
        "client_encoding": "utf8",
        "tcp_user_timeout": int(2000 * seconds),
        **_KEEPALIVE,
        **parameters,
        "options": f"{options} {parameters.get('options', '')}".strip(),
    }
    try:
        connection = Connection.connect(**options_of_client)
    except psycopg.ProgrammingError as error:  # no server was called yet
        raise Invalid(f"PAYOFF_DATABASE cannot be used: {error}") from error
    limit(connection, seconds)
    return connection


def limit(connection: Connection, seconds: float) -> None:
    """Have a connection wait until the server itself reports that a statement took too long, and no
    longer.
    """
    connection.timeout = seconds + _GRACE_SECONDS


def lift_limits(transaction: Transaction) -> None:
    """Remove the time-outs of the rest of this transaction."""
    for setting in (
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
    ):
        transaction.execute(text(f"SET LOCAL {setting} = 0"))
    connection = transaction.connection.driver_connection
    assert isinstance(connection, Connection)
    connection.timeout = None


def is_silence(error: BaseException | None) -> bool:
    """Whether it took a time-out to notice that the server is away."""
    return isinstance(error, NoAnswer | psycopg.errors.ConnectionTimeout)
