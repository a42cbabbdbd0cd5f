"""Which file holds which day, and the lock of a day, under which that changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from time import time

from sqlalchemy import Connection, delete, func, insert, select

from app.outcomes.tables import ERASED, SEALED_DAYS, SEALED_DRAFTS


@dataclass(frozen=True)
class SealedDay:
    """A row of `SEALED_DAYS`."""

    model: str
    day: int
    file: str
    rows: int
    known: int
    bytes: int
    sealed_at: float


def lock_day(connection: Connection, model: str, day: int) -> None:
    """Keep others from sealing the day, or from erasing of it, until this transaction ends.

    Outcomes need no such lock: who takes them in locks the rows of their decisions, or that of the manifest. A
    transaction that writes in SQLite has locked all there is.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"{model}/{day}", 16))))


def sealed_days(connection: Connection, model: str | None = None, days: Iterable[int] | None = None) -> list[SealedDay]:
    """The days that are sealed, in order: those of a model, or of all; of these days, or of all."""
    query = select(SEALED_DAYS).order_by(SEALED_DAYS.c.model, SEALED_DAYS.c.day)
    if model is not None:
        query = query.where(SEALED_DAYS.c.model == model)
    if days is not None:
        query = query.where(SEALED_DAYS.c.day.in_(days))
    return [SealedDay(*row) for row in connection.execute(query)]


def sealed_day(connection: Connection, model: str, day: int) -> SealedDay | None:
    return next(iter(sealed_days(connection, model, [day])), None)


def replace_day(connection: Connection, before: SealedDay | None, after: SealedDay) -> bool:
    """Enter `after` in place of `before`, under the lock; False, and nothing done, where that is not there any more.

    The file of `before` becomes a draft again, and that of `after` is none any more.
    """
    if sealed_day(connection, after.model, after.day) != before:
        return False
    connection.execute(delete(SEALED_DAYS).where(SEALED_DAYS.c.model == after.model, SEALED_DAYS.c.day == after.day))
    if before is not None:
        note_draft(connection, before.file)
    if after.rows:
        connection.execute(insert(SEALED_DAYS).values(asdict(after)))
        connection.execute(delete(SEALED_DRAFTS).where(SEALED_DRAFTS.c.file == after.file))
    return True


def note_draft(connection: Connection, file: str) -> None:
    """Note that a file is this database's own, so that it may be removed while the manifest does not name it.

    A store may have files that this database never knew, such as those of a database that was lost.
    """
    connection.execute(insert(SEALED_DRAFTS).values(file=file, at=time()))


def drafts(connection: Connection, before: float) -> set[str]:
    """The files that were noted before a moment, and that the manifest does not name."""
    found = set(connection.execute(select(SEALED_DRAFTS.c.file).where(SEALED_DRAFTS.c.at < before)).scalars())
    return found.difference(connection.execute(select(SEALED_DAYS.c.file)).scalars())


def forget_drafts(connection: Connection, files: Iterable[str]) -> None:
    connection.execute(delete(SEALED_DRAFTS).where(SEALED_DRAFTS.c.file.in_(files)))


def erased(connection: Connection) -> int:
    """How many decisions were ever erased: where it has changed, what was read before may not be written."""
    return int(connection.execute(select(func.count()).select_from(ERASED)).scalar_one())
