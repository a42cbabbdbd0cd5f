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
_MAX_DAYS = 36_500
_REQUIREMENTS = {
    "/name": "a name has 1 to 64 letters, digits, blanks and . _ @ + -,"
    f" and is none of {', '.join(RESERVED)}",
    "/scope": f"a scope is one of {', '.join(Scope)}",
    "/model": "a pattern has 1 to 64 of a-z, 0-9, _ and -,"
    " with * for any text and ? for any character",
    "/jobs": "must be at least 1",
    "/days": f"must be above 0 and at most {_MAX_DAYS:,}",
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
            self.name,
            self.id,
            self.scopes,
            self.models,
            self.rate or rate,
            self.jobs or jobs,
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
        """A new key, and the text that its holder has to send, which is shown only this time.

        Invalid, with the place of each argument that is not allowed.

        Without scopes it allows only `/v2` and `/access`.
        """
        flaws = {
            "/name": not _NAME.fullmatch(name) or name.lower() in RESERVED,
            "/scope": not set(Scope).issuperset(scopes),
            "/model": not all(map(is_pattern, models)),
            "/jobs": jobs is not None and jobs < 1,
            "/days": days is not None and not 0 < days <= _MAX_DAYS,
        }
        reject(
            Flaw(place, _REQUIREMENTS[place])
            for place, is_wrong in flaws.items()
            if is_wrong
        )
        if models and Scope.ADMIN in scopes:
            raise Invalid.at(
                "/model", "the scope admin holds for all models: leave the patterns out"
            )
        if rate is not None:
            Rate.parse(rate, "/rate")
        key_id = f"payoff_{secrets.token_hex(4)}"
        secret = secrets.token_urlsafe(32)
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
        insertion = insert(API_KEYS).values(values).returning(API_KEYS)
        with self._database.writing() as connection:
            row = connection.execute(insertion).mappings().one()
            entry(connection)
        return _key_of(row), f"{key_id}.{secret}"

    def list(self, *, revoked: bool = True) -> list[Key]:
        """All keys, oldest first, also expired ones; those that were `revoked` can be left out."""
        keys = select(API_KEYS).order_by(API_KEYS.c.created_at, API_KEYS.c.id)
        if not revoked:
            keys = keys.where(API_KEYS.c.revoked_at.is_(None))
        with self._database.reading() as connection:
            return [_key_of(row) for row in connection.execute(keys).mappings()]

    def revoke(self, name: str) -> Key:
        """End the key with this id or name.

        NotFound where no such key is in force, Conflict where several have the name.
        """
        keys = [key for key in self.list(revoked=False) if name in (key.id, key.name)]
        if not keys:
            raise NotFound(f"there is no key {name!r} in force")
        if len(keys) > 1:
            ids = ", ".join(key.id for key in keys)
            raise Conflict(f"{len(keys)} keys are named {name!r}: name one of {ids}")
        key = keys[0]
        entry = self._audit.entry(_OPERATOR, "key.revoke", key.id, name=key.name)
        revocation = (
            update(API_KEYS)
            .where(API_KEYS.c.id == key.id)
            .values(revoked_at=self._database.now)
            .returning(API_KEYS)
        )
        with self._database.writing() as connection:
            row = connection.execute(revocation).mappings().one()
            entry(connection)
        return _key_of(row)

    def revision(self) -> Revision:
        """A value that differs once a key was made or revoked, or the database was replaced."""
        with self._database.reading() as connection:
            return _revision(connection)

    def follow(self, receive: Callable[[Revision], None]) -> None:
        """Call `receive` with the revision again and again, in a thread, until the database is
        closed.
        """
        self._database.changes.follow(_revision, receive)


def _revision(connection: Connection) -> Revision:
    table = API_KEYS.c
    newest = func.max(table.created_at), func.max(table.id)
    counts = select(func.count(), func.count(table.revoked_at), *newest).select_from(
        API_KEYS
    )
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
