"""Outcomes on their way into the store: each is there once, whoever sends it how often, and in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from time import time
from typing import Any

from sqlalchemy import Connection, Select, bindparam, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from app.database import Database
from app.outcomes import rows
from app.outcomes.archive import Located, again
from app.outcomes.rows import Day, SealedFile, chunks, sealed_files
from app.outcomes.tables import OUTCOMES, SEALED_FILES

Also = Callable[[Connection], None]


@dataclass(frozen=True)
class Outcome:
    """What a client says became of a decision: indices into the classes and actions of its terms."""

    truth: int
    action: int | None = None
    benefit: float | None = None
    at: float | None = None  # seconds since 1970

    def joined(self, later: Outcome) -> Outcome:
        """An outcome with all that `later` states, too."""
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
    rows.lock(connection, shared=True)
    _check_unmoved(connection, sent)
    stored = {row.id: row for row in rows.fetched(connection, _stored, sent)}
    received = Received()
    new: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    for id_, (decision, outcome) in sent.items():
        row = stored.get(id_)
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
        "label": str(decision.terms.classes[outcome.truth]),
        "received_at": time(),
        "revision": revision + 1,
        **vars(outcome),
    }


def _check_unmoved(connection: Connection, sent: Mapping[str, tuple[Located, Outcome]]) -> None:
    """_Moved unless the days have the files in which they were looked for, and nothing was erased."""
    found: dict[Day, list[SealedFile]] = {}
    located = {(decision.model, decision.day): decision.files for decision, _ in sent.values()}
    for days in chunks(sorted(located)):
        found |= sealed_files(connection, tuple_(SEALED_FILES.c.model, SEALED_FILES.c.day).in_(days))
    if any(found.get(day, ()) != files for day, files in located.items()) or rows.erased(connection, sent):
        raise _Moved


def _stored(ids: Sequence[str]) -> Select[Any]:
    """The outcomes of some decisions, locked in the order of the ids until the transaction ends."""
    return select(OUTCOMES).where(OUTCOMES.c.id.in_(ids)).order_by(OUTCOMES.c.id).with_for_update()
