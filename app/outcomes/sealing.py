"""Days that are over become files, and files lose what was erased.

The decisions of a day are written as one file beside the existing ones, and its outcomes as
another; both are entered in one transaction. Later decisions and outcomes are rows again, and
become a further file. Readers skip rows that are also in a file; these are removed a few at a time,
so that no other writer waits long. Whatever process dies at whatever moment, a decision is in a
file that readers know, in the database, or in both with the same content; the next sealing goes on
from there.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, sleep, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection, delete, func, insert, select, update

from app.database.engine import Database, upsert
from app.outcomes import rows
from app.outcomes.rows import (
    OF_DECISIONS,
    OF_OUTCOMES,
    Replaced,
    SealedFile,
    erased_of,
    files_of,
    lock,
    of_day,
)
from app.outcomes.sealed import (
    OUTCOME_SCHEMA,
    OpenFile,
    SealedFiles,
    SealedWriter,
    decision_schema,
    decision_table,
    new_name,
    outcome_table,
)
from app.outcomes.tables import (
    DECISIONS,
    ERASED,
    OUTCOMES,
    SEALED_FILES,
    SEALED_IDS,
    SHADOW_DECISIONS,
)
from app.storage import Storage

# The time that writing a file may take: a file that is not current for long may be removed.
_MAX_SECONDS = 3600.0
CLEAR = 1_000  # rows that one transaction removes, in some 20 ms
_PAUSE_SECONDS = 0.1

_log = logging.getLogger(__name__)


class Sealer:
    """Seals days of a database into the files of a store."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self.files = SealedFiles(storage)
        self._storage = storage

    def seal(self, model: str, day: int) -> bool:
        """Write what the database has of a day that is over as files, and remove it from the
        database.

        False, and nothing changed, where another process sealed or erased meanwhile, or nothing was
        to be written. Takes memory for the compressed files, and for the ids that are to be
        removed. A million decisions take minutes, half of them pauses for other writers.
        """
        self._clear(model, day)
        started_at = time()
        with self._database.reading(without_timeout=True) as connection:
            files = files_of(connection, model, day)
            erasures = _erasures(connection, model, day)
            drafts = {
                "decisions": _decisions(connection, model, day),
                "outcomes": SealedWriter(OUTCOME_SCHEMA),
            }
            for batch in rows.columns(
                connection, OF_OUTCOMES, of_day(OUTCOMES, model, day), sort=True
            ):
                drafts["outcomes"].add(outcome_table([batch]))
        written = [
            self._publish(model, day, kind, draft)
            for kind, draft in drafts.items()
            if draft.rows
        ]
        if not written:
            return False
        with self._database.writing() as connection:
            lock(connection)
            is_valid = (
                files_of(connection, model, day) == files
                and _erasures(connection, model, day) == erasures
                and time() - started_at < _MAX_SECONDS
            )
            if is_valid:
                _enter(connection, written)
        if is_valid:
            self._clear(model, day)
        else:
            self.remove(written)
        return is_valid

    def purge(self, model: str, day: int) -> None:
        """Replace the files of a day that have erased cases by files without them, and delete the
        ids of these cases.

        Replaced, and no id is deleted, where another process has replaced a file meanwhile: that
        process may not know all erased cases.
        """
        with self._database.reading() as connection:
            ids = erased_of(connection, model, day)
            files = files_of(connection, model, day)
        for file in files:
            self._purge(file, ids)
        with self._database.writing() as connection:
            for chunk in rows.chunks(ids):
                where = *of_day(ERASED, model, day), ERASED.c.id.in_(chunk)
                connection.execute(update(ERASED).where(*where).values(id=None))

    def discard(self, files: Sequence[str]) -> None:
        """Remove files, and with them the cases that no other file has."""
        with self._database.writing() as connection:
            _retire(connection, files)
        self.remove(files)

    def remove(self, files: Iterable[str]) -> None:
        """Remove files that no reader reads any more; upkeep tries again a day later where that
        fails.

        Not to be called where a commit raised: it is not known then which files are current.
        """
        for name in files:
            try:
                self._storage.remove(name)
                with self._database.writing() as connection:
                    connection.execute(
                        delete(SEALED_FILES).where(SEALED_FILES.c.file == name)
                    )
            except Exception as error:  # noqa: BLE001 - the file is not current, and upkeep retries
                _log.warning(
                    "a file of decisions was not removed: %s (%s)",
                    name,
                    type(error).__name__,
                )

    def _publish(self, model: str, day: int, kind: str, draft: SealedWriter) -> str:
        """Write a file after it was entered in the database, so that upkeep may remove it."""
        name = new_name(model, day, kind)
        values = {
            "file": name,
            "model": model,
            "day": day,
            "kind": kind,
            "is_current": False,
            "at": time(),
        }
        with self._database.writing() as connection:
            connection.execute(insert(SEALED_FILES).values(values))
        self.files.publish(name, draft.content())
        return name

    def _purge(self, file: SealedFile, ids: list[str]) -> None:
        started_at = time()
        with self.files.open(file) as opened:
            if not any(map(len, opened.parts(["id"], ids))):
                return
            draft = SealedWriter(opened.columns)
            for part in opened.parts():
                draft.add(
                    part.filter(
                        pc.invert(pc.is_in(part["id"], value_set=pa.array(ids)))
                    )
                )
        written = (
            [self._publish(file.model, file.day, file.kind, draft)]
            if draft.rows
            else []
        )
        with self._database.writing() as connection:
            lock(connection)
            is_replaced = time() - started_at < _MAX_SECONDS and _retire(
                connection, [file.file]
            )
            if is_replaced:
                _enter(connection, written, file.at)
        if not is_replaced:
            self.remove(written)
            raise Replaced(file.file)
        self.remove([file.file])

    def _clear(self, model: str, day: int) -> None:
        """Remove the rows that are in files, with pauses as long as the work, in which other
        processes write.
        """
        with self._database.reading(without_timeout=True) as connection:
            ids = {
                "decisions": _ids(
                    connection, OF_DECISIONS, of_day(DECISIONS, model, day)
                ),
                "outcomes": _ids(connection, OF_OUTCOMES, of_day(OUTCOMES, model, day)),
            }
            files = files_of(connection, model, day)
        for file in files:
            if len(ids[file.kind]):
                # Replaced: another process has replaced the file.
                with suppress(Replaced), self.files.open(file) as opened:
                    self._clear_rows(file, opened, ids[file.kind])

    def _clear_rows(self, file: SealedFile, opened: OpenFile, ids: Any) -> None:
        for part in opened.parts(
            ["id"] if file.kind == "decisions" else ["id", "revision"]
        ):
            table = part.filter(pc.is_in(part["id"], value_set=ids))
            for first in range(0, len(table), CLEAR):
                started_at = monotonic()
                with self._database.writing() as connection:
                    _remove(connection, file, table.slice(first, CLEAR).to_pydict())
                sleep(min(monotonic() - started_at, _PAUSE_SECONDS))


def _retire(connection: Connection, files: Iterable[str]) -> int:
    """Mark files as not current, so that no reader opens them; the number that were current."""
    table = SEALED_FILES.c
    is_current = table.file.in_(files), table.is_current
    statement = (
        update(SEALED_FILES).where(*is_current).values(is_current=False, at=time())
    )
    return connection.execute(statement).rowcount


def _enter(
    connection: Connection, files: Iterable[str], at: float | None = None
) -> None:
    values = {"is_current": True, "at": time() if at is None else at}
    connection.execute(
        update(SEALED_FILES).where(SEALED_FILES.c.file.in_(files)).values(values)
    )


def _erasures(connection: Connection, model: str, day: int) -> int:
    """The number of decisions of a day that were ever erased: where it has changed, rows that were
    read before may not be written.
    """
    query = select(func.count()).select_from(ERASED).where(*of_day(ERASED, model, day))
    return int(connection.execute(query).scalar_one())


def _decisions(connection: Connection, model: str, day: int) -> SealedWriter:
    """The decisions of a day in the database, with challengers."""
    width = select(func.max(func.length(DECISIONS.c.probabilities))).where(
        *of_day(DECISIONS, model, day)
    )
    challengers = rows.challengers(connection, model, day)
    draft = SealedWriter(
        decision_schema(connection.execute(width).scalar() or 0, challengers)
    )
    for batch in rows.columns(
        connection, OF_DECISIONS, of_day(DECISIONS, model, day), sort=True
    ):
        contents = rows.contents(connection, batch["terms"])
        shadows = rows.shadows(connection, batch["id"])
        draft.add(decision_table(batch, contents, shadows, draft.columns))
    return draft


def _ids(connection: Connection, of: Mapping[str, Any], where: list[Any]) -> Any:
    parts = [
        pa.array(batch["id"], pa.string())
        for batch in rows.columns(connection, of, where, ["id"])
    ]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _remove(
    connection: Connection, file: SealedFile, part: dict[str, list[Any]]
) -> None:
    """Remove rows that a file has, locked in the order in which other transactions lock them.

    Of decisions the ids of clients are kept. Of outcomes only those are removed that still have the
    revision of the file.
    """
    table = DECISIONS if file.kind == "decisions" else OUTCOMES
    columns = [
        table.c[name]
        for name in ("id", "given", "digest", "revision")
        if name in table.c
    ]
    query = (
        select(*columns)
        .where(table.c.id.in_(part["id"]))
        .order_by(table.c.id)
        .with_for_update()
    )
    rows_of_part = connection.execute(query).all()
    if table is OUTCOMES:
        revisions = dict(zip(part["id"], part["revision"], strict=True))
        unchanged = [
            row.id for row in rows_of_part if row.revision == revisions[row.id]
        ]
        connection.execute(delete(OUTCOMES).where(OUTCOMES.c.id.in_(unchanged)))
        return
    ids_of_clients = [
        {"id": row.id, "digest": row.digest, "model": file.model, "day": file.day}
        for row in rows_of_part
        if row.given
    ]
    if ids_of_clients:
        connection.execute(
            upsert(connection, SEALED_IDS).on_conflict_do_nothing(), ids_of_clients
        )
    ids = [row.id for row in rows_of_part]
    for rows_by_id in (DECISIONS, SHADOW_DECISIONS):
        connection.execute(delete(rows_by_id).where(rows_by_id.c.id.in_(ids)))
