"""Recorded decisions and their outcomes: recent ones in SQL, whole days in files."""

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
    read_terms,
    sealed_files,
)
from app.outcomes.tables import (
    BY_ID,
    DECISIONS,
    ERASED,
    OUTCOMES,
    SEALED_FILES,
    SEALED_IDS,
)
from app.storage import Storage
from payoff.errors import Invalid

if TYPE_CHECKING:
    from app.outcomes.sealing import Sealer

_ARRIVALS = ("at", "terms", "segments", "truth", "outcome_at", "received_at")
_LOCATED = ("at", "choice", "expected", "digest", "probabilities", "terms")
_FURTHER = ("probabilities", "propensity", "client", "instance")
Allows = Callable[[str], bool]
"""Whether the caller may see a model."""


@dataclass(frozen=True)
class Located:
    """Where a decision is, and what an outcome of it may name.

    `files` are the sealed files of its day. `outcome` is its outcome in these files, of that
    `revision`; one in the table of outcomes is as new or newer. `choice` is an index into the
    actions. `variance` is that of the benefit by the probabilities; 0 without a matrix.
    """

    model: str
    version: int
    day: int
    terms: Terms
    at: float
    choice: int
    expected: float | None
    files: Sequence[SealedFile] = ()
    outcome: Outcome | None = None
    revision: int = 0
    digest: int | None = None
    variance: float = 0.0


class Archive:
    """Reads recorded decisions, from the database and from files."""

    def __init__(
        self, database: Database, url: str, *, retry_seconds: float = 0.0
    ) -> None:
        self.database = database
        self.storage = Storage(
            url, "rows.parquet", name="PAYOFF_DECISIONS", retry_seconds=retry_seconds
        )

    @cached_property
    def sealer(self) -> "Sealer":
        """Reads and writes files, with Arrow: some 60 MB that a service without files is spared."""
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
        newest_first: bool = False,
        action: str | None = None,
    ) -> Iterator[Cases]:
        """The decisions of a model from `since` until before `until`, day by day, each day as of
        one moment.

        A day may come in several parts; memory for one part at a time, and for the outcomes of the
        day. With `arrivals_only` all columns but `at`, `term`, `segment`, `truth`, `outcome_at` and
        `received_at` are empty. With an `action` a part has the cases for which it was decided,
        maybe none. Unavailable where the store is, or where the day changes during each of `ROUNDS`
        readings; Damaged where terms or a file are missing or damaged.
        """
        names = [
            *(_ARRIVALS if arrivals_only else COLUMNS),
            *["id"] * with_ids,
            *["instance"] * with_instances,
        ]
        query = CasesQuery(model, since, until, versions, names, action)
        first = -inf if since is None else since
        last = inf if until is None else until
        with self.database.reading() as connection:
            sealed = {
                day
                for _, day in sealed_files(connection, SEALED_FILES.c.model == model)
            }
            days = {
                day for day in sealed if first < (day + 1) * DAY and day * DAY < last
            }
            days.update(rows.days_of(connection, model, since, until))
        for day in sorted(days, reverse=newest_first):
            yield from self.sealer.files.day(self.database, query, day)

    def locate(
        self,
        ids: Collection[str],
        allows: Allows = lambda _: True,
        max_days: float = inf,
    ) -> dict[str, Located]:
        """Where decisions are, by their ids; ids of no recorded decision are left out.

        Reads files of at most `max_days` days, of the models that `allows` is true of. Invalid for
        more days; Damaged where a file that may have one of the ids is missing or damaged, and no
        other file has it.
        """
        for round_ in range(ROUNDS):
            try:
                with self.database.reading(without_timeout=True) as connection:
                    return self._locate(connection, ids, allows, max_days)
            except Replaced:
                if round_ == ROUNDS - 1:
                    raise
        raise AssertionError("unreachable")

    def row(
        self, id_: str, located: Located
    ) -> tuple[Mapping[str, Any], Outcome | None]:
        """The further columns of a located decision, and its newest outcome.

        Replaced where a file is missing, or the decision was moved into one meanwhile.
        """
        table = OUTCOMES.c
        columns = [DECISIONS.c[name] for name in _FURTHER]
        with self.database.reading() as connection:
            query = select(*columns).where(DECISIONS.c.id == id_)
            row: Any = connection.execute(query).mappings().first()
            query = select(
                table.truth, table.action, table.benefit, table.at, table.number
            ).where(table.id == id_)
            stated = connection.execute(query).first()
        outcome = located.outcome if stated is None else Outcome(*stated)
        for file in located.files:
            if file.kind == "decisions" and row is None:
                row = next(self.sealer.files.find(file, [id_], _FURTHER), None)
        if row is None:
            raise Replaced(f"of {located.model}, day {located.day},")
        return row, outcome

    def erase(
        self,
        id_: str,
        *,
        allowed: Allows = lambda _: True,
        also: Callable[[Connection], None] = lambda _: None,
    ) -> bool:
        """Remove a decision and its outcome from the database and from files; False where there is
        none, or its model is not `allowed`.

        `also` writes in the same transaction. After it no reader reads the decision; upkeep
        replaces the files that have it.
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
            connection.execute(
                insert(ERASED).values(id_digest=id_digest(id_), at=time(), **place)
            )
            also(connection)
        return True

    def _locate(
        self,
        connection: Connection,
        ids: Collection[str],
        allows: Allows,
        max_days: float,
    ) -> dict[str, Located]:
        located = _in_tables(connection, ids)
        unlocated = [id_ for id_ in ids if id_ not in located]
        places = _sealed_places(connection, unlocated) if unlocated else {}
        files: dict[Day, list[SealedFile]] = {}
        sealed_days = {day for _, day in places.values()}
        for days in chunks(
            sealed_days.union(decision.day for decision in located.values())
        ):
            files |= sealed_files(connection, SEALED_FILES.c.day.in_(days))
        if files and places:
            sealed = self._in_files(files, places, allows, max_days)
            erased = rows.erased(connection, sealed)
            located |= {id_: sealed[id_] for id_ in sealed if id_ not in erased}
        by_day: defaultdict[Day, list[str]] = defaultdict(list)
        for id_, decision in located.items():
            by_day[decision.model, decision.day].append(id_)
        for day in files.keys() & by_day.keys():
            outcomes = self._outcomes(files[day], by_day[day])
            located |= {
                id_: replace(located[id_], files=files[day], **outcomes.get(id_, {}))
                for id_ in by_day[day]
            }
        return located

    def _in_files(
        self,
        files: Mapping[Day, Sequence[SealedFile]],
        places: Mapping[str, tuple[str | None, int]],
        allows: Allows,
        max_days: float,
    ) -> dict[str, Located]:
        """The decisions in the files of their days."""
        by_place: defaultdict[tuple[str | None, int], list[str]] = defaultdict(list)
        for id_, place in places.items():
            by_place[place].append(id_)
        ids_of = {
            (model, day): [*by_place[model, day], *by_place[None, day]]
            for model, day in files
            if allows(model)
        }
        days = [day for day, ids in ids_of.items() if ids]
        if len(days) > max_days:
            raise Invalid(
                f"the ids are of {len(days):,} sealed days; at most {max_days} at a time:"
                " send fewer days"
            )
        located: dict[str, Located] = {}
        failures: dict[Day, Damaged] = {}
        for day in days:
            try:
                for file in files[day]:
                    if file.kind == "decisions":
                        located |= {
                            row["id"]: _located(*day, read_terms(row["terms"]), row)
                            for row in self.sealer.files.find(
                                file, ids_of[day], _LOCATED
                            )
                        }
            except Damaged as error:
                failures[day] = error
        for day, failure in failures.items():
            if any(id_ not in located for id_ in ids_of[day]):
                raise failure
        return located

    def _outcomes(
        self, files: Sequence[SealedFile], ids: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """The fields `outcome` and `revision` of decisions whose outcomes are in files of their
        day, by id.
        """
        fields: dict[str, dict[str, Any]] = {}
        for file in files:
            if file.kind != "outcomes":
                continue
            for row in self.sealer.files.find(file, ids, OUTCOME):
                id_, revision = row["id"], row["revision"]
                if id_ not in fields or fields[id_]["revision"] < revision:
                    outcome = Outcome(
                        row["truth"],
                        row["action"],
                        row["benefit"],
                        row["outcome_at"],
                        row["number"],
                    )
                    fields[id_] = {"outcome": outcome, "revision": revision}
        return fields


def _sealed_places(
    connection: Connection, ids: Sequence[str]
) -> dict[str, tuple[str | None, int]]:
    """The model and the day of sealed decisions by id, as far as the id alone shows them."""
    table = SEALED_IDS.c
    places: dict[str, tuple[str | None, int]] = {}
    for chunk in chunks(ids):
        query = select(table.id, table.model, table.day).where(table.id.in_(chunk))
        places |= {id_: (model, day) for id_, model, day in connection.execute(query)}
    for id_ in ids:
        day = day_of_id(id_)
        if (
            id_ not in places and day is not None
        ):  # an id of the service contains no model
            places[id_] = None, day
    return places


def _in_tables(connection: Connection, ids: Iterable[str]) -> dict[str, Located]:
    columns = [DECISIONS.c[name] for name in ("id", "model", *_LOCATED)]
    located = {}
    for chunk in chunks(ids):  # so that not all probabilities are in memory at once
        query = select(*columns).where(DECISIONS.c.id.in_(chunk))
        decisions = [dict(row) for row in connection.execute(query).mappings()]
        contents = rows.contents(connection, (row["terms"] for row in decisions))
        for row in decisions:
            terms = read_terms(contents[row["terms"]])
            located[row["id"]] = _located(row["model"], day_of(row["at"]), terms, row)
    return located


def _located(model: str, day: int, terms: Terms, row: Mapping[str, Any]) -> Located:
    variance = 0.0
    if terms.benefits is not None:
        payoffs = np.array([benefits[row["choice"]] for benefits in terms.benefits])
        # The bytes are filled up where other decisions of the file have more classes.
        P = np.frombuffer(row["probabilities"], "<f8")[: len(payoffs)]
        variance = float(P @ (payoffs - P @ payoffs) ** 2)
    return Located(
        model,
        terms.version,
        day,
        terms,
        row["at"],
        row["choice"],
        row["expected"],
        digest=row["digest"],
        variance=variance,
    )
