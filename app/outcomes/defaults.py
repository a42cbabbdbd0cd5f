"""Which models record their decisions without being asked to."""

from __future__ import annotations

from collections.abc import Callable
from time import time

from sqlalchemy import Connection, delete, insert, select

from app.database import Database
from app.outcomes.tables import RECORDING


class Defaults:
    """The table of these models, in memory, never older than a second while the database answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.models: dict[str, bool] = {}  # whether their instances are recorded, too
        self._unfollow: Callable[[], None] = lambda: None

    def start(self) -> None:
        """DatabaseAway where it cannot be read: nothing may go unrecorded because of that."""
        with self._database.reading() as connection:
            self._learn(_ask(connection))
        self._unfollow = self._database.changes.follow(_ask, self._learn)

    def stop(self) -> None:
        self._unfollow()

    def set(self, model: str, default: bool | None, also: Callable[[Connection], None]) -> None:
        """Change it, None for no default; `also` is called within the transaction."""
        with self._database.writing() as connection:
            self.remove(connection, model)
            if default is not None:
                row = {"model": model, "instances": default, "changed_at": time()}
                connection.execute(insert(RECORDING).values(row))
            also(connection)
            known = _ask(connection)
        self._database.changes.overtake(lambda: self._learn(known))

    def remove(self, connection: Connection, model: str) -> None:
        connection.execute(delete(RECORDING).where(RECORDING.c.model == model))

    def _learn(self, models: dict[str, bool]) -> None:
        self.models = models


def _ask(connection: Connection) -> dict[str, bool]:
    rows = connection.execute(select(RECORDING.c.model, RECORDING.c.instances))
    return {row.model: row.instances for row in rows}
