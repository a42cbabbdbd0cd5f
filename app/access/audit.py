"""Who changed what, written in the transaction of the change itself."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, event, insert, select

from app.access.caller import Caller
from app.access.tables import AUDIT_LOG
from app.database.engine import Database
from app.database.pages import SEQUENCE_NUMBER, page_of, place_of

Write = Callable[[Connection], None]

_log = structlog.get_logger("payoff.audit")


@dataclass(frozen=True)
class Entry:
    """A change.

    `who` is the name of the key that made it and `client` its id, `action` is for example
    `alias.set`, and `subject` is what was changed, as `heart@champion`.
    """

    seq: int
    at: float
    who: str
    client: str | None
    action: str
    subject: str
    details: dict[str, Any]


class AuditLog:
    """Entries are added, never changed or removed.

    They hold names and numbers, no payloads and no keys. Each entry is also a line of the log.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def entry(self, caller: Caller, action: str, subject: str, **details: Any) -> Write:
        """A function that writes the entry; call it within the change's transaction, after it."""

        def write(connection: Connection) -> None:
            self._add(connection, caller.name, caller.client, action, subject, details)

        return write

    def published(self, connection: Connection, job: str, subject: str) -> None:
        """Enter a version under the name of the key that ordered its job."""
        submission = select(AUDIT_LOG.c.who, AUDIT_LOG.c.client).where(
            AUDIT_LOG.c.subject == job, AUDIT_LOG.c.action == "job.submit"
        )
        row = connection.execute(submission).first()
        # A job may have been ordered before there was an audit log.
        name, client = ("unknown", None) if row is None else row
        self._add(connection, name, client, "version.publish", subject, {"job": job})

    def page(self, size: int, token: str | None) -> tuple[list[Entry], str | None]:
        """Entries, newest first, and the token of the next page, None at the end."""
        statement = select(AUDIT_LOG).order_by(AUDIT_LOG.c.seq.desc()).limit(size + 1)
        place = place_of(token, SEQUENCE_NUMBER)
        if place is not None:
            statement = statement.where(AUDIT_LOG.c.seq < int(place))
        with self._database.reading() as connection:
            rows = connection.execute(statement).mappings().all()
        entries = [
            Entry(**{**row, "details": json.loads(row["details"])}) for row in rows
        ]
        return page_of(entries, size, lambda entry: entry.seq)

    def _add(
        self,
        connection: Connection,
        name: str,
        client: str | None,
        action: str,
        subject: str,
        details: dict[str, Any],
    ) -> None:
        values = {"who": name, "client": client, "action": action, "subject": subject}
        connection.execute(
            insert(AUDIT_LOG).values(
                at=self._database.now, details=json.dumps(details), **values
            )
        )

        def log(_connection: Connection) -> None:
            _log.info("audit", **values, details=details)

        event.listen(connection, "commit", log, once=True)
