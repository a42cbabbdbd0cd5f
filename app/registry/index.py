"""The versions and aliases that exist, and since when: the truth, in SQL.

Every change that readers see raises the one revision number first. Its row's lock makes writers of
all processes queue, and the number shows readers that their view is old.

A number is given once, to one attempt at a job, which alone writes the folder `<name>/<number>`.
Until the transaction that ends the job publishes it, and again once it is deleted, the number is in
`unpublished`. Two facts never become false again: a job has ended, and after that a number of it is
unpublished. So a process that knows both may remove the folder at any later moment, however long it
was suspended in between.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    case,
    delete,
    func,
    insert,
    select,
    union_all,
    update,
)

from app.database.engine import Database, upsert
from app.database.pages import matches
from app.errors import Conflict
from app.registry.card import Card, read_card
from app.registry.snapshot import Key, Snapshot, absent
from app.registry.tables import aliases, history, models, state, unpublished, versions

Also = Callable[[Connection], object]

_CARDS = 50  # read at a time; a card may have megabytes
_CHANGED = update(state).values(revision=state.c.revision + 1)
_UNPUBLISHED = (versions.c.name, versions.c.version, versions.c.job)


class Unpublished(NamedTuple):
    """A number that a job took, and that names no published version."""

    name: str
    version: int
    job: str | None


@dataclass(frozen=True)
class Move:
    """One line of the alias history: `alias` went from one version to another, null for none. `who`
    is the name of the API key.
    """

    at: datetime
    who: str
    alias: str
    from_version: int | None
    to_version: int | None


@dataclass(frozen=True)
class ModelLine:
    """A model in the list of models; versions newest first. `latest` is the version that the bare
    name means; null if all were deleted.
    """

    name: str
    latest: int | None
    versions: list[int]
    aliases: dict[str, int]


@dataclass(frozen=True)
class VersionLine:
    """A version in the list of a model's versions: `kind` of the learner, and those metrics that
    are single values.
    """

    version: int
    kind: str
    created_at: datetime
    metrics: dict[str, Any]


@dataclass(frozen=True)
class ModelPage:
    """All about one model; versions newest first, history oldest first."""

    name: str
    versions: list[VersionLine]
    aliases: dict[str, int]
    history: list[Move]


def write_nothing(_connection: Connection) -> None:
    """Write nothing else in a change's transaction."""


class Index:
    """Reads and changes of the index. `also` writes in the transaction of a change, and may raise
    to prevent it.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def take_number(
        self, name: str, job: str | None, above: int, also: Also = write_nothing
    ) -> tuple[int, float]:
        """The next number of a model, greater than `above` and never given before, and the time by
        the database.
        """
        with self.database.writing() as connection:
            row = upsert(connection, models).values(
                name=name, next_version=above + 2, listed=False
            )
            upserted = row.on_conflict_do_update(
                index_elements=[models.c.name],
                set_={"next_version": _at_least(above + 1) + 1},
            )
            number: int = (
                connection.execute(
                    upserted.returning(models.c.next_version)
                ).scalar_one()
                - 1
            )
            connection.execute(
                insert(unpublished).values(name=name, version=number, job=job)
            )
            also(connection)
            return number, connection.execute(select(self.database.now)).scalar_one()

    def add(self, connection: Connection, card: Card) -> None:
        """Publish a version in the caller's transaction; Conflict where its number was not taken,
        or is used up.
        """
        connection.execute(_CHANGED)
        reservation = delete(unpublished).where(_is(unpublished, card.key))
        if not connection.execute(reservation).rowcount:
            raise Conflict(
                f"version {card.version} of {card.name!r} was not staged, or is published already"
            )
        connection.execute(
            update(models).where(models.c.name == card.name).values(listed=True)
        )
        _insert_version(connection, card, card.to_bytes())

    def set_alias(
        self,
        name: str,
        alias: str,
        version: int,
        key_name: str,
        also: Also = write_nothing,
    ) -> None:
        """Point `alias` at a version, unless it points there already. NotFound without that
        version.
        """
        with self._changing() as connection:
            published = select(versions.c.job).where(_is(versions, (name, version)))
            if connection.execute(published).first() is None:
                raise absent(f"{name}:{version}")
            before = _target(connection, name, alias)
            if before == version:
                return
            row = upsert(connection, aliases).values(
                name=name, alias=alias, version=version
            )
            connection.execute(
                row.on_conflict_do_update(
                    index_elements=[aliases.c.name, aliases.c.alias],
                    set_={"version": row.excluded.version},
                )
            )
            self._remember(connection, name, alias, key_name, before, version)
            also(connection)

    def delete_alias(
        self, name: str, alias: str, key_name: str, also: Also = write_nothing
    ) -> None:
        """NotFound where there is none."""
        with self._changing() as connection:
            before = _target(connection, name, alias)
            if before is None:
                raise absent(f"{name}@{alias}")
            connection.execute(
                delete(aliases).where(aliases.c.name == name, aliases.c.alias == alias)
            )
            self._remember(connection, name, alias, key_name, before, None)
            also(connection)

    def delete_version(
        self, name: str, version: int, also: Also = write_nothing
    ) -> None:
        """NotFound where there is none, Conflict while an alias points at it."""
        with self._changing() as connection:
            pointing = select(aliases.c.alias).where(_is(aliases, (name, version)))
            names = sorted(connection.execute(pointing).scalars())
            if names:
                raise Conflict(
                    f"{name}@{names[0]} points at version {version} ({len(names)} such aliases):"
                    " move it first"
                )
            if not _unpublish(connection, _is(versions, (name, version))):
                raise absent(f"{name}:{version}")
            also(connection)

    def delete_model(
        self, name: str, key_name: str, also: Also = write_nothing
    ) -> list[int]:
        """The model with its versions, whose numbers are returned, and aliases. The counter and the
        history stay.
        """
        with self._changing() as connection:
            check_listed(connection, name)
            connection.execute(
                update(models).where(models.c.name == name).values(listed=False)
            )
            pointing = select(aliases.c.alias, aliases.c.version).where(
                aliases.c.name == name
            )
            for alias, version in connection.execute(pointing).all():
                self._remember(connection, name, alias, key_name, version, None)
            connection.execute(delete(aliases).where(aliases.c.name == name))
            deleted = _unpublish(connection, versions.c.name == name)
            also(connection)
            return deleted

    def known(self) -> set[Key]:
        """The numbers that were given, as far as they have, or may have, a folder."""
        with self.database.reading() as connection:
            return _known(connection)

    def fill(self, cards: Iterable[tuple[Card, bytes]], highest: dict[str, int]) -> int:
        """Publish the unknown versions; returns their number. `highest` are the greatest numbers of
        the models' folders.
        """
        with self._changing(without_timeout=True) as connection:
            known = _known(connection)
            new = [(card, content) for card, content in cards if card.key not in known]
            listed = {card.name for card, _ in new}
            for name, number in highest.items():
                row = upsert(connection, models).values(
                    name=name, next_version=number + 1, listed=name in listed
                )
                changes = {
                    "next_version": _at_least(number + 1),
                    "listed": models.c.listed | row.excluded.listed,
                }
                connection.execute(
                    row.on_conflict_do_update(
                        index_elements=[models.c.name], set_=changes
                    )
                )
            for card, content in new:
                _insert_version(connection, card, content)
            return len(new)

    def forget(self, key: Key) -> None:
        """Delete an unpublished number whose folder was removed."""
        with self.database.writing() as connection:
            connection.execute(delete(unpublished).where(_is(unpublished, key)))

    def unpublished(self) -> list[Unpublished]:
        with self.database.reading() as connection:
            rows = connection.execute(
                select(unpublished).order_by(unpublished.c.name, unpublished.c.version)
            )
            return [Unpublished(**row) for row in rows.mappings()]

    def is_unpublished(self, key: Key) -> bool:
        with self.database.reading() as connection:
            query = select(unpublished).where(_is(unpublished, key))
            return connection.execute(query).first() is not None

    def revision(self, connection: Connection) -> int:
        return connection.execute(select(state.c.revision)).scalar_one()

    def snapshot(self, known: Snapshot) -> Snapshot:
        """The versions and aliases that exist, O(their number), or the `known` snapshot if it is
        up to date.
        """
        with self.database.reading() as connection:
            revision = self.revision(
                connection
            )  # first: what is read after it is not older
            if revision == known.revision:
                return known
            columns = (
                versions.c.name,
                versions.c.version,
                versions.c.sha256,
                versions.c.bytes,
            )
            rows = connection.execute(select(*columns)).all()
            pointing = connection.execute(
                select(aliases.c.name, aliases.c.alias, aliases.c.version)
            ).all()
            return Snapshot.of(
                revision,
                {(row.name, row.version): row.sha256 for row in rows},
                {(row.name, row.version): row.bytes for row in rows},
                [(row.name, row.alias, row.version) for row in pointing],
            )

    def models(
        self, after: str, limit: int, patterns: Sequence[str] = ()
    ) -> list[ModelLine]:
        """At most `limit` models after the name `after` (`""`: from the first), that match a
        pattern, if any.
        """
        page = (
            select(models.c.name)
            .where(models.c.listed, models.c.name > after)
            .order_by(models.c.name)
        )
        if patterns:
            page = page.where(matches(models.c.name, patterns))
        numbers: dict[str, list[int]] = defaultdict(list)
        pointing: dict[str, dict[str, int]] = defaultdict(dict)
        with self.database.reading() as connection:
            names = list(connection.execute(page.limit(limit)).scalars())
            of_names = select(versions.c.name, versions.c.version).where(
                versions.c.name.in_(names)
            )
            for name, version in connection.execute(
                of_names.order_by(versions.c.version.desc())
            ):
                numbers[name].append(version)
            aliases_of_names = select(
                aliases.c.name, aliases.c.alias, aliases.c.version
            ).where(aliases.c.name.in_(names))
            for name, alias, version in connection.execute(
                aliases_of_names.order_by(aliases.c.alias)
            ):
                pointing[name][alias] = version
        return [
            ModelLine(
                name, max(numbers[name], default=None), numbers[name], pointing[name]
            )
            for name in names
        ]

    def model(self, name: str) -> ModelPage:
        """NotFound where there is no such model; one whose versions were all deleted is there, and
        empty.
        """
        columns = (
            versions.c.version,
            versions.c.kind,
            versions.c.created_at,
            versions.c.metrics,
        )
        newest = (
            select(*columns)
            .where(versions.c.name == name)
            .order_by(versions.c.version.desc())
        )
        pointing = (
            select(aliases.c.alias, aliases.c.version)
            .where(aliases.c.name == name)
            .order_by(aliases.c.alias)
        )
        fields = [history.c[field] for field in Move.__dataclass_fields__]
        moves = select(*fields).where(history.c.name == name).order_by(history.c.seq)
        with self.database.reading() as connection:
            check_listed(connection, name)
            return ModelPage(
                name,
                [
                    VersionLine(
                        row.version,
                        row.kind,
                        _time(row.created_at),
                        json.loads(row.metrics),
                    )
                    for row in connection.execute(newest)
                ],
                {row.alias: row.version for row in connection.execute(pointing)},
                [
                    Move(**{**row, "at": _time(row["at"])})
                    for row in connection.execute(moves).mappings()
                ],
            )

    def card(self, name: str, version: int) -> Card:
        """The card as it was published; NotFound where there is no such model or version."""
        query = select(versions.c.card).where(
            versions.c.name == name, versions.c.version == version
        )
        with self.database.reading() as connection:
            text: str | None = connection.execute(query).scalar()
        if text is None:
            raise absent(f"{name}:{version}")
        return read_card(text.encode())

    def datasets(self) -> set[str]:
        """The data sets that the cards of published versions name; O(bytes of all cards)."""
        with self.database.reading(without_timeout=True) as connection:
            cards = connection.execute(
                select(versions.c.card).execution_options(yield_per=_CARDS)
            ).scalars()
            names = {json.loads(card)["data"].get("dataset") for card in cards}
            return names - {None, ""}

    @contextmanager
    def _changing(self, *, without_timeout: bool = False) -> Iterator[Connection]:
        with self.database.writing(without_timeout=without_timeout) as connection:
            connection.execute(_CHANGED)
            yield connection

    def _remember(
        self,
        connection: Connection,
        name: str,
        alias: str,
        key_name: str,
        before: int | None,
        after: int | None,
    ) -> None:
        last = select(func.coalesce(func.max(history.c.seq), 0)).where(
            history.c.name == name
        )
        move = {
            "alias": alias,
            "who": key_name,
            "from_version": before,
            "to_version": after,
        }
        row = insert(history).values(
            name=name, seq=last.scalar_subquery() + 1, at=self.database.now, **move
        )
        connection.execute(row)


def check_listed(connection: Connection, name: str) -> None:
    """NotFound where no version was ever published under `name`, or none since the model was
    deleted.
    """
    listed = select(models.c.name).where(models.c.listed, models.c.name == name)
    if connection.execute(listed).first() is None:
        raise absent(name)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _is(table: Table, key: Key) -> ColumnElement[bool]:
    return and_(table.c.name == key[0], table.c.version == key[1])


def _at_least(number: int) -> ColumnElement[int]:
    """The model's next version, but at least this one."""
    return case((models.c.next_version < number, number), else_=models.c.next_version)


def _target(connection: Connection, name: str, alias: str) -> int | None:
    pointing = select(aliases.c.version).where(
        aliases.c.name == name, aliases.c.alias == alias
    )
    return connection.execute(pointing).scalar()


def _known(connection: Connection) -> set[Key]:
    tables = (
        select(table.c.name, table.c.version) for table in (versions, unpublished)
    )
    return {(row.name, row.version) for row in connection.execute(union_all(*tables))}


def _unpublish(connection: Connection, condition: ColumnElement[bool]) -> list[int]:
    """Delete the versions that satisfy the condition; returns their numbers."""
    deleted = [
        dict(row)
        for row in connection.execute(
            delete(versions).where(condition).returning(*_UNPUBLISHED)
        ).mappings()
    ]
    if deleted:
        connection.execute(insert(unpublished), deleted)
    return [row["version"] for row in deleted]


def _insert_version(connection: Connection, card: Card, content: bytes) -> None:
    scalars = {
        name: value
        for name, value in card.metrics.items()
        if isinstance(value, int | float | str)
    }
    connection.execute(
        insert(versions).values(
            name=card.name,
            version=card.version,
            sha256=hashlib.sha256(content).hexdigest(),
            bytes=card.loaded_bytes,
            job=card.job,
            kind=card.learner.kind,
            metrics=json.dumps(scalars),
            created_at=card.created_at.timestamp(),
            card=content.decode(),
        )
    )
