"""What workers do with recorded decisions every hour: seal days that are over, and remove what must
not be kept.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import time

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select

from app.database.engine import Database, DatabaseAway
from app.outcomes import rows
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY, date_of, day_of
from app.outcomes.rows import Day, SealedFile, sealed_files
from app.outcomes.tables import (
    DECISION_TERMS,
    DECISIONS,
    ERASED,
    OUTCOMES,
    SEALED_FILES,
    SEALED_IDS,
    SHADOW_DECISIONS,
)

SETTLED_SECONDS = 2 * 3600.0  # after the end of a day no decision of it is being recorded any more
MANY = 10_000  # outcomes, which are read from a file faster than from the database
_UNUSED_SECONDS = DAY  # processes remember for an hour that terms are stored
_ABANDONED_SECONDS = DAY
BATCH = 2_000  # rows that one transaction removes

_LOCK = 5_417_916_016_016  # the number of the lock of this work
_MODELS = (DECISIONS, OUTCOMES, SHADOW_DECISIONS, SEALED_IDS)

_log = logging.getLogger(__name__)


def due(connection: Connection, now: float) -> list[Day]:
    """Models and days to be sealed, or of which enough decisions or outcomes came later.

    A row of SQL costs a reader microseconds, a further file milliseconds. So a sealed day gets a
    file daily where many outcomes wait, else 1, 2, 4, 8 … days after its last one: as many as the
    logarithm of its age.
    """
    over = day_of(now - SETTLED_SECONDS) * DAY
    sealed = sealed_files(connection)
    day = OUTCOMES.c.model, OUTCOMES.c.day
    counted = connection.execute(select(*day, func.count()).group_by(*day))
    outcomes = {(model, day): count for model, day, count in counted if (model, day) in sealed}
    found = set(outcomes)
    for model in rows.each_value(connection, DECISIONS.c.model):
        found.update((model, day) for day in rows.days_of(connection, model, None, over))
    return sorted(
        one
        for one in found
        if one not in sealed or _is_enough(sealed[one], outcomes.get(one, 0), now)
    )


def _is_enough(files: Sequence[SealedFile], outcomes: int, now: float) -> bool:
    """Whether it is time for further files of a day, which has two of the first time: of decisions,
    and of outcomes.
    """
    days = (now - files[-1].at) / DAY
    return days >= (1 if outcomes >= MANY else 2 ** max(len(files) - 2, 0))


def keep_up(archive: Archive, keep_seconds: float | None, *, seals: bool = True) -> None:
    """Seal what is due, if at all, and remove what has expired and what is left over. One process
    does so at a time.
    """
    with alone(archive.database) as is_alone:
        if not is_alone:
            return
        if keep_seconds is not None:
            expire(archive, keep_seconds)
        with archive.database.reading() as connection:
            days = due(connection, time())
        if days and not seals:
            _log.warning(
                "recorded decisions stay in the database: set PAYOFF_DECISIONS to a store that is shared"
            )
        else:
            _each(days, archive, "sealed", lambda sealer, *day: sealer.seal(*day))
        with archive.database.reading() as connection:
            has_erased = (
                select(ERASED.c.model, ERASED.c.day).where(ERASED.c.id.is_not(None)).distinct()
            )
            erased = [(row.model, row.day) for row in connection.execute(has_erased)]
        _each(
            erased,
            archive,
            "written without what was erased",
            lambda sealer, *day: sealer.purge(*day),
        )
        _remove_unused_terms(archive.database)
        _remove_abandoned(archive)


def _each(days: Iterable[Day], archive: Archive, what: str, work: Callable[..., object]) -> None:
    """Do something with each day, on which no other one depends."""
    for model, day in days:
        try:
            if work(archive.sealer, model, day) is not False:
                _log.info("decisions %s: %s, %s", what, model, date_of(day))
        except DatabaseAway:
            raise
        except Exception:  # noqa: BLE001 - one day must not hold up the others
            _log.exception("decisions not %s: %s, %s", what, model, date_of(day))


def expire(archive: Archive, keep_seconds: float) -> None:
    """Remove all of the days that ended longer ago than that."""
    before = day_of(time() - keep_seconds)
    with archive.database.reading() as connection:
        old = [
            file.file
            for (_, day), files in sealed_files(connection).items()
            if day < before
            for file in files
        ]
        models = {
            model for table in _MODELS for model in rows.each_value(connection, table.c.model)
        }
    if old:
        archive.sealer.discard(old)
    for model in sorted(models):
        _remove(
            archive.database, DECISIONS, DECISIONS.c.model == model, DECISIONS.c.at < before * DAY
        )
        for table in (OUTCOMES, SHADOW_DECISIONS, SEALED_IDS):
            _remove(archive.database, table, table.c.model == model, table.c.day < before)


def _remove(database: Database, table: Table, *where: ColumnElement[bool]) -> None:
    """Remove rows, some at a time, so that nobody waits long."""
    some = select(table.c.id).where(*where).limit(BATCH)
    while True:
        with database.writing() as connection:
            ids = list(connection.execute(some).scalars())
            connection.execute(delete(table).where(table.c.id.in_(ids), *where))
        if len(ids) < BATCH:
            return


def _remove_unused_terms(database: Database) -> None:
    """Remove terms that no row of the database needs; files have them in full."""
    table = DECISION_TERMS.c
    old = table.used_at < time() - _UNUSED_SECONDS
    with database.reading(without_timeout=True) as connection:
        candidates = set(connection.execute(select(table.digest).where(old)).scalars())
        if candidates:
            candidates.difference_update(
                connection.execute(select(DECISIONS.c.terms).distinct()).scalars()
            )
    for some in rows.chunks(sorted(candidates), BATCH):
        with database.writing() as connection:
            connection.execute(delete(DECISION_TERMS).where(table.digest.in_(some), old))


def _remove_abandoned(archive: Archive) -> None:
    """Remove files that this database noted, and that no reader has read for a day; no others.

    A file that it does not know may be the only place of decisions: it is there where the database
    was lost, is an older copy, or is another one.
    """
    table = SEALED_FILES.c
    with archive.database.reading() as connection:
        old = select(table.file).where(~table.is_current, table.at < time() - _ABANDONED_SECONDS)
        names = connection.execute(old).scalars().all()
    if names:
        archive.sealer.remove(names)
    archive.storage.clean_up()


@contextmanager
def alone(database: Database) -> Iterator[bool]:
    """Whether no other process is at it. On SQLite there may be two: the second one finds each day
    sealed.
    """
    if database.is_sqlite:
        yield True
        return
    with database.reading(without_timeout=True) as connection:
        yield bool(connection.execute(select(func.pg_try_advisory_xact_lock(_LOCK))).scalar())
