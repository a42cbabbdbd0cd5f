"""Versions that decide in the background where an alias is asked, and what they decided."""

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
        missed = "Decisions that a challenger did not make: it cannot keep up, or failed"
        self.dropped = Counter("payoff_shadow_dropped", missed, registry=None)
        self._of: Challengers = {}

    def start(self) -> None:
        self._database.changes.follow(_all, self._told)

    def of(self, reference: str) -> tuple[str, ...]:
        """The challengers, `name:version`, of `name@alias`; none for other references. No input or
        output.
        """
        return self._of.get(reference, ())

    def read(self, model: str) -> dict[str, list[str]]:
        """By alias of the model, as the database has them now."""
        of_model = select(SHADOWS.c.alias, SHADOWS.c.challengers).where(SHADOWS.c.model == model)
        with self._database.reading() as connection:
            return {row.alias: json.loads(row.challengers) for row in connection.execute(of_model)}

    def set(
        self, model: str, alias: str, challengers: Sequence[str], also: Callable[[Connection], None]
    ) -> None:
        """Replace them; `also` writes in the transaction, where anything changes."""
        where = (SHADOWS.c.model == model, SHADOWS.c.alias == alias)
        with self._database.writing() as connection:
            content = connection.execute(select(SHADOWS.c.challengers).where(*where)).scalar()
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
        """Those of the alias, or of all aliases of the model."""
        statement = delete(SHADOWS).where(SHADOWS.c.model == model)
        connection.execute(
            statement if alias is None else statement.where(SHADOWS.c.alias == alias)
        )

    def keep(
        self, ids: Sequence[str], challenger: str, model: str, day: int, choice: Sequence[int]
    ) -> None:
        """Store what a challenger chose for each decision; what is stored already stays.

        Left out are decisions that are no longer among the recent ones, such as erased ones.
        """
        common = {"challenger": challenger, "model": model, "day": day}
        chosen = dict(zip(ids, choice, strict=True))
        with self._database.writing() as connection:
            for some in chunks(ids):
                there = (
                    select(DECISIONS.c.id)
                    .where(DECISIONS.c.id.in_(some))
                    .with_for_update(read=True)
                )
                rows = [
                    {"id": id_, "choice": chosen[id_], **common}
                    for id_ in connection.execute(there).scalars()
                ]
                if rows:
                    connection.execute(
                        upsert(connection, SHADOW_DECISIONS).on_conflict_do_nothing(), rows
                    )

    def _told(self, challengers: Challengers) -> None:
        self._of = challengers


def _all(connection: Connection) -> Challengers:
    rows = connection.execute(select(SHADOWS.c.model, SHADOWS.c.alias, SHADOWS.c.challengers))
    return {f"{row.model}@{row.alias}": tuple(json.loads(row.challengers)) for row in rows}
