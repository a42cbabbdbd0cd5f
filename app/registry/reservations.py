"""Numbers of versions that were given to an attempt at a job, and are not published.

A number is given once, to one attempt, and only that attempt writes the folder of that number. Two facts can only
become true and never false again: an attempt is over, and a number is given up. So a process that knows one of them may
remove the folder at any later moment, however long it was suspended in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from app.errors import Conflict
from app.registry.snapshot import Key
from app.registry.tables import models, reservations, versions


class NumberUnusable(Conflict):
    """A version number that cannot be published any more"""


@dataclass(frozen=True)
class Reservation:
    """The number `version` of the model `name`, given to the attempt `attempt` at `job`."""

    name: str
    version: int
    job: str
    attempt: int
    given_up: bool

    @property
    def key(self) -> Key:
        return self.name, self.version


def reserve(connection: Connection, key: Key, job: str, attempt: int) -> None:
    row = {"name": key[0], "version": key[1], "job": job, "attempt": attempt, "given_up": False}
    connection.execute(insert(reservations).values(row))


def announce(connection: Connection, key: Key, digest: str) -> None:
    """Store the digest of the card that will be published; NumberUnusable where its number is not reserved."""
    alive = and_(_is(key), reservations.c.given_up.is_(False))
    if not connection.execute(update(reservations).where(alive).values(sha256=digest)).rowcount:
        raise NumberUnusable(f"version {key[1]} of {key[0]!r} was not reserved")


def use_up(connection: Connection, key: Key, digest: str) -> None:
    """Remove the reservation of a version that is being published; NumberUnusable unless this card was announced."""
    row = connection.execute(select(reservations).where(_is(key), reservations.c.given_up.is_(False))).first()
    if row is None:
        raise NumberUnusable(f"version {key[1]} of {key[0]!r} was not reserved")
    if row.sha256 != digest:
        raise NumberUnusable(f"{key[0]}/{key[1]} was not announced, or with another card")
    connection.execute(delete(reservations).where(_is(key)))


def is_reserved(connection: Connection, key: Key) -> bool:
    """Whether the number was given to an attempt and not published, given up or not."""
    return connection.execute(select(reservations.c.version).where(_is(key))).first() is not None


def give_up(connection: Connection, key: Key) -> None:
    """Rule out that a reserved number is ever published."""
    connection.execute(update(reservations).where(_is(key)).values(given_up=True, sha256=None))


def reserved(connection: Connection, job: str | None = None) -> list[Reservation]:
    """All reservations, or those of a job, in the order of names and numbers."""
    columns = [reservations.c[name] for name in Reservation.__dataclass_fields__]
    statement = select(*columns).order_by(reservations.c.name, reservations.c.version)
    if job is not None:
        statement = statement.where(reservations.c.job == job)
    return [Reservation(**row) for row in connection.execute(statement).mappings()]


def announced(connection: Connection, name: str) -> list[int]:
    """The numbers of `name` that are about to be published."""
    found = select(reservations.c.version).where(reservations.c.name == name, reservations.c.sha256.is_not(None))
    return list(connection.execute(found).scalars())


def remove(connection: Connection, name: str, numbers: list[int]) -> None:
    """Remove the reservations of versions that turn out to be published, as a rebuild finds them."""
    which = and_(reservations.c.name == name, reservations.c.version.in_(numbers))
    connection.execute(delete(reservations).where(which))


def is_dead(connection: Connection, key: Key) -> bool:
    """Whether this number can never be published: it was given, and is neither published nor reserved any more."""
    given = connection.execute(select(models.c.next_version).where(models.c.name == key[0])).scalar()
    published = select(versions.c.version).where(versions.c.name == key[0], versions.c.version == key[1])
    alive = select(reservations.c.version).where(_is(key), reservations.c.given_up.is_(False))
    if given is None or key[1] >= given:
        return False
    return connection.execute(published).first() is None and connection.execute(alive).first() is None


def _is(key: Key) -> ColumnElement[bool]:
    return and_(reservations.c.name == key[0], reservations.c.version == key[1])
