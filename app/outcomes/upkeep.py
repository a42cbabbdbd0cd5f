"""The hourly work on recorded decisions: seal days that are over, and remove expired data."""

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

# No decision of a day is being recorded any more once it has ended so long ago.
SETTLED_SECONDS = 2 * 3600.0
MANY_OUTCOMES = 10_000  # are read from a file faster than from the database
_UNUSED_SECONDS = DAY  # processes remember for an hour that terms are stored
_ABANDONED_SECONDS = DAY
BATCH = 2_000  # rows that one transaction removes

_LOCK = 5_417_916_016_016  # the number of the lock of this work
_MODELS = (DECISIONS, OUTCOMES, SHADOW_DECISIONS, SEALED_IDS)

_log = logging.getLogger(__name__)


def due(connection: Connection, at: float) -> list[Day]:
    """Models and days to be sealed, or of which enough decisions or outcomes came later.

    A row of SQL costs a reader microseconds, a further file milliseconds. So a sealed day gets a
    file daily where many outcomes wait, else 1, 2, 4, 8 … days after its last one: as many as the
    logarithm of its age.
    """
    over = day_of(at - SETTLED_SECONDS) * DAY
    sealed = sealed_files(connection)
    day = OUTCOMES.c.model, OUTCOMES.c.day
    counted = connection.execute(select(*day, func.count()).group_by(*day))
    outcomes = {
        (model, day): count for model, day, count in counted if (model, day) in sealed
    }
    days = set(outcomes)
    for model in rows.distinct_values(connection, DECISIONS.c.model):
        days.update((model, day) for day in rows.days_of(connection, model, None, over))
    return sorted(
        day
        for day in days
        if day not in sealed or _needs_files(sealed[day], outcomes.get(day, 0), at)
    )


def _needs_files(files: Sequence[SealedFile], outcomes: int, at: float) -> bool:
    """Whether it is time for further files of a day, whose first two files are of decisions and of
    outcomes.
    """
    days = (at - files[-1].at) / DAY
    interval = 1 if outcomes >= MANY_OUTCOMES else 2 ** max(len(files) - 2, 0)
    return days >= interval


def keep_up(
    archive: Archive, keep_seconds: float | None, *, seals: bool = True
) -> None:
    """Seal the days that are due where `seals`, and remove expired days, erased decisions, unused
    terms and abandoned files. One process does so at a time.
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
                "recorded decisions stay in the database:"
                " set PAYOFF_DECISIONS to a store that is shared"
            )
        elif days:
            _process(days, "sealed", archive.sealer.seal)
        with archive.database.reading() as connection:
            query = (
                select(ERASED.c.model, ERASED.c.day)
                .where(ERASED.c.id.is_not(None))
                .distinct()
            )
            erased = [(row.model, row.day) for row in connection.execute(query)]
        if erased:
            _process(erased, "written without erased cases", archive.sealer.purge)
        _remove_unused_terms(archive.database)
        _remove_abandoned(archive)


def _process(
    days: Iterable[Day], result: str, work: Callable[[str, int], bool | None]
) -> None:
    """Call `work` with each model and day, and log the `result`."""
    for model, day in days:
        try:
            if work(model, day) is not False:
                _log.info("decisions %s: %s, %s", result, model, date_of(day))
        except DatabaseAway:
            raise
        except Exception:  # noqa: BLE001 - one day must not hold up the others
            _log.exception("decisions not %s: %s, %s", result, model, date_of(day))


def expire(archive: Archive, keep_seconds: float) -> None:
    """Remove the days that ended more than `keep_seconds` ago, with their files."""
    before = day_of(time() - keep_seconds)
    with archive.database.reading() as connection:
        old = [
            file.file
            for (_, day), files in sealed_files(connection).items()
            if day < before
            for file in files
        ]
        models = {
            model
            for table in _MODELS
            for model in rows.distinct_values(connection, table.c.model)
        }
    if old:
        archive.sealer.discard(old)
    for model in sorted(models):
        _remove(
            archive.database,
            DECISIONS,
            DECISIONS.c.model == model,
            DECISIONS.c.at < before * DAY,
        )
        for table in (OUTCOMES, SHADOW_DECISIONS, SEALED_IDS):
            _remove(
                archive.database, table, table.c.model == model, table.c.day < before
            )


def _remove(database: Database, table: Table, *where: ColumnElement[bool]) -> None:
    """Remove rows, `BATCH` at a time, so that no other writer waits long."""
    batch = select(table.c.id).where(*where).limit(BATCH)
    while True:
        with database.writing() as connection:
            ids = list(connection.execute(batch).scalars())
            connection.execute(delete(table).where(table.c.id.in_(ids), *where))
        if len(ids) < BATCH:
            return


def _remove_unused_terms(database: Database) -> None:
    """Remove terms that no row of the database needs; files contain their own terms."""
    table = DECISION_TERMS.c
    old = table.used_at < time() - _UNUSED_SECONDS
    with database.reading(without_timeout=True) as connection:
        candidates = set(connection.execute(select(table.digest).where(old)).scalars())
        if candidates:
            candidates.difference_update(
                connection.execute(select(DECISIONS.c.terms).distinct()).scalars()
            )
    for digests in rows.chunks(sorted(candidates), BATCH):
        with database.writing() as connection:
            connection.execute(
                delete(DECISION_TERMS).where(table.digest.in_(digests), old)
            )


def _remove_abandoned(archive: Archive) -> None:
    """Remove files of this database that have not been current for a day, and no other files.

    A file that the database does not know may be the only place of decisions: such files exist
    where the database was lost, is an older copy, or is another one.
    """
    table = SEALED_FILES.c
    with archive.database.reading() as connection:
        old = select(table.file).where(
            ~table.is_current, table.at < time() - _ABANDONED_SECONDS
        )
        names = connection.execute(old).scalars().all()
    if names:
        archive.sealer.remove(names)
    archive.storage.clean_up()


@contextmanager
def alone(database: Database) -> Iterator[bool]:
    """Whether no other process does this work. On SQLite two may: the second one finds each day
    sealed.
    """
    if database.is_sqlite:
        yield True
        return
    with database.reading(without_timeout=True) as connection:
        yield bool(
            connection.execute(select(func.pg_try_advisory_xact_lock(_LOCK))).scalar()
        )
