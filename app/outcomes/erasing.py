"""A decision and all of it are erased: in the database, and in the file of its day."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import time

import pyarrow.compute as pc
from sqlalchemy import Connection, delete, insert, select

from app.errors import NotFound
from app.outcomes.archive import Archive
from app.outcomes.identity import day_of, id_digest
from app.outcomes.locating import again
from app.outcomes.manifest import SealedDay, lock_day, replace_day, sealed_day
from app.outcomes.sealed_files import Draft
from app.outcomes.sealing import drop, publish
from app.outcomes.tables import DECISIONS, ERASED, OUTCOMES, SEALED_IDS, SHADOW_DECISIONS

_BY_ID = (DECISIONS, OUTCOMES, SHADOW_DECISIONS, SEALED_IDS)


def erase(
    archive: Archive, id_: str, also: Callable[[Connection], None], allowed: Callable[[str], bool] = lambda _: True
) -> bool:
    """Remove a decision everywhere; False where there is none, or its model is not `allowed`. `also` writes in the same
    transaction.

    Seconds where its day is sealed, since the file is written again; memory of the compressed file.
    """
    for attempt in count(1):
        place = _place(archive, id_)
        if place is None or not allowed(place[0]):
            return False
        if _erase(archive, id_, *place, also):
            return True
        again(attempt)
    raise AssertionError("unreachable")


def _place(archive: Archive, id_: str) -> tuple[str, int] | None:
    """Model and day of a decision, also of one that cannot be located since its terms are missing."""
    with archive.database.reading() as connection:
        row = connection.execute(select(DECISIONS.c.model, DECISIONS.c.at).where(DECISIONS.c.id == id_)).first()
    if row is not None:
        return row.model, day_of(row.at)
    located = archive.locate([id_]).get(id_)
    return None if located is None else (located.model, located.day)


def _erase(archive: Archive, id_: str, model: str, day: int, also: Callable[[Connection], None]) -> bool:
    """Whether nobody else changed the day meanwhile; otherwise nothing is done."""
    with archive.database.reading() as connection:
        before = sealed_day(connection, model, day)
    try:
        after = before and _without(archive, before, id_)
    except NotFound:  # another process replaced the file
        return False
    with archive.database.writing() as connection:
        lock_day(connection, model, day)
        if after is None or after == before:
            entered = sealed_day(connection, model, day) == before
        else:
            entered = replace_day(connection, before, after)
        if entered:
            _remove_rows(connection, id_)
            also(connection)
    if after != before:
        drop(archive.files, before if entered else after)
    return entered


def _remove_rows(connection: Connection, id_: str) -> None:
    for table in _BY_ID:
        connection.execute(delete(table).where(table.c.id == id_))
    digest = id_digest(id_)
    if connection.execute(select(ERASED.c.at).where(ERASED.c.id_digest == digest)).first() is None:
        connection.execute(insert(ERASED).values(id_digest=digest, at=time()))


def _without(archive: Archive, before: SealedDay, id_: str) -> SealedDay:
    """The day in a new file that lacks the decision; the same day where it is not in the file."""
    with archive.files.open(before.file) as file:
        if not any(len(found) for found in file.find([id_], ["id"])):
            return before
        draft = Draft(file.columns)
        for part in file.parts():
            draft.add(part.filter(pc.not_equal(part["id"], id_)))
    content = draft.content()
    name = publish(archive.database, archive.files, before.model, before.day, content) if draft.rows else ""
    return SealedDay(before.model, before.day, name, draft.rows, draft.known, len(content), before.sealed_at)
