"""Whole days become files.

A file is written beside what there is, and entered in the manifest in a transaction. From then on it holds the day;
rows that are also in the database are left out of reading, and are removed some at a time, so that nobody waits long.
Whatever process dies at whatever moment, a decision is in the file that the manifest names, in the database, or in
both with the same content; the next sealing goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection, Select, delete, func, insert, select

from app.database import Database
from app.errors import NotFound
from app.outcomes import rows
from app.outcomes.manifest import SealedDay, erased, lock_day, note_draft, replace_day, sealed_day
from app.outcomes.sealed_files import (
    Draft,
    SealedFile,
    SealedFiles,
    cast,
    new_name,
    outcomes_of,
    schema,
    table_of,
    told_later,
)
from app.outcomes.tables import DECISIONS, OUTCOMES, SEALED_IDS, SHADOW_DECISIONS

_TAKES_SECONDS = 3600.0  # at most; a file that was written long ago may be removed at any moment
_CLEAR = 1_000  # rows that one transaction removes, in some 20 ms
_PAUSE_SECONDS = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Written:
    """A file that no reader knows yet, and what the database had when its content was read."""

    before: SealedDay | None
    after: SealedDay
    erased: int


class Sealer:
    """Seals days of a database into files."""

    def __init__(self, database: Database, files: SealedFiles) -> None:
        self._database = database
        self._files = files

    def seal(self, model: str, day: int) -> bool:
        """Write a day that is over as one file, and remove from the database what is in it.

        False, and nothing changed, where another process sealed or erased meanwhile, or nothing was to be written.
        Memory of the compressed file, and of the ids that are to be removed. Minutes for a million
        decisions, half of them pauses for other writers.
        """
        self.clear(model, day)
        began = time()
        try:
            written = self._write(model, day)
        except NotFound:  # another process replaced the file that was being read
            return False
        if written is None:
            return False
        with self._database.writing() as connection:
            lock_day(connection, model, day)
            is_valid = erased(connection) == written.erased and time() - began < _TAKES_SECONDS
            entered = is_valid and replace_day(connection, written.before, written.after)
        drop(self._files, written.before if entered else written.after)
        if entered:
            self.clear(model, day)
        return entered

    def clear(self, model: str, day: int) -> int:
        """Remove rows of the database that are in the file of their day; how many decisions and outcomes there were."""
        with self._database.reading(without_timeout=True) as connection:
            sealed = sealed_day(connection, model, day)
            if sealed is None:
                return 0
            decisions = _ids(connection, select(DECISIONS.c.id).where(*rows.of_day(model, day)))
            of_day = OUTCOMES.c.model == model, OUTCOMES.c.day == day
            outcomes = _ids(connection, select(OUTCOMES.c.id).where(*of_day))
        if not len(decisions) and not len(outcomes):
            return 0
        try:
            with self._files.open(sealed.file) as file:
                return self._clear_all(sealed, _common(file, decisions, outcomes))
        except NotFound:  # another process replaced it, and clears, too
            return 0

    def _clear_all(self, sealed: SealedDay, parts: Iterable[list[dict[str, Any]]]) -> int:
        """Remove the rows of all parts, with pauses as long as the work, in which others write."""
        removed = 0
        for part in parts:
            began = monotonic()
            removed += self._clear(sealed, part)
            sleep(min(monotonic() - began, _PAUSE_SECONDS))
        return removed

    def _clear(self, sealed: SealedDay, part: list[dict[str, Any]]) -> int:
        """Remove those rows, given with id, whether it is the caller's, digest and revision, in one transaction."""
        ids = [row["id"] for row in part]
        merged = {row["id"]: row["revision"] for row in part if row["revision"] is not None}
        with self._database.writing() as connection:
            lock_day(connection, sealed.model, sealed.day)
            if sealed_day(connection, sealed.model, sealed.day) != sealed:
                return 0
            there = {row[0] for row in rows.fetched(connection, _present, ids)}
            given = [
                {"id": row["id"], "model": sealed.model, "day": sealed.day, "digest": row["digest"]}
                for row in part
                if row["given"] and row["id"] in there
            ]
            _enter_ids(connection, given)
            connection.execute(delete(DECISIONS).where(DECISIONS.c.id.in_(there)))
            connection.execute(delete(SHADOW_DECISIONS).where(SHADOW_DECISIONS.c.id.in_(there)))
            told = [row.id for row in rows.fetched(connection, _outcomes, merged) if row.revision == merged[row.id]]
            connection.execute(delete(OUTCOMES).where(OUTCOMES.c.id.in_(told)))
        return len(there) + len(told)

    def _write(self, model: str, day: int) -> _Written | None:
        """Publish a file with all decisions of the day and all outcomes of them; None where there are none."""
        with self._database.reading(without_timeout=True) as connection:
            before = sealed_day(connection, model, day)
            count = erased(connection)
            draft = self._draft(connection, model, day, before)
        if not draft.rows:
            return None
        content = draft.content()
        name = publish(self._database, self._files, model, day, content)
        after = SealedDay(model, day, name, draft.rows, draft.known, len(content), time())
        return _Written(before, after, count)

    def _draft(self, connection: Connection, model: str, day: int, before: SealedDay | None) -> Draft:
        width = connection.execute(
            select(func.max(func.length(DECISIONS.c.probabilities))).where(*rows.of_day(model, day))
        ).scalar()
        table = SHADOW_DECISIONS.c
        challengers = set(
            connection.execute(
                select(table.challenger).where(table.model == model, table.day == day).distinct()
            ).scalars()
        )
        if before is None:
            draft = Draft(schema(width or 0, challengers))
            for part in _tables(connection, model, day, draft.columns):
                draft.add(part)
            return draft
        with self._files.open(before.file) as file:
            old = file.columns.field("probabilities").type.byte_width
            draft = Draft(schema(max(width or 0, old), challengers.union(file.challengers)))
            late = list(_tables(connection, model, day, draft.columns))
            outcomes = outcomes_of(rows.outcomes(connection, model, day))
            for part in _merged(file, late, outcomes, draft.columns) if late or len(outcomes) else ():
                draft.add(part)
        return draft


def publish(database: Database, files: SealedFiles, model: str, day: int, content: bytes) -> str:
    """Write a file that the database has noted as its own; its name."""
    name = new_name(model, day)
    with database.writing() as connection:
        note_draft(connection, name)
    files.publish(name, content)
    return name


def drop(files: SealedFiles, day: SealedDay | None) -> None:
    """Remove a file that the manifest does not name; where that fails, it is removed a day later.

    Not to be called where a commit raised: nobody knows then which file it names.
    """
    if day is None or not day.rows:
        return
    name = day.file
    try:
        files.remove(name)
    except Exception as error:  # noqa: BLE001 - what was done is done
        _log.warning("a replaced file of decisions was not removed: %s (%s)", name, type(error).__name__)


def _tables(connection: Connection, model: str, day: int, columns: Any) -> Iterator[Any]:
    """The decisions of a day in the database, with outcomes and challengers, sorted by id."""
    names = list(rows.SQL_COLUMNS)
    for batch in rows.batches(connection, names, rows.of_day(model, day), sort=True):
        whole, contents = rows.with_terms(connection, batch)
        if whole["id"]:
            yield table_of(whole, contents, rows.shadows(connection, whole["id"]), columns)


def _merged(file: SealedFile, late: list[Any], outcomes: Any, columns: Any) -> Iterator[Any]:
    """The rows of a file with the outcomes that came later, and the decisions that did, in the order of the ids."""
    rest = pa.concat_tables(late) if late else columns.empty_table()
    for part in file.parts():
        table = cast(told_later(part, outcomes), columns)
        rest = rest.filter(pc.invert(pc.is_in(rest["id"], value_set=table["id"].combine_chunks())))
        is_before = pc.less_equal(rest["id"], table["id"][-1])
        between, rest = rest.filter(is_before), rest.filter(pc.invert(is_before))
        yield pa.concat_tables([table, between]).unify_dictionaries().sort_by("id") if len(between) else table
    yield rest


def _common(file: SealedFile, decisions: Any, outcomes: Any) -> Iterator[list[dict[str, Any]]]:
    """Rows of the file that are among those ids of the database, some at a time."""
    ids = pa.concat_arrays([decisions, outcomes])
    for part in file.parts(["id", "given", "digest", "revision"]):
        table = part.filter(pc.is_in(part["id"], value_set=ids))
        for first in range(0, len(table), _CLEAR):
            yield table.slice(first, _CLEAR).to_pylist()


def _ids(connection: Connection, query: Any) -> Any:
    parts = [pa.array(batch["id"], pa.string()) for batch in rows.columns(connection, query, ("id",))]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _present(some: list[str]) -> Select[Any]:
    """Those decisions that are there, locked in the order in which outcomes of them lock them."""
    return select(DECISIONS.c.id).where(DECISIONS.c.id.in_(some)).order_by(DECISIONS.c.id).with_for_update()


def _outcomes(some: list[str]) -> Select[Any]:
    table = OUTCOMES.c
    return select(table.id, table.revision).where(table.id.in_(some)).order_by(table.id).with_for_update()


def _enter_ids(connection: Connection, found: Iterable[dict[str, Any]]) -> None:
    new = {row["id"]: row for row in found}
    there = rows.fetched(connection, lambda some: select(SEALED_IDS.c.id).where(SEALED_IDS.c.id.in_(some)), new)
    for row in list(there):
        del new[row[0]]
    if new:
        connection.execute(insert(SEALED_IDS), list(new.values()))
