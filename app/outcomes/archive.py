"""Recorded decisions and their outcomes, wherever they are kept: recent ones in SQL, whole days in files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, select

from app.database import Database
from app.errors import NotFound, Unavailable
from app.outcomes import locating, rows
from app.outcomes.cases import COLUMNS, Cases, cases_of_rows
from app.outcomes.identity import DAY
from app.outcomes.locating import EVERYWHERE, Located, Reach, Told
from app.outcomes.manifest import SealedDay, sealed_day, sealed_days
from app.outcomes.tables import DECISIONS, SEALED_DAYS, SHADOW_DECISIONS
from app.storage import Storage

if TYPE_CHECKING:
    from app.outcomes.sealed_files import SealedFiles

__all__ = ["Archive", "Located", "Told"]

_ARRIVALS = ("at", "terms", "truth", "outcome_at", "received_at")

# Arrow takes some 60 MB of memory, which a service that only predicts need not spend: what uses it is imported where
# the first sealed day is read or written.


@dataclass(frozen=True)
class _Asked:
    """What `cases` was asked for."""

    model: str
    since: float | None
    until: float | None
    versions: Collection[int] | None
    names: Sequence[str]

    def covers(self, day: int) -> bool:
        is_over = self.since is not None and (day + 1) * DAY <= self.since
        return not is_over and (self.until is None or day * DAY < self.until)

    def where(self, day: int) -> list[ColumnElement[bool]]:
        """The condition on rows of the day."""
        conditions = rows.of_day(self.model, day)
        if self.since is not None:
            conditions.append(DECISIONS.c.at >= self.since)
        if self.until is not None:
            conditions.append(DECISIONS.c.at < self.until)
        if self.versions is not None:
            conditions.append(DECISIONS.c.version.in_(self.versions))
        return conditions


class Archive:
    """Reads what was recorded, wherever it is."""

    def __init__(self, database: Database, url: str, *, retry_seconds: float = 0.0) -> None:
        self.database = database
        self.storage = Storage(url, "decisions.parquet", name="PAYOFF_DECISIONS", retry_seconds=retry_seconds)

    @cached_property
    def files(self) -> SealedFiles:
        from app.outcomes.sealed_files import SealedFiles  # noqa: PLC0415  (see the note on Arrow above)

        return SealedFiles(self.storage)

    def check(self) -> None:
        """Unavailable where the store of sealed days cannot be reached, Unusable where that will not pass by itself."""
        self.storage.check()

    def cases(
        self,
        model: str,
        *,
        since: float | None = None,
        until: float | None = None,
        versions: Collection[int] | None = None,
        with_ids: bool = False,
        with_instances: bool = False,
        arrivals_only: bool = False,
    ) -> Iterator[Cases]:
        """The decisions of a model from `since` until before `until`, day by day, each day as of one moment.

        A day may come in several parts; memory for one part at a time, and for the outcomes of the day that are not in
        its file. With `arrivals_only` all columns but `at`, `term`, `truth`, `outcome_at` and `received_at` are empty.
        Unavailable where the store is, or the day changes all the time; Damaged where a file is missing or
        is not what was written.
        """
        extra = {"id": with_ids, "instance": with_instances}
        names = [*(_ARRIVALS if arrivals_only else COLUMNS), *(name for name, is_asked in extra.items() if is_asked)]
        asked = _Asked(model, since, until, versions, names)
        for day in self.days(model, since=since, until=until):
            yield from self._day(asked, day)

    def days(self, model: str, *, since: float | None = None, until: float | None = None) -> list[int]:
        """The days, since 1970, that may have decisions of a model in the period, in order."""
        asked = _Asked(model, since, until, None, ())
        with self.database.reading() as connection:
            sealed = {day.day for day in sealed_days(connection, model) if asked.covers(day.day)}
            return sorted(sealed.union(rows.days_of(connection, model, since, until)))

    def locate(self, ids: Collection[str], reach: Reach = EVERYWHERE) -> dict[str, Located]:
        """Where decisions are, by their ids; those that are nowhere are left out, and sealed ones out of reach.

        Damaged where a file that may have one of them is missing or damaged.
        """
        missing = ""
        for attempt in count(1):
            try:
                with self.database.reading(without_timeout=True) as connection:
                    is_sealed = connection.execute(select(SEALED_DAYS.c.day).limit(1)).first() is not None
                    return locating.locate(connection, self.files if is_sealed else None, ids, reach)
            except locating.Replaced as replaced:
                locating.again(attempt, replaced.file, missing)
                missing = replaced.file
        raise AssertionError("unreachable")

    def erase(
        self,
        id_: str,
        *,
        allowed: Callable[[str], bool] = lambda _: True,
        also: Callable[[Connection], None] = lambda _: None,
    ) -> bool:
        """Remove a decision and all of it everywhere; False where there is none, or its model is not `allowed`.

        `also` writes in the same transaction.

        Seconds where the day is sealed, since its file is written again. Unavailable where the store is.
        """
        from app.outcomes.erasing import erase  # noqa: PLC0415

        return erase(self, id_, also, allowed)

    def _day(self, asked: _Asked, day: int) -> Iterator[Cases]:
        missing = ""
        for attempt in count(1):
            with self.database.reading(without_timeout=True) as connection:
                sealed = sealed_day(connection, asked.model, day)
                if sealed is None:
                    yield from self._in_tables(connection, asked, day)
                    return
                try:
                    found = self._in_file(connection, asked, sealed)
                    first = next(found, None)
                    late = list(self._late(connection, asked, sealed))
                except NotFound:
                    locating.again(attempt, sealed.file, missing)
                    missing = sealed.file
                    continue
            yield from late
            if first is not None:
                yield first
                yield from self._rest(found)
            return

    def _rest(self, found: Iterator[Cases]) -> Iterator[Cases]:
        try:
            yield from found
        except (NotFound, FileNotFoundError) as error:  # a store on the network may lose it while it is read
            raise Unavailable("a day of recorded decisions was replaced while it was read; try again") from error

    def _in_tables(self, connection: Connection, asked: _Asked, day: int) -> Iterator[Cases]:
        table = SHADOW_DECISIONS.c
        query = select(table.id).where(table.model == asked.model, table.day == day).limit(1)
        has_shadows = connection.execute(query).first() is not None
        names = list(dict.fromkeys([*asked.names, "id"])) if has_shadows else asked.names
        for batch in rows.batches(connection, names, asked.where(day)):
            yield from self._cases(connection, asked, day, batch)

    def _in_file(self, connection: Connection, asked: _Asked, sealed: SealedDay) -> Iterator[Cases]:
        """The cases of the file, which stays open; the first one reads all that is needed of the database."""
        from app.outcomes import sealed_cases, sealed_files  # noqa: PLC0415

        with self.files.open(sealed.file) as file:
            yield from sealed_cases.cases_of_file(
                sealed.day,
                file,
                sealed_files.outcomes_of(rows.outcomes(connection, sealed.model, sealed.day)),
                asked.names,
                since=asked.since,
                until=asked.until,
                versions=asked.versions,
            )

    def _late(self, connection: Connection, asked: _Asked, sealed: SealedDay) -> Iterator[Cases]:
        """The rows of a sealed day that are not in its file: those that came later."""
        from app.outcomes.sealed_cases import without  # noqa: PLC0415

        ids = None
        for batch in rows.batches(connection, list(dict.fromkeys([*asked.names, "id"])), asked.where(sealed.day)):
            if ids is None:
                with self.files.open(sealed.file) as file:
                    ids = file.ids()
            yield from self._cases(connection, asked, sealed.day, without(batch, ids))

    def _cases(self, connection: Connection, asked: _Asked, day: int, batch: rows.ColumnBatch) -> Iterator[Cases]:
        """The cases of a batch, if any."""
        if batch["terms"]:
            whole, contents = rows.with_terms(connection, batch)
            shadows = rows.shadows(connection, whole["id"]) if "id" in whole else {}
            lost = len(batch["terms"]) - len(whole["terms"])
            yield replace(cases_of_rows(day, whole, asked.names, contents, shadows), lost=lost)
