"""Which versions and aliases exist: the truth is in SQL, and each change is mirrored into the registry's folder.

Every change begins with the row of the one revision number. Its lock makes writers of all processes queue, and the
number, raised by changes that readers see, shows them that their snapshot is old. No change waits for the store: index
files are written after the commit (see mirroring.py). A version is announced there before it is published, so that the
folder never lacks a version that the database has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from app.database import Database
from app.errors import Conflict
from app.registry import reservations
from app.registry.card import Card
from app.registry.listing import alias_history, need_model
from app.registry.mirror import Mirror
from app.registry.mirroring import count_change
from app.registry.reservations import NumberUnusable
from app.registry.snapshot import Key, Snapshot, unknown_alias, unknown_version
from app.registry.tables import aliases, history, mirrors, models, state, versions


class Position(NamedTuple):
    """Differs after every change, seen by readers (`revision`) or not (`changes`)."""

    revision: int
    changes: int
    up_to_date: bool  # all index files


_CARDS = 50  # read at a time; a card may have megabytes


class Index:
    """Reads and changes of the index; each change happens inside the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upsert = sqlite.insert if database.is_sqlite else postgresql.insert

    def reserve(self, connection: Connection, name: str, job: str, attempt: int) -> int:
        """The next version number of `name`, never given before and never again, for one attempt at a job."""
        with self._hidden_change(connection, name):
            row = self._upsert(models).values(name=name, next_version=2, listed=False)
            counted = row.on_conflict_do_update(
                index_elements=[models.c.name], set_={"next_version": models.c.next_version + 1}
            )
            number: int = connection.execute(counted.returning(models.c.next_version)).scalar_one() - 1
            reservations.reserve(connection, (name, number), job, attempt)
            return number

    def announce(self, connection: Connection, card: Card, content: bytes) -> None:
        """From here on the index file lists the version. NumberUnusable where its number is not reserved."""
        with self._hidden_change(connection, card.name):
            reservations.announce(connection, (card.name, card.version), hashlib.sha256(content).hexdigest())

    def add(self, connection: Connection, card: Card) -> None:
        """Publish an announced version. NumberUnusable where it is published already, or not reserved any more."""
        content = card.to_bytes()
        self._raise_revision(connection)  # the index file has the version already
        if self.has(connection, (card.name, card.version)):
            raise NumberUnusable(f"version {card.version} of {card.name!r} is published already")
        reservations.use_up(connection, (card.name, card.version), hashlib.sha256(content).hexdigest())
        connection.execute(update(models).where(models.c.name == card.name).values(listed=True))
        self._insert_version(connection, card, content)

    def give_up(self, connection: Connection, key: Key) -> bool:
        """Rule out that a number is ever published; False where it is not reserved, Conflict where it is published."""
        self.lock(connection)
        if self.has(connection, key):
            raise Conflict(f"version {key[1]} of {key[0]!r} is published; delete it instead")
        if not reservations.is_reserved(connection, key):
            return False
        if key[1] in reservations.announced(connection, key[0]):
            count_change(connection, key[0])
        reservations.give_up(connection, key)
        return True

    def set_alias(self, connection: Connection, name: str, alias: str, version: int, who: str) -> bool:
        """Point `alias` at a version; False where it points there already. NotFound without that version."""
        with self._change(connection, name):
            self.need(connection, (name, version))
            before = self._target(connection, name, alias)
            if before == version:
                return False
            row = self._upsert(aliases).values(name=name, alias=alias, version=version)
            connection.execute(
                row.on_conflict_do_update(
                    index_elements=[aliases.c.name, aliases.c.alias], set_={"version": row.excluded.version}
                )
            )
            self._remember(connection, name, alias, who, before, version)
            return True

    def delete_alias(self, connection: Connection, name: str, alias: str, who: str) -> None:
        """NotFound where there is none."""
        with self._change(connection, name):
            before = self._target(connection, name, alias)
            if before is None:
                need_model(connection, name)
                raise unknown_alias(name, alias)
            connection.execute(delete(aliases).where(aliases.c.name == name, aliases.c.alias == alias))
            self._remember(connection, name, alias, who, before, None)

    def delete_version(self, connection: Connection, key: Key) -> None:
        """NotFound where there is none, Conflict while an alias points at it."""
        name, version = key
        with self._change(connection, name):
            self.need(connection, key)
            pointing = select(aliases.c.alias).where(aliases.c.name == name, aliases.c.version == version)
            names = sorted(connection.execute(pointing).scalars())
            if names:
                raise Conflict(
                    f"{name}@{names[0]} points at version {version} ({len(names)} such aliases): move it first"
                )
            connection.execute(delete(versions).where(versions.c.name == name, versions.c.version == version))

    def delete_model(self, connection: Connection, name: str, who: str) -> list[int]:
        """The model with its versions, whose numbers are returned, and aliases. The counter and the history stay."""
        with self._change(connection, name):
            need_model(connection, name)
            connection.execute(update(models).where(models.c.name == name).values(listed=False))
            deleted = list(connection.execute(select(versions.c.version).where(versions.c.name == name)).scalars())
            for alias, version in connection.execute(
                select(aliases.c.alias, aliases.c.version).where(aliases.c.name == name)
            ).all():
                self._remember(connection, name, alias, who, version, None)
            connection.execute(delete(aliases).where(aliases.c.name == name))
            connection.execute(delete(versions).where(versions.c.name == name))
            return deleted

    def has(self, connection: Connection, key: Key) -> bool:
        found = select(versions.c.version).where(versions.c.name == key[0], versions.c.version == key[1])
        return connection.execute(found).first() is not None

    def need(self, connection: Connection, key: Key) -> None:
        if not self.has(connection, key):
            need_model(connection, key[0])
            raise unknown_version(*key)

    def is_empty(self, connection: Connection) -> bool:
        return connection.execute(select(models.c.name).limit(1)).first() is None

    def revision(self, connection: Connection) -> int:
        number: int = connection.execute(select(state.c.revision)).scalar_one()
        return number

    def snapshot(self, connection: Connection) -> Snapshot:
        """Everything that can be referred to; O(number of versions and aliases)."""
        revision = self.revision(connection)  # first: what is read after it is not older
        digests = {
            (row.name, row.version): row.sha256
            for row in connection.execute(select(versions.c.name, versions.c.version, versions.c.sha256))
        }
        pointing = connection.execute(select(aliases.c.name, aliases.c.alias, aliases.c.version)).all()
        return Snapshot.of(revision, digests, [(row.name, row.alias, row.version) for row in pointing])

    def datasets(self, connection: Connection) -> set[str]:
        """The data sets that the cards of published versions name; O(bytes of all cards)."""
        cards = connection.execute(select(versions.c.card).execution_options(yield_per=_CARDS)).scalars()
        return {named for card in cards if (named := json.loads(card)["data"].get("dataset"))}

    def clear(self, connection: Connection) -> None:
        """Delete all but reservations, as the first step of a rebuild; writers of other processes wait from here on."""
        self._raise_revision(connection)
        for table in (history, aliases, versions, models):
            connection.execute(delete(table))

    def restore(self, connection: Connection, mirror: Mirror, cards: list[tuple[Card, bytes]]) -> None:
        """Restore one model from its folder; aliases of missing versions are omitted."""
        connection.execute(insert(models).values(mirror.model_dump(include={"name", "next_version", "listed"})))
        reservations.remove(connection, mirror.name, [card.version for card, _ in cards])
        for card, content in cards:
            self._insert_version(connection, card, content)
        there = {card.version for card, _ in cards}
        for alias, version in mirror.aliases.items():
            if version in there:
                connection.execute(insert(aliases).values(name=mirror.name, alias=alias, version=version))
        if mirror.history:
            connection.execute(insert(history), [{**dict(move), "name": mirror.name} for move in mirror.history])

    def mirrored(self, connection: Connection, name: str) -> Mirror:
        """All that the index knows of a reserved name and its version folders do not, as the index file has it: with
        the versions that are about to be published.
        """
        row = connection.execute(select(models).where(models.c.name == name)).one()
        numbers = set(connection.execute(select(versions.c.version).where(versions.c.name == name)).scalars())
        numbers |= set(reservations.announced(connection, name))
        pointing = select(aliases.c.alias, aliases.c.version).where(aliases.c.name == name)
        return Mirror(
            name=name,
            next_version=row.next_version,
            listed=row.listed or bool(numbers),
            versions=sorted(numbers),
            aliases={row.alias: row.version for row in connection.execute(pointing)},
            history=alias_history(connection, name),
        )

    @contextmanager
    def _change(self, connection: Connection, name: str) -> Iterator[None]:
        self._raise_revision(connection)
        yield
        count_change(connection, name)

    @contextmanager
    def _hidden_change(self, connection: Connection, name: str) -> Iterator[None]:
        """One that no reader sees."""
        self.lock(connection)
        yield
        count_change(connection, name)

    def lock(self, connection: Connection) -> None:
        """Let all other writers wait until the transaction ends."""
        connection.execute(select(state.c.revision).with_for_update())

    def position(self, connection: Connection) -> Position:
        counts = select(func.coalesce(func.sum(mirrors.c.changed), 0), func.coalesce(func.sum(mirrors.c.written), 0))
        changed, written = connection.execute(counts).one()
        return Position(self.revision(connection), int(changed), bool(changed == written))

    def _raise_revision(self, connection: Connection) -> None:
        connection.execute(update(state).values(revision=state.c.revision + 1))

    def _target(self, connection: Connection, name: str, alias: str) -> int | None:
        pointing = select(aliases.c.version).where(aliases.c.name == name, aliases.c.alias == alias)
        return connection.execute(pointing).scalar()

    def _insert_version(self, connection: Connection, card: Card, content: bytes) -> None:
        scalars = {name: value for name, value in card.metrics.items() if isinstance(value, int | float | str)}
        connection.execute(
            insert(versions).values(
                name=card.name,
                version=card.version,
                sha256=hashlib.sha256(content).hexdigest(),
                job=card.job,
                kind=card.learner.kind,
                metrics=json.dumps(scalars),
                created_at=card.created_at.timestamp(),
                card=content.decode(),
            )
        )

    def _remember(
        self, connection: Connection, name: str, alias: str, who: str, before: int | None, after: int | None
    ) -> None:
        last = select(func.coalesce(func.max(history.c.seq), 0)).where(history.c.name == name)
        connection.execute(
            insert(history).values(
                name=name,
                seq=last.scalar_subquery() + 1,
                at=self._database.now,
                who=who,
                alias=alias,
                from_version=before,
                to_version=after,
            )
        )
