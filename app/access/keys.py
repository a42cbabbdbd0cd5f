"""API keys in a table: created, listed and revoked; a secret is shown once.

A key is `payoff_1a2b3c4d.<43 characters>`. What stands before the dot is its id; behind it are 256
random bits, of which only the SHA-256 is kept: so many bits need no slow hash.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from app.access.audit import AuditLog
from app.access.caller import Caller, Scope
from app.access.rates import Rate
from app.access.tables import API_KEYS
from app.database.engine import Database
from app.database.pages import is_pattern
from app.errors import Conflict, NotFound
from payoff.errors import Flaw, Invalid, reject

RESERVED = ("admin", "anonymous", "command line", "unknown")

_NAME = re.compile(r"[\w.@+-]([\w .@+-]{0,62}[\w.@+-])?", re.ASCII)
_NEEDED = {
    "/name": f"a name has 1 to 64 letters, digits, blanks and . _ @ + -, and is none of {', '.join(RESERVED)}",
    "/scope": f"a scope is one of {', '.join(Scope)}",
    "/model": "a pattern has 1 to 64 of a-z, 0-9, _ and -, with * for any text and ? for any character",
    "/jobs": "must be at least 1",
    "/days": "must be above 0 and at most 36,500",
}
_OPERATOR = Caller("command line")


@dataclass(frozen=True)
class Key:
    """A key as it is kept; `digest` is the SHA-256 of its secret."""

    id: str
    digest: bytes
    name: str
    scopes: frozenset[Scope]
    models: tuple[str, ...]
    rate: Rate | None
    jobs: int | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None

    def caller(self, *, rate: Rate | None, jobs: int | None) -> Caller:
        """Its holder, with these limits where it has none of its own."""
        return Caller(
            self.name, self.id, self.scopes, self.models, self.rate or rate, self.jobs or jobs
        )


class Revision(NamedTuple):
    """How many keys were made and revoked, when the newest was made, and the last of their ids."""

    made: int
    revoked: int
    newest: float | None
    last: str | None


class Keys:
    """The table of keys."""

    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database = database
        self._audit = audit

    def create(
        self,
        name: str,
        scopes: Sequence[str] = (),
        models: Sequence[str] = (),
        *,
        rate: str | None = None,
        jobs: int | None = None,
        days: float | None = None,
    ) -> tuple[Key, str]:
        """A new key, and what its holder has to send: the only time that it is shown. Invalid, with
        places.

        Without scopes it allows only `/v2` and `/access`.
        """
        wrong = {
            "/name": not _NAME.fullmatch(name) or name.lower() in RESERVED,
            "/scope": not set(Scope).issuperset(scopes),
            "/model": not all(map(is_pattern, models)),
            "/jobs": jobs is not None and jobs < 1,
            "/days": days is not None and not 0 < days <= 36_500,
        }
        reject(Flaw(place, _NEEDED[place]) for place, is_wrong in wrong.items() if is_wrong)
        if models and Scope.ADMIN in scopes:
            raise Invalid.at(
                "/model", "the scope admin holds for all models: leave the patterns out"
            )
        if rate is not None:
            Rate.parse(rate, "/rate")
        key_id, secret = f"payoff_{secrets.token_hex(4)}", secrets.token_urlsafe(32)
        values = {
            "id": key_id,
            "digest": hashlib.sha256(secret.encode()).hexdigest(),
            "name": name,
            "scopes": " ".join(sorted(set(scopes))),
            "models": " ".join(models),
            "rate": rate,
            "jobs": jobs,
            "created_at": self._database.now,
            "expires_at": None if days is None else self._database.now + days * 86_400,
        }
        entry = self._audit.entry(
            _OPERATOR, "key.create", key_id, name=name, scopes=values["scopes"]
        )
        with self._database.writing() as connection:
            row = (
                connection.execute(insert(API_KEYS).values(values).returning(API_KEYS))
                .mappings()
                .one()
            )
            entry(connection)
        return _key_of(row), f"{key_id}.{secret}"

    def list(self, *, revoked: bool = True) -> list[Key]:
        """All keys, oldest first, also expired ones; those that were `revoked` can be left out."""
        keys = select(API_KEYS).order_by(API_KEYS.c.created_at, API_KEYS.c.id)
        with self._database.reading() as connection:
            rows = connection.execute(
                keys if revoked else keys.where(API_KEYS.c.revoked_at.is_(None))
            ).mappings()
            return [_key_of(row) for row in rows]

    def revoke(self, which: str) -> Key:
        """End the key with this id or name; NotFound where none is in force, Conflict where several
        have the name.
        """
        found = [
            key for key in self.list() if which in (key.id, key.name) and key.revoked_at is None
        ]
        if not found:
            raise NotFound(f"there is no key {which!r} in force")
        if len(found) > 1:
            raise Conflict(
                f"{len(found)} keys are named {which!r}: name one of {', '.join(key.id for key in found)}"
            )
        entry = self._audit.entry(_OPERATOR, "key.revoke", found[0].id, name=found[0].name)
        revoked = (
            update(API_KEYS)
            .where(API_KEYS.c.id == found[0].id)
            .values(revoked_at=self._database.now)
        )
        with self._database.writing() as connection:
            row = connection.execute(revoked.returning(API_KEYS)).mappings().one()
            entry(connection)
        return _key_of(row)

    def revision(self) -> Revision:
        """What differs whenever a key was made or revoked, or the database was replaced by another."""
        with self._database.reading() as connection:
            return _revision(connection)

    def follow(self, tell: Callable[[Revision], None]) -> None:
        """Have `tell` called with the revision again and again, in a thread, until the database is
        closed.
        """
        self._database.changes.follow(_revision, tell)


def _revision(connection: Connection) -> Revision:
    table = API_KEYS.c
    newest = func.max(table.created_at), func.max(table.id)
    counts = select(func.count(), func.count(table.revoked_at), *newest).select_from(API_KEYS)
    return Revision(*connection.execute(counts).one())


def _key_of(row: RowMapping) -> Key:
    return Key(
        id=row["id"],
        digest=bytes.fromhex(row["digest"]),
        name=row["name"],
        scopes=frozenset(map(Scope, row["scopes"].split())),
        models=tuple(row["models"].split()),
        rate=Rate.parse(row["rate"]) if row["rate"] else None,
        jobs=row["jobs"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )
