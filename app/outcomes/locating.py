"""Where decisions are, by their ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Connection, Select, select

from app.errors import Damaged, Invalid, NotFound, Unavailable
from app.outcomes import rows
from app.outcomes.identity import day_of, day_of_id
from app.outcomes.manifest import SealedDay, sealed_days
from app.outcomes.rows import OUTCOME, chunks, fetched, read_terms
from app.outcomes.tables import DECISIONS, SEALED_IDS
from app.outcomes.terms import Label, Terms

if TYPE_CHECKING:
    from app.outcomes.sealed_files import SealedFiles

_MOST = 1e300  # of a third moment: sums of many stay finite
ROUNDS = 5  # of reading the manifest again where a file was replaced


@dataclass(frozen=True)
class Told:
    """An outcome as it is stored: `truth` and `action` are indices into the classes and actions of its decision."""

    truth: int
    action: int | None
    benefit: float | None
    at: float | None
    received_at: float
    revision: int


@dataclass(frozen=True)
class Located:
    """Where a decision is, and what an outcome of it may name.

    `file` holds the decision; None while it is in the table of decisions. `told` is the outcome in the file; one in the
    table of outcomes is as new or newer.
    """

    model: str
    version: int
    day: int
    terms: Terms
    at: float
    choice: int  # an index into the actions
    expected: float | None
    file: str | None = None
    told: Told | None = None
    digest: int | None = None
    moments: tuple[float, float] = 0.0, 0.0  # the second and the third of the benefit, central, see `moments`

    @property
    def classes(self) -> tuple[Label, ...]:
        return self.terms.classes

    @property
    def actions(self) -> tuple[Label, ...]:
        return self.terms.actions


class Replaced(Exception):
    """Since the manifest was read, this file was replaced."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.file = file


@dataclass(frozen=True)
class Reach:
    """Which sealed days may be looked into: those of models that `allows` is true of, at most so many."""

    allows: Callable[[str], bool] = lambda _: True
    days: int | None = None


EVERYWHERE = Reach()


def locate(
    connection: Connection, files: SealedFiles | None, ids: Collection[str], reach: Reach = EVERYWHERE
) -> dict[str, Located]:
    """See `Archive.locate`; Replaced where a file was replaced meanwhile. `files` is None where no day is sealed.

    Damaged where a file that may have one of the ids cannot be read, and no other has it; Invalid beyond the reach.
    """
    found = _in_tables(connection, ids)
    missing = [id_ for id_ in ids if id_ not in found]
    if files is not None and missing:
        unread: list[tuple[Exception, list[str]]] = []
        days = [each for each in _candidates(connection, missing) if reach.allows(each[0].model)]
        if reach.days is not None and len(days) > reach.days:
            raise Invalid(f"the ids are of {len(days):,} sealed days; at most {reach.days} at a time: send fewer days")
        for day, some in days:
            try:
                found |= _in_file(files, day, some)
            except (Damaged, Replaced) as error:
                unread.append((error, some))
        for failure, some in unread:
            if any(id_ not in found for id_ in some):
                raise failure
    return found


def again(attempt: int, file: str = "", before: str = "") -> None:
    """Unavailable after too many attempts at what others change meanwhile.

    `file` is the one that was missing, `before` the one of the attempt before: Damaged where these are the same.
    """
    if file and file == before:
        raise Damaged(f"the file {file} of recorded decisions is missing: restore it from a backup")
    if attempt >= ROUNDS:
        raise Unavailable("recorded decisions are being moved by another process; try again later")


def _in_file(files: SealedFiles, day: SealedDay, ids: Sequence[str]) -> dict[str, Located]:
    names = ["id", "terms", "at", "choice", "expected", "digest", "probabilities", *OUTCOME]
    try:
        with files.open(day.file) as file:
            return {row["id"]: _of_file(day, row) for table in file.find(ids, names) for row in table.to_pylist()}
    except NotFound as error:
        raise Replaced(day.file) from error


def _in_tables(connection: Connection, ids: Iterable[str]) -> dict[str, Located]:
    table = DECISIONS.c

    def query(some: list[str]) -> Select[Any]:
        made = (table.at, table.choice, table.expected, table.digest, table.probabilities)
        return select(table.id, table.model, table.version, *made, table.terms).where(table.id.in_(some))

    located = {}
    for some in chunks(ids):  # so that not all probabilities are in memory at once
        found = list(fetched(connection, query, some))
        contents = rows.contents(connection, {row[-1] for row in found})
        terms = {digest: read_terms(content) for digest, content in contents.items()}
        for id_, model, version, at, choice, expected, digest, P, named in found:
            if named not in terms:
                raise Damaged(f"the terms of the decision {id_!r} are missing: restore the database from a backup")
            own = moments(terms[named], choice, P)
            day = day_of(at)
            located[id_] = Located(model, version, day, terms[named], at, choice, expected, digest=digest, moments=own)
    return located


def _candidates(connection: Connection, ids: Sequence[str]) -> Iterator[tuple[SealedDay, list[str]]]:
    """The sealed days that may have these ids. An id of ours has its day within, but not its model."""
    table = SEALED_IDS.c
    given = {
        id_: (model, day)
        for id_, model, day in fetched(
            connection, lambda some: select(table.id, table.model, table.day).where(table.id.in_(some)), ids
        )
    }
    by_day: dict[int, list[str]] = defaultdict(list)
    for id_ in ids:
        day = given[id_][1] if id_ in given else day_of_id(id_)
        if day is not None:
            by_day[day].append(id_)
    for sealed in sealed_days(connection, days=by_day):
        fitting = [id_ for id_ in by_day[sealed.day] if id_ not in given or given[id_][0] == sealed.model]
        if fitting:
            yield sealed, fitting


def _of_file(day: SealedDay, row: Mapping[str, Any]) -> Located:
    terms = read_terms(row["terms"])
    told = None
    if row["truth"] is not None:
        told = Told(*(row[name] for name in OUTCOME))
    made = (row["at"], row["choice"], row["expected"])
    promised = moments(terms, row["choice"], row["probabilities"])
    return Located(day.model, terms.version, day.day, terms, *made, day.file, told, row["digest"], promised)


def moments(terms: Terms, choice: int, probabilities: bytes) -> tuple[float, float]:
    """Variance and third central moment of the benefit of an action by the matrix; 0 without any.

    `probabilities` are float64 in the order of the classes, little-endian; what is more is left out.
    """
    if terms.benefits is None:
        return 0.0, 0.0
    payoffs = np.array([row[choice] for row in terms.benefits])
    P = np.frombuffer(probabilities, "<f8")[: len(payoffs)]
    size = float(np.abs(payoffs).max()) or 1.0  # the third power of the largest benefits is no float64
    payoffs = payoffs / size
    payoffs -= (P * payoffs).sum()
    squares = P * payoffs * payoffs
    third = float((squares * payoffs).sum()) * size * size * size
    return float(squares.sum()) * size * size, max(min(third, _MOST), -_MOST)
