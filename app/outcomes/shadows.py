"""Challengers: versions that decide in the background on the requests to an alias, and their
choices.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import Counter
from sqlalchemy import Connection, delete, insert, select

from app.database.engine import Database, upsert
from app.outcomes.rows import chunks
from app.outcomes.tables import DECISIONS, SHADOW_DECISIONS, SHADOWS

Challengers = Mapping[str, tuple[str, ...]]


class Shadows:
    """The challengers of each alias, in memory, up to date within a second from `start` on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        text = "Decisions that a challenger did not make: it cannot keep up, or failed"
        self.dropped = Counter("payoff_shadow_dropped", text, registry=None)
        self._by_reference: Challengers = {}

    def start(self) -> None:
        self._database.changes.follow(_challengers, self._update)

    def of(self, reference: str) -> tuple[str, ...]:
        """The challengers (`name:version`) of `name@alias`, from memory; else none."""
        return self._by_reference.get(reference, ())

    def read(self, model: str) -> dict[str, list[str]]:
        """The challengers of a model by alias, from the database."""
        of_model = select(SHADOWS.c.alias, SHADOWS.c.challengers).where(
            SHADOWS.c.model == model
        )
        with self._database.reading() as connection:
            return {
                row.alias: json.loads(row.challengers)
                for row in connection.execute(of_model)
            }

    def set(
        self,
        model: str,
        alias: str,
        challengers: Sequence[str],
        also: Callable[[Connection], None],
    ) -> None:
        """Replace the challengers of an alias; `also` writes in the transaction, if they change."""
        where = (SHADOWS.c.model == model, SHADOWS.c.alias == alias)
        with self._database.writing() as connection:
            content = connection.execute(
                select(SHADOWS.c.challengers).where(*where)
            ).scalar()
            if (json.loads(content) if content else []) == list(challengers):
                return
            connection.execute(delete(SHADOWS).where(*where))
            if challengers:
                values = {
                    "model": model,
                    "alias": alias,
                    "challengers": json.dumps(list(challengers)),
                }
                connection.execute(insert(SHADOWS).values(values))
            also(connection)

    @staticmethod
    def remove(connection: Connection, model: str, alias: str | None = None) -> None:
        """Remove the challengers of the alias, or of all aliases of the model."""
        statement = delete(SHADOWS).where(SHADOWS.c.model == model)
        if alias is not None:
            statement = statement.where(SHADOWS.c.alias == alias)
        connection.execute(statement)

    def keep(
        self,
        ids: Sequence[str],
        challenger: str,
        model: str,
        day: int,
        choice: Sequence[int],
    ) -> None:
        """Store a challenger's choice for each decision; choices that are stored already stay.

        Leaves out decisions that are no longer in the database, such as erased ones.
        """
        common = {"challenger": challenger, "model": model, "day": day}
        choices = dict(zip(ids, choice, strict=True))
        column = DECISIONS.c.id
        with self._database.writing() as connection:
            for chunk in chunks(ids):
                recent = (
                    select(column).where(column.in_(chunk)).with_for_update(read=True)
                )
                rows = [
                    {"id": id_, "choice": choices[id_], **common}
                    for id_ in connection.execute(recent).scalars()
                ]
                if rows:
                    insertion = upsert(
                        connection, SHADOW_DECISIONS
                    ).on_conflict_do_nothing()
                    connection.execute(insertion, rows)

    def _update(self, challengers: Challengers) -> None:
        self._by_reference = challengers


def _challengers(connection: Connection) -> Challengers:
    rows = connection.execute(
        select(SHADOWS.c.model, SHADOWS.c.alias, SHADOWS.c.challengers)
    )
    return {
        f"{row.model}@{row.alias}": tuple(json.loads(row.challengers)) for row in rows
    }
