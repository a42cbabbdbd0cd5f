"""Outcomes on their way into the store: each is there once, whoever sends it how often, and in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from time import time
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, bindparam, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from app.database import Database
from app.outcomes.locating import Located, again
from app.outcomes.rows import chunks
from app.outcomes.tables import DECISIONS, OUTCOMES, SEALED_DAYS

Also = Callable[[Connection], None]


@dataclass(frozen=True)
class Outcome:
    """What a client says became of a decision: indices into the classes and actions of its terms."""

    truth: int
    action: int | None = None
    benefit: float | None = None
    at: float | None = None  # seconds since 1970

    def joined(self, later: Outcome) -> Outcome:
        """The same with all that `later` states."""
        return replace(self, **later.stated)

    def contradicts(self, later: Outcome) -> bool:
        """Whether `later` states something else than this does; what only one of them states is no contradiction."""
        mine = self.stated
        return any(mine.get(name, value) != value for name, value in later.stated.items())

    @property
    def stated(self) -> dict[str, Any]:
        """The fields that are not None."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Difference:
    """An outcome that contradicts what is stored."""

    id: str
    stored: Outcome
    sent: Outcome


@dataclass
class Received:
    """What became of the outcomes of a request.

    Among the accepted, `first` are the first ones of their decisions, `corrected` those that were another before.
    """

    accepted: int = 0
    unchanged: int = 0
    conflicts: list[Difference] = field(default_factory=list)
    corrected: list[str] = field(default_factory=list)
    first: list[tuple[Located, Outcome]] = field(default_factory=list)


class _Moved(Exception):
    """Since they were located, decisions were sealed or erased, or another request has stored an outcome of them."""


Resolve = Callable[[], Mapping[str, tuple[Located, Outcome]]]


def receive(
    database: Database, resolve: Resolve, *, correct: bool, also: Callable[[Received], Also | None]
) -> Received:
    """Store outcomes in one transaction.

    `resolve` locates their decisions; it is called again where these were sealed or erased meanwhile. Fields that the
    stored outcome lacks are added. One that contradicts it replaces it with `correct`, else it is a conflict. `also`
    gives what is written in the same transaction. Raises Unavailable where decisions keep moving. O(n log n).
    """
    for attempt in count(1):
        sent = resolve()
        try:
            with database.writing() as connection:
                received = _store(connection, dict(sorted(sent.items())), correct=correct)
                if (write := also(received)) is not None:
                    write(connection)
                return received
        except (_Moved, IntegrityError):
            again(attempt)
    raise AssertionError("unreachable")


def _store(connection: Connection, sent: Mapping[str, tuple[Located, Outcome]], *, correct: bool) -> Received:
    """In the order of the ids, so that two requests never wait for each other."""
    _check_unmoved(connection, sent)
    rows = {row.id: row for row in _rows(connection, OUTCOMES, sent)}
    received = Received()
    new: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    for id_, (decision, outcome) in sent.items():
        row = rows.get(id_)
        told = row or decision.told
        before = None if told is None else Outcome(told.truth, told.action, told.benefit, told.at)
        after = outcome if before is None or outcome == before else before.joined(outcome)
        if after == before:
            received.unchanged += 1
            continue
        if before is not None and before.contradicts(outcome):
            if not correct:
                received.conflicts.append(Difference(id_, before, outcome))
                continue
            received.corrected.append(id_)
            after = outcome  # all of it: a benefit that was told with another truth or action is no longer true
        received.accepted += 1
        if before is None:
            received.first.append((decision, after))
        (new if row is None else changed).append(_values(id_, decision, after, 0 if told is None else told.revision))
    if new:
        connection.execute(insert(OUTCOMES), new)
    if changed:
        bound = [{f"new_{name}": value for name, value in each.items()} for each in changed]
        named: dict[str, Any] = {
            column.name: bindparam(f"new_{column.name}") for column in OUTCOMES.c if column.name != "id"
        }
        connection.execute(update(OUTCOMES).where(OUTCOMES.c.id == bindparam("new_id")).values(**named), bound)
    return received


def _values(id_: str, decision: Located, outcome: Outcome, revision: int) -> dict[str, Any]:
    return {
        "id": id_,
        "model": decision.model,
        "day": decision.day,
        "label": str(decision.classes[outcome.truth]),
        "received_at": time(),
        "revision": revision + 1,
        **vars(outcome),
    }


def _check_unmoved(connection: Connection, sent: Mapping[str, tuple[Located, Outcome]]) -> None:
    """_Moved unless the decisions are where they were found; until the transaction ends they stay there.

    Days are locked before decisions, and these before outcomes, as sealing does it.
    """
    files = {(found.model, found.day): found.file for found, _ in sent.values() if found.file is not None}
    table = SEALED_DAYS.c
    for days in chunks(sorted(files)):
        found = select(table.model, table.day, table.file).where(tuple_(table.model, table.day).in_(days))
        rows = connection.execute(found.order_by(table.model, table.day).with_for_update(read=True)).all()
        if {(row.model, row.day): row.file for row in rows} != {day: files[day] for day in days}:
            raise _Moved
    recent = [id_ for id_, (decision, _) in sent.items() if decision.file is None]
    if sum(1 for _ in _rows(connection, DECISIONS, recent, only=DECISIONS.c.id)) < len(recent):
        raise _Moved


def _rows(
    connection: Connection, table: Table, ids: Iterable[str], *, only: ColumnElement[Any] | None = None
) -> Iterator[Row[Any]]:
    """The rows with these ids, sorted, locked until the transaction ends; where only a column is read, not alone."""
    for some in chunks(ids):
        found = select(table if only is None else only).where(table.c.id.in_(some)).order_by(table.c.id)
        yield from connection.execute(found.with_for_update(read=only is not None))  # SQLite has locked the whole file
