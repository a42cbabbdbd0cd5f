"""Recorded decisions and their outcomes, wherever they are kept: recent ones in SQL, whole days in
files.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from time import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Connection, delete, insert, select

from app.database.engine import Database
from app.errors import Damaged
from app.outcomes import rows
from app.outcomes.decision import (
    COLUMNS,
    DAY,
    Cases,
    CasesQuery,
    Outcome,
    Terms,
    day_of,
    day_of_id,
    id_digest,
)
from app.outcomes.rows import (
    OUTCOME,
    ROUNDS,
    Day,
    Replaced,
    SealedFile,
    chunks,
    fetched,
    read_terms,
    sealed_files,
)
from app.outcomes.tables import BY_ID, DECISIONS, ERASED, SEALED_FILES, SEALED_IDS
from app.storage import Storage
from payoff.errors import Invalid

if TYPE_CHECKING:
    from app.outcomes.sealing import Sealer

_ARRIVALS = ("at", "terms", "truth", "outcome_at", "received_at")
_LOCATED = ("at", "choice", "expected", "digest", "probabilities", "terms")
Allows = Callable[[str], bool]
"""Whether the caller may see a model."""


@dataclass(frozen=True)
class Located:
    """Where a decision is, and what an outcome of it may name.

    `files` are those of its day. `told` is the outcome in them, of that `revision`; one in the
    table of outcomes is as new or newer.
    """

    model: str
    version: int
    day: int
    terms: Terms
    at: float
    choice: int  # an index into the actions
    expected: float | None
    files: Sequence[SealedFile] = ()
    told: Outcome | None = None
    revision: int = 0
    digest: int | None = None
    variance: float = 0.0  # of the benefit by the probabilities; 0 without a matrix


class Archive:
    """Reads what was recorded, wherever it is."""

    def __init__(self, database: Database, url: str, *, retry_seconds: float = 0.0) -> None:
        self.database = database
        self.storage = Storage(
            url, "rows.parquet", name="PAYOFF_DECISIONS", retry_seconds=retry_seconds
        )

    @cached_property
    def sealer(self) -> "Sealer":
        """What reads and writes files, with Arrow: some 60 MB, which a service that only predicts
        need not spend.
        """
        from app.outcomes.sealing import Sealer  # noqa: PLC0415

        return Sealer(self.database, self.storage)

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
        """The decisions of a model from `since` until before `until`, day by day, each day as of
        one moment.

        A day may come in several parts; memory for one part at a time, and for the outcomes of the
        day. With `arrivals_only` all columns but `at`, `term`, `truth`, `outcome_at` and
        `received_at` are empty. Unavailable where the store is, or the day changes all the time;
        Damaged where terms or a file are missing, or a file is not what was written.
        """
        names = [
            *(_ARRIVALS if arrivals_only else COLUMNS),
            *["id"] * with_ids,
            *["instance"] * with_instances,
        ]
        asked = CasesQuery(model, since, until, versions, names)
        first, last = -inf if since is None else since, inf if until is None else until
        with self.database.reading() as connection:
            sealed = {day for _, day in sealed_files(connection, SEALED_FILES.c.model == model)}
            within = {day for day in sealed if first < (day + 1) * DAY and day * DAY < last}
            days = within.union(rows.days_of(connection, model, since, until))
        for day in sorted(days):
            yield from self.sealer.files.day(self.database, asked, day)

    def locate(
        self, ids: Collection[str], allows: Allows = lambda _: True, most_days: float = inf
    ) -> dict[str, Located]:
        """Where decisions are, by their ids; those that are nowhere are left out.

        Files are read of at most so many days, of the models that `allows` is true of. Invalid for
        more days; Damaged where a file that may have one of them is missing or damaged, and no
        other has it.
        """
        for left in reversed(range(ROUNDS)):
            try:
                with self.database.reading(without_timeout=True) as connection:
                    return self._locate(connection, ids, allows, most_days)
            except Replaced:
                if not left:
                    raise
        raise AssertionError("unreachable")

    def erase(
        self,
        id_: str,
        *,
        allowed: Allows = lambda _: True,
        also: Callable[[Connection], None] = lambda _: None,
    ) -> bool:
        """Remove a decision and all of it everywhere; False where there is none, or its model is
        not `allowed`.

        `also` writes in the same transaction. Nobody reads it any more at once; upkeep replaces the
        files that have it.
        """
        located = self.locate([id_]).get(id_)
        if located is None or not allowed(located.model):
            return False
        with self.database.writing() as connection:
            rows.lock(connection)
            rows.lock(connection, rows.RECORDING_LOCK)
            if rows.erased(connection, [id_]):
                return False
            for table in BY_ID:
                connection.execute(delete(table).where(table.c.id == id_))
            place = {"id": id_, "model": located.model, "day": located.day}
            connection.execute(insert(ERASED).values(id_digest=id_digest(id_), at=time(), **place))
            also(connection)
        return True

    def _locate(
        self, connection: Connection, ids: Collection[str], allows: Allows, most_days: float
    ) -> dict[str, Located]:
        found = _in_tables(connection, ids)
        others = [id_ for id_ in ids if id_ not in found]
        table = SEALED_IDS.c
        given = fetched(
            connection,
            lambda some: select(table.id, table.model, table.day).where(table.id.in_(some)),
            others,
        )
        places: dict[str, tuple[str | None, int]] = {id_: (model, day) for id_, model, day in given}
        for id_ in others:  # one of ours has its day within, but not its model
            if id_ not in places and (own := day_of_id(id_)) is not None:
                places[id_] = None, own
        files: dict[Day, list[SealedFile]] = {}
        for days in chunks(
            {day for _, day in places.values()}.union(each.day for each in found.values())
        ):
            files |= sealed_files(connection, SEALED_FILES.c.day.in_(days))
        if files and places:
            sealed = self._in_files(files, places, allows, most_days)
            gone = rows.erased(connection, sealed)
            found |= {id_: each for id_, each in sealed.items() if id_ not in gone}
        by_day: defaultdict[Day, list[str]] = defaultdict(list)
        for id_, each in found.items():
            by_day[each.model, each.day].append(id_)
        for day in files.keys() & by_day.keys():
            told = self._told(files[day], by_day[day])
            found |= {
                id_: replace(found[id_], files=files[day], **told.get(id_, {}))
                for id_ in by_day[day]
            }
        return found

    def _in_files(
        self,
        files: Mapping[Day, Sequence[SealedFile]],
        places: Mapping[str, tuple[str | None, int]],
        allows: Allows,
        most_days: float,
    ) -> dict[str, Located]:
        """The decisions of days that may have them."""
        by_place: defaultdict[tuple[str | None, int], list[str]] = defaultdict(list)
        for id_, place in places.items():
            by_place[place].append(id_)
        fitting = {
            (model, day): [*by_place[model, day], *by_place[None, day]] for model, day in files
        }
        days = [(of_day, some) for of_day, some in fitting.items() if some and allows(of_day[0])]
        if len(days) > most_days:
            raise Invalid(
                f"the ids are of {len(days):,} sealed days; at most {most_days} at a time: send fewer days"
            )
        found: dict[str, Located] = {}
        unread: list[tuple[Damaged, list[str]]] = []
        for of_day, some in days:
            try:
                for file in files[of_day]:
                    if file.kind == "decisions":
                        found |= {
                            row["id"]: _located(*of_day, read_terms(row["terms"]), row)
                            for row in self.sealer.files.find(file, some, _LOCATED)
                        }
            except Damaged as error:
                unread.append((error, some))
        for failure, some in unread:
            if any(id_ not in found for id_ in some):
                raise failure
        return found

    def _told(self, files: Sequence[SealedFile], ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """`told` and `revision` of the last outcomes of decisions in the files of their day."""
        found: dict[str, dict[str, Any]] = {}
        for file in files:
            for row in (
                self.sealer.files.find(file, ids, OUTCOME) if file.kind == "outcomes" else ()
            ):
                if row["id"] not in found or found[row["id"]]["revision"] < row["revision"]:
                    told = Outcome(
                        row["truth"],
                        row["action"],
                        row["benefit"],
                        row["outcome_at"],
                        row["number"],
                    )
                    found[row["id"]] = {"told": told, "revision": row["revision"]}
        return found


def _in_tables(connection: Connection, ids: Iterable[str]) -> dict[str, Located]:
    columns, located = [DECISIONS.c[name] for name in ("id", "model", *_LOCATED)], {}
    for some in chunks(ids):  # so that not all probabilities are in memory at once
        query = select(*columns).where(DECISIONS.c.id.in_(some))
        found = [dict(row) for row in connection.execute(query).mappings()]
        contents = rows.contents(connection, (row["terms"] for row in found))
        for row in found:
            terms = read_terms(contents[row["terms"]])
            located[row["id"]] = _located(row["model"], day_of(row["at"]), terms, row)
    return located


def _located(model: str, day: int, terms: Terms, row: Mapping[str, Any]) -> Located:
    variance = 0.0
    if terms.benefits is not None:
        payoffs = np.array([own[row["choice"]] for own in terms.benefits])
        P = np.frombuffer(row["probabilities"], "<f8")[
            : len(payoffs)
        ]  # filled up where others have more classes
        variance = float(P @ (payoffs - P @ payoffs) ** 2)
    made = row["at"], row["choice"], row["expected"]
    return Located(model, terms.version, day, terms, *made, digest=row["digest"], variance=variance)
