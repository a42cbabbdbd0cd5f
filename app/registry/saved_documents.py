"""Documents that are saved for a model by name and version, in every process's memory: benefit
matrices, guarantees, and texts of reasons.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from threading import Lock
from time import time
from typing import Any, Literal

import orjson
from sqlalchemy import Connection, and_, delete, func, insert, select, true, update

from app.database.engine import Database
from app.errors import Conflict, NotFound, NotReady
from app.registry.index import check_listed
from app.registry.tables import models, state
from app.registry.tables import saved_documents as table
from payoff.errors import unknown

REASONS: Literal["reasons"] = "reasons"
"""The kind and the name of the texts of reasons, of which a model has one document."""
Kind = Literal["matrix", "guarantee", "reasons"]
PATHS: dict[Kind, str] = {
    "matrix": "matrices",
    "guarantee": "guarantees",
    REASONS: REASONS,
}

# Every process has all documents in memory, and reads them when it starts.
# Of all documents of a kind of a model: some 3,000 matrices with ten actions.
MOST_BYTES = 4_000_000
_BYTES_PER_VERSION = 1_000  # beside its JSON, about what its objects take
_CHANGED = update(state).values(documents=state.c.documents + 1)


@dataclass(frozen=True)
class Saved:
    """A version of a document; `content` is JSON."""

    model: str
    kind: Kind
    name: str
    version: int
    content: bytes
    created_at: float
    who: str

    @property
    def reference(self) -> str:
        return f"{self.name}:{self.version}"

    @cached_property
    def document(self) -> Any:
        """The content."""
        return orjson.loads(self.content)


@dataclass(frozen=True)
class _View:
    """The documents of each model and kind by reference, `autumn` (the newest version) and
    `autumn:2`, as of `revision`.

    The revision is -1 where it is not known.
    """

    revision: int = -1
    documents: Mapping[tuple[str, Kind], Mapping[str, Saved]] = field(
        default_factory=dict
    )

    def of(self, model: str, kind: Kind) -> Mapping[str, Saved]:
        return self.documents.get((model, kind), {})


class SavedDocuments:
    """The saved documents in memory, never older than a second while the database answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._view = _View()
        self._lock = Lock()

    def start(self) -> None:
        self._database.changes.follow(self._current, self._accept)

    def of(self, model: str, kind: Kind) -> Mapping[str, Saved]:
        """The documents of a model by reference. No input or output; NotReady where they are not
        known yet.
        """
        if self._view.revision < 0:
            raise NotReady(
                f"saved {PATHS[kind]} are not known yet, as the database is unavailable;"
                " try again soon"
            )
        return self._view.of(model, kind)

    def read(self, model: str, kind: Kind) -> Mapping[str, Saved]:
        """The documents in the database now, versions of each oldest first; NotFound for an unknown
        model.
        """
        with self._database.reading() as connection:
            check_listed(connection, model)
            view = self._current(connection)
        self._accept(view)
        return view.of(model, kind)

    def newest(self, model: str, kind: Kind) -> list[tuple[Saved, int]]:
        """The newest version of each document, by name, and the number of its versions."""
        known = self.read(model, kind)
        counts = Counter(
            saved.name
            for reference, saved in known.items()
            if reference == saved.reference
        )
        return [(known[name], counts[name]) for name in sorted(counts)]

    def describe(
        self, model: str, kind: Kind, reference: str
    ) -> tuple[Saved, list[int]]:
        """The document that `name` (the newest) or `name:2` means, and the numbers of all its
        versions. NotFound where there is none.
        """
        known = self.read(model, kind)
        if reference not in known:
            raise NotFound(unsaved(model, kind, reference, known))
        saved = known[reference]
        versions = [
            version.version
            for key, version in known.items()
            if key == version.reference and version.name == saved.name
        ]
        return saved, versions

    def save(
        self,
        model: str,
        kind: Kind,
        name: str,
        content: bytes,
        *,
        key_name: str,
        also: Callable[[Connection, Saved], None],
    ) -> Saved:
        """Save a new version, unless the newest one is equal; `also` writes in the transaction of a
        new one.

        NotFound for an unknown model, Conflict where it has no room for more.
        """
        with self._changing() as connection:
            check_listed(connection, model)
            before = self._current(connection).of(model, kind)
            newest = before.get(name)
            if newest is not None and orjson.loads(newest.content) == orjson.loads(
                content
            ):
                return newest
            _check_room(model, kind, before, content)
            last = _deleted(connection, model) if newest is None else newest.version
            saved = Saved(model, kind, name, last + 1, content, time(), key_name)
            connection.execute(
                insert(table).values({**asdict(saved), "content": content.decode()})
            )
            connection.execute(_CHANGED)
            also(connection, saved)
            view = self._current(connection)
        self._accept(view)
        return saved

    def delete(
        self, model: str, kind: Kind, name: str, also: Callable[[Connection], None]
    ) -> None:
        """All versions; their numbers are not used again. NotFound where there is none."""
        with self._changing() as connection:
            check_listed(connection, model)
            view = self._current(connection)
            if name not in view.of(model, kind):
                raise NotFound(unsaved(model, kind, name, view.of(model, kind)))
            self.remove(connection, model, kind, name)
            also(connection)
            view = self._current(connection)
        self._accept(view)

    @staticmethod
    def remove(
        connection: Connection, model: str, kind: Kind | None = None, name: str = ""
    ) -> None:
        """All versions of a document, or of all documents of the model. The transaction has locked
        the index.

        Audit entries and requests name versions, so no number may mean another content later:
        documents with new names begin after the greatest number that was deleted. A number for each
        name would be one more with every name that a client invents.
        """
        deleted = and_(
            table.c.model == model,
            true()
            if kind is None
            else and_(table.c.kind == kind, table.c.name == name),
        )
        last = connection.execute(
            select(func.max(table.c.version)).where(deleted)
        ).scalar()
        if last is not None:
            connection.execute(delete(table).where(deleted))
            connection.execute(_CHANGED)
            last = max(last, _deleted(connection, model))
            connection.execute(
                update(models)
                .where(models.c.name == model)
                .values(deleted_document=last)
            )

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A transaction that locks the index as each change of a model does."""
        with self._database.writing() as connection:
            connection.execute(select(state.c.revision).with_for_update())
            yield connection

    def _current(self, connection: Connection) -> _View:
        """The view of this moment: all is read where something changed, and documents that were
        known stay the same objects.
        """
        known = self._view
        revision = connection.execute(select(state.c.documents)).scalar_one()
        if revision <= known.revision:
            return known
        documents: dict[tuple[str, Kind], dict[str, Saved]] = {}
        statement = select(table).order_by(table.c.name, table.c.version)
        for row in connection.execute(statement).mappings():
            new = Saved(**{**row, "content": row["content"].encode()})
            saved = known.of(new.model, new.kind).get(new.reference, new)
            documents.setdefault((saved.model, saved.kind), {}).update(
                {saved.reference: saved, saved.name: saved}
            )
        return _View(revision, documents)

    def _accept(self, view: _View) -> None:
        with self._lock:
            if view.revision > self._view.revision:
                self._view = view


def unsaved(model: str, kind: Kind, reference: str, known: Mapping[str, Saved]) -> str:
    """The message that there is no such document, with one that is like it."""
    if known:
        return unknown(f"saved {kind}", reference, known)
    path = PATHS[kind]
    place = "" if kind == REASONS else "/<name>"
    return f"{model!r} has no saved {path}; save them with PUT /models/{model}/{path}{place}"


def _deleted(connection: Connection, model: str) -> int:
    """The greatest number that a deleted document of the model had."""
    return connection.execute(
        select(models.c.deleted_document).where(models.c.name == model)
    ).scalar_one()


def _check_room(
    model: str, kind: Kind, before: Mapping[str, Saved], content: bytes
) -> None:
    contents = [
        content,
        *(saved.content for reference, saved in before.items() if ":" in reference),
    ]
    size = sum(len(text) + _BYTES_PER_VERSION for text in contents)
    if size > MOST_BYTES:
        raise Conflict(
            f"the saved {PATHS[kind]} of {model!r} would take {size:,} bytes,"
            f" {_BYTES_PER_VERSION:,} for each version included; at most {MOST_BYTES:,} are"
            " allowed: delete all versions of those that no request needs"
        )
