"""Keep each model's index file equal to the index, without holding a transaction while the store is written.

A change counts itself in the row of its model (`changed`). The writer of the file confirms afterwards the count that
it read before (`written`), and begins again if another change came in between: of several writers at once the last one
to confirm has written the newest content. A count that is not confirmed, as after a failure of the store or the death
of a writer, is made up for later by any process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from app.database import Database
from app.errors import PayoffError
from app.registry.mirror import Mirror
from app.registry.tables import mirrors

_ROUNDS = 10  # of writing again, since another change came in between; its author writes as well

_log = logging.getLogger(__name__)


def count_change(connection: Connection, name: str) -> None:
    """Note in the transaction of a change that the model's index file is behind from its commit on."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    row = insert(mirrors).values(name=name, changed=1, written=0)
    connection.execute(
        row.on_conflict_do_update(index_elements=[mirrors.c.name], set_={"changed": mirrors.c.changed + 1})
    )


def behind(connection: Connection) -> list[str]:
    """The models whose index file may be older than the index."""
    found = select(mirrors.c.name).where(mirrors.c.written < mirrors.c.changed).order_by(mirrors.c.name)
    return list(connection.execute(found).scalars())


class Mirroring:
    """Writes index files: `read` gives one's content in a transaction, `write` stores it."""

    def __init__(
        self, database: Database, read: Callable[[Connection, str], Mirror], write: Callable[[Mirror], None]
    ) -> None:
        self._database = database
        self._read = read
        self._write = write

    def update(self, name: str) -> None:
        """Bring one index file up to date; Unavailable where the store or the database does not answer."""
        for _ in range(_ROUNDS):
            with self._database.reading() as connection:
                count = connection.execute(select(mirrors.c.changed).where(mirrors.c.name == name)).scalar()
                if count is None:
                    return
                mirror = self._read(connection, name)
            self._write(mirror)
            with self._database.writing() as connection:
                current = update(mirrors).where(mirrors.c.name == name, mirrors.c.changed == count)
                if connection.execute(current.values(written=count)).rowcount:
                    return

    def try_to_update(self, name: str) -> None:
        """The same after a change that is committed: where it fails now it is made up for later."""
        try:
            self.update(name)
        except (PayoffError, SQLAlchemyError, OSError) as error:
            _log.warning("the index file of %s is behind and will be written later: %s", name, error)

    def catch_up(self) -> int:
        """Bring all index files up to date that are behind; how many there were. Unavailable as for `update`."""
        with self._database.reading() as connection:
            names = behind(connection)
        for name in names:
            self.update(name)
        return len(names)
