"""What workers do with recorded decisions every hour: seal days that are over, and remove what must not be kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import time

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select

from app.database import Database, DatabaseAway
from app.outcomes import rows
from app.outcomes.archive import Archive
from app.outcomes.identity import DAY, date_of, day_of
from app.outcomes.manifest import drafts, forget_drafts, lock_day, replace_day, sealed_days
from app.outcomes.tables import DECISION_TERMS, DECISIONS, OUTCOMES, SEALED_IDS, SHADOW_DECISIONS

SETTLED_SECONDS = 2 * 3600.0  # after the end of a day no decision of it is being recorded any more
_AGAIN_SECONDS = DAY  # before a day is written again
_UNUSED_SECONDS = DAY  # processes remember for an hour that terms are stored
_ABANDONED_SECONDS = DAY
_BATCH = 2_000  # rows that one transaction removes

_LOCK = 5_417_916_016_016  # the number of the lock of this work
_MODELS = (DECISIONS, OUTCOMES, SHADOW_DECISIONS, SEALED_IDS)

_log = logging.getLogger(__name__)

Day = tuple[str, int]


def due(connection: Connection, now: float) -> list[Day]:
    """Models and days to be sealed, or written again since decisions or outcomes came later."""
    over = day_of(now - SETTLED_SECONDS) * DAY
    sealed = {(day.model, day.day): day.sealed_at for day in sealed_days(connection)}
    found: set[Day] = set()
    for model in rows.each_value(connection, DECISIONS.c.model):
        found.update((model, day) for day in rows.days_of(connection, model, None, over))
    for model in rows.each_value(connection, OUTCOMES.c.model):
        days = rows.each_value(connection, OUTCOMES.c.day, OUTCOMES.c.model == model)
        found.update((model, day) for day in days if (model, day) in sealed)
    return sorted(one for one in found if sealed.get(one, 0.0) < now - _AGAIN_SECONDS)


def keep_up(archive: Archive, keep_seconds: float | None, *, seals: bool = True) -> None:
    """Seal what is due, if at all, and remove what has expired and what is left over. One process does so at a time."""
    with _alone(archive.database) as is_alone:
        if not is_alone:
            return
        if keep_seconds is not None:
            expire(archive, keep_seconds)
        with archive.database.reading() as connection:
            days = due(connection, time())
        if days and not seals:
            _log.warning("recorded decisions stay in the database: set PAYOFF_DECISIONS to a store that is shared")
        elif days:
            _seal(archive, days)
        _remove_unused_terms(archive.database)
        _remove_abandoned(archive)


def expire(archive: Archive, keep_seconds: float) -> None:
    """Remove all of the days that ended longer ago than that."""
    before = day_of(time() - keep_seconds)
    with archive.database.reading() as connection:
        old = [day for day in sealed_days(connection) if day.day < before]
        models = {model for table in _MODELS for model in rows.each_value(connection, table.c.model)}
    for day in old:
        with archive.database.writing() as connection:
            lock_day(connection, day.model, day.day)
            replace_day(connection, day, replace(day, rows=0))
        archive.storage.remove(day.file)
    for model in sorted(models):
        _remove(archive.database, DECISIONS, DECISIONS.c.model == model, DECISIONS.c.at < before * DAY)
        for table in (OUTCOMES, SHADOW_DECISIONS, SEALED_IDS):
            _remove(archive.database, table, table.c.model == model, table.c.day < before)


def _seal(archive: Archive, days: Iterable[Day]) -> None:
    from app.outcomes.sealing import Sealer  # noqa: PLC0415 - it takes memory, see `archive`

    sealer = Sealer(archive.database, archive.files)
    for model, day in days:
        try:
            if sealer.seal(model, day):
                _log.info("decisions sealed: %s, %s", model, date_of(day))
        except DatabaseAway:
            raise
        except Exception:  # noqa: BLE001 - one day must not hold up the others
            _log.exception("decisions not sealed: %s, %s", model, date_of(day))


def _remove(database: Database, table: Table, *where: ColumnElement[bool]) -> None:
    """Remove rows, some at a time, so that nobody waits long."""
    some = select(table.c.id).where(*where).limit(_BATCH)
    while True:
        with database.writing() as connection:
            ids = list(connection.execute(some).scalars())
            connection.execute(delete(table).where(table.c.id.in_(ids), *where))
        if len(ids) < _BATCH:
            return


def _remove_unused_terms(database: Database) -> None:
    """Remove terms that no row of the database needs; files have them in full."""
    table = DECISION_TERMS.c
    old = table.used_at < time() - _UNUSED_SECONDS
    with database.reading(without_timeout=True) as connection:
        candidates = set(connection.execute(select(table.digest).where(old)).scalars())
        if candidates:
            candidates.difference_update(connection.execute(select(DECISIONS.c.terms).distinct()).scalars())
    for some in rows.chunks(sorted(candidates), _BATCH):
        with database.writing() as connection:
            connection.execute(delete(DECISION_TERMS).where(table.digest.in_(some), old))


def _remove_abandoned(archive: Archive) -> None:
    """Remove files that this database noted a day ago and that its manifest does not name; no others.

    A file that it does not know may be the only place of decisions: it is there where the database was lost, is an
    older copy, or is another one.
    """
    with archive.database.reading() as connection:
        names = drafts(connection, time() - _ABANDONED_SECONDS)
    for some in rows.chunks(sorted(names)):
        for name in some:
            archive.storage.remove(name)
        with archive.database.writing() as connection:
            forget_drafts(connection, some)
    archive.storage.clean_up()


@contextmanager
def _alone(database: Database) -> Iterator[bool]:
    """Whether no other process is at it. On SQLite there may be two: the second one finds each day sealed."""
    if database.is_sqlite:
        yield True
        return
    with database.reading(without_timeout=True) as connection:
        yield bool(connection.execute(select(func.pg_try_advisory_xact_lock(_LOCK))).scalar())
