"""Benefit matrices that are saved for a model by name and version, in every process's memory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from threading import Lock
from time import time
from typing import Any

import orjson
from sqlalchemy import Connection, and_, delete, func, insert, select, true, update

from app.database.engine import Database
from app.errors import Conflict, NotFound, NotReady
from app.registry.index import check_listed
from app.registry.tables import models, state
from app.registry.tables import saved_matrices as table
from payoff.errors import unknown

# Every process has all matrices in memory, and reads them when it starts.
MOST_BYTES = 4_000_000  # of all matrices of a model: some 3,000 with ten actions
_BYTES_PER_VERSION = 1_000  # beside its JSON, about what its objects take
_CHANGED = update(state).values(matrices=state.c.matrices + 1)


@dataclass(frozen=True)
class Saved:
    """A version of a matrix; `content` is JSON: the matrix in words, and its actions in order or
    null.
    """

    model: str
    matrix: str
    version: int
    content: bytes
    created_at: float
    who: str

    @property
    def reference(self) -> str:
        return f"{self.matrix}:{self.version}"

    @cached_property
    def stated(self) -> tuple[dict[str, dict[str, Any]], list[str] | None]:
        """The matrix in words, and its actions where they have an order."""
        words, actions = orjson.loads(self.content)
        return words, actions


@dataclass(frozen=True)
class _View:
    """The matrices of each model by reference, `autumn` (the newest version) and `autumn:2`, as of
    `revision`.

    The revision is -1 where it is not known.
    """

    revision: int = -1
    models: Mapping[str, Mapping[str, Saved]] = field(default_factory=dict)

    def of(self, model: str) -> Mapping[str, Saved]:
        return self.models.get(model, {})


class SavedMatrices:
    """The saved matrices in memory, never older than a second while the database answers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._view = _View()
        self._lock = Lock()

    def start(self) -> None:
        self._database.changes.follow(self._current, self._accept)

    def of(self, model: str) -> Mapping[str, Saved]:
        """The matrices of a model by reference. No input or output; NotReady where they are not
        known yet.
        """
        if self._view.revision < 0:
            raise NotReady(
                "saved matrices are not known yet, as the database is unavailable; try again soon"
            )
        return self._view.of(model)

    def read(self, model: str) -> Mapping[str, Saved]:
        """The matrices in the database now, versions of each oldest first; NotFound for an unknown
        model.
        """
        with self._database.reading() as connection:
            check_listed(connection, model)
            view = self._current(connection)
        self._accept(view)
        return view.of(model)

    def save(
        self,
        model: str,
        matrix: str,
        content: bytes,
        key_name: str,
        also: Callable[[Connection, Saved], None],
    ) -> Saved:
        """Save a new version, unless the newest one is equal; `also` writes in the transaction of a
        new one.

        NotFound for an unknown model, Conflict where it has no room for more.
        """
        with self._changing() as connection:
            check_listed(connection, model)
            before = self._current(connection)
            newest = before.of(model).get(matrix)
            if newest is not None and orjson.loads(newest.content) == orjson.loads(
                content
            ):
                return newest
            _check_room(model, before.of(model), content)
            last = _deleted(connection, model) if newest is None else newest.version
            saved = Saved(model, matrix, last + 1, content, time(), key_name)
            connection.execute(
                insert(table).values({**asdict(saved), "content": content.decode()})
            )
            connection.execute(_CHANGED)
            also(connection, saved)
            view = self._current(connection)
        self._accept(view)
        return saved

    def delete(
        self, model: str, matrix: str, also: Callable[[Connection], None]
    ) -> None:
        """All versions; their numbers are not used again. NotFound where there is none."""
        with self._changing() as connection:
            check_listed(connection, model)
            view = self._current(connection)
            if matrix not in view.of(model):
                raise NotFound(unsaved(model, matrix, view.of(model)))
            self.remove(connection, model, matrix)
            also(connection)
            view = self._current(connection)
        self._accept(view)

    @staticmethod
    def remove(connection: Connection, model: str, matrix: str | None = None) -> None:
        """All versions of a matrix, or of all matrices of the model. The transaction has locked the
        index.

        Audit entries and requests name versions, so no number may mean another content later:
        matrices with new names begin after the greatest number that was deleted. A number for each
        name would be one more with every name that a client invents.
        """
        deleted = and_(
            table.c.model == model,
            true() if matrix is None else table.c.matrix == matrix,
        )
        last = connection.execute(
            select(func.max(table.c.version)).where(deleted)
        ).scalar()
        if last is not None:
            connection.execute(delete(table).where(deleted))
            connection.execute(_CHANGED)
            last = max(last, _deleted(connection, model))
            connection.execute(
                update(models).where(models.c.name == model).values(deleted_matrix=last)
            )

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A transaction that locks the index as each change of a model does."""
        with self._database.writing() as connection:
            connection.execute(select(state.c.revision).with_for_update())
            yield connection

    def _current(self, connection: Connection) -> _View:
        """The view of this moment: all is read where something changed, and matrices that were
        known stay the same objects.
        """
        known = self._view
        revision = connection.execute(select(state.c.matrices)).scalar_one()
        if revision <= known.revision:
            return known
        matrices: dict[str, dict[str, Saved]] = {}
        for row in connection.execute(
            select(table).order_by(table.c.matrix, table.c.version)
        ):
            saved = known.of(row.model).get(f"{row.matrix}:{row.version}")
            if saved is None:
                saved = Saved(
                    row.model,
                    row.matrix,
                    row.version,
                    row.content.encode(),
                    row.created_at,
                    row.who,
                )
            matrices.setdefault(row.model, {}).update(
                {saved.reference: saved, saved.matrix: saved}
            )
        return _View(revision, matrices)

    def _accept(self, view: _View) -> None:
        with self._lock:
            if view.revision > self._view.revision:
                self._view = view


def unsaved(model: str, reference: str, known: Mapping[str, Saved]) -> str:
    """The message that there is no such matrix, with one that is like it."""
    if known:
        return unknown("saved matrix", reference, known)
    return f"{model!r} has no saved matrices; save one with PUT /models/{model}/matrices/<name>"


def _deleted(connection: Connection, model: str) -> int:
    """The greatest number that a deleted matrix of the model had."""
    return connection.execute(
        select(models.c.deleted_matrix).where(models.c.name == model)
    ).scalar_one()


def _check_room(model: str, before: Mapping[str, Saved], content: bytes) -> None:
    contents = [
        content,
        *(saved.content for reference, saved in before.items() if ":" in reference),
    ]
    size = sum(len(text) + _BYTES_PER_VERSION for text in contents)
    if size > MOST_BYTES:
        raise Conflict(
            f"the saved matrices of {model!r} would take {size:,} bytes,"
            f" {_BYTES_PER_VERSION:,} for each version included; at most {MOST_BYTES:,} are"
            " allowed: delete matrices that no request names"
        )
