"""Queries of recorded decisions in the database, and of the files that have the sealed days."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Table, collate, func, select

from app.errors import Damaged
from app.outcomes.decision import DAY, TERMS_JSON, UNKNOWN, day_of, id_digest
from app.outcomes.tables import (
    DECISION_TERMS,
    DECISIONS,
    ERASED,
    OUTCOMES,
    SEALED_FILES,
    SHADOW_DECISIONS,
)

# of reading, or writing, where other processes change the same rows meanwhile
ROUNDS = 5
BATCH = 49_152  # rows in memory as Python objects
_CHUNK = 5_000  # values in one statement
_MANY_TERMS = 1_000  # take as long to read as the rows that they would spare
SEALING_LOCK = 5_417_916_016_017  # the number of the lock
RECORDING_LOCK = 5_417_916_016_018

T = TypeVar("T")

OUTCOME = (
    "truth",
    "number",
    "action",
    "benefit",
    "outcome_at",
    "received_at",
    "revision",
)
OF_DECISIONS: Mapping[str, Column[Any]] = {
    column.name: column
    for column in DECISIONS.c
    if column.name not in ("model", "version")  # the terms have them
}
OF_OUTCOMES: Mapping[str, Column[Any]] = {
    name: OUTCOMES.c[name.removeprefix("outcome_")] for name in ("id", *OUTCOME)
}

ColumnBatch = dict[str, Sequence[Any]]
Day = tuple[str, int]
"""A model and a day of it."""


class SealedFile(NamedTuple):
    """A file that readers of a day read."""

    file: str
    model: str
    day: int
    kind: str  # decisions or outcomes
    at: float  # when it was written


class Replaced(Damaged):
    """A file that was current a moment ago is missing: it was replaced, or it is lost."""

    def __init__(self, file: str) -> None:
        super().__init__(
            f"the file {file} of recorded decisions is missing: restore it from a backup"
        )


def sealed_files(
    connection: Connection, *where: ColumnElement[bool]
) -> dict[Day, list[SealedFile]]:
    """The files of sealed days, in the order in which they were written; the days in order."""
    table = SEALED_FILES.c
    query = select(table.file, table.model, table.day, table.kind, table.at).where(
        table.is_current, *where
    )
    files: defaultdict[Day, list[SealedFile]] = defaultdict(list)
    for row in connection.execute(
        query.order_by(table.model, table.day, table.at, table.file)
    ):
        files[row.model, row.day].append(SealedFile(*row))
    return dict(files)


def files_of(connection: Connection, model: str, day: int) -> list[SealedFile]:
    """The files of one day."""
    return sealed_files(connection, *of_day(SEALED_FILES, model, day)).get(
        (model, day), []
    )


def lock(
    connection: Connection, number: int = SEALING_LOCK, *, shared: bool = False
) -> None:
    """Keep other transactions from sealing and erasing until this one ends, and unless `shared`
    from storing outcomes.

    `RECORDING_LOCK` waits for decisions that are being recorded, and these wait for it. In SQLite a
    transaction that writes has locked the whole database already.
    """
    if connection.dialect.name == "postgresql":
        name = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
        connection.execute(select(getattr(func, name)(number)))


def erased_of(connection: Connection, model: str, day: int) -> list[str]:
    """The ids that were erased and that files may still have."""
    query = select(ERASED.c.id).where(
        *of_day(ERASED, model, day), ERASED.c.id.is_not(None)
    )
    return list(connection.execute(query).scalars())


def erased(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Those of the ids that were erased."""
    by_digest = {id_digest(id_): id_ for id_ in ids}
    column = ERASED.c.id_digest
    erased_ids: set[str] = set()
    for chunk in chunks(by_digest):
        digests = connection.execute(select(column).where(column.in_(chunk))).scalars()
        erased_ids.update(by_digest[digest] for digest in digests)
    return erased_ids


def chunks(values: Iterable[T], size: int = _CHUNK) -> Iterator[list[T]]:
    """Lists of at most `size` of the values."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


def distinct_values(
    connection: Connection, column: Column[T], *where: ColumnElement[bool]
) -> Iterator[T]:
    """The distinct values of a column that leads an index, with one index lookup for each value."""
    value = connection.execute(select(func.min(column)).where(*where)).scalar()
    while value is not None:
        yield value
        value = connection.execute(
            select(func.min(column)).where(column > value, *where)
        ).scalar()


def days_of(
    connection: Connection, model: str, since: float | None, until: float | None
) -> list[int]:
    """Days with decisions of a model that are not sealed, in order."""
    days: list[int] = []
    after = [] if since is None else [DECISIONS.c.at >= since]
    while True:
        at = connection.execute(
            select(func.min(DECISIONS.c.at)).where(DECISIONS.c.model == model, *after)
        ).scalar()
        if at is None or (until is not None and at >= until):
            return days
        days.append(day_of(at))
        after = [DECISIONS.c.at >= (days[-1] + 1) * DAY]


def of_day(table: Table, model: str, day: int) -> list[ColumnElement[bool]]:
    """The condition on rows of one day; those of decisions have a time instead of the day."""
    of_model = table.c.model == model
    if "day" in table.c:
        return [of_model, table.c.day == day]
    return [of_model, table.c.at >= day * DAY, table.c.at < (day + 1) * DAY]


def with_action(
    connection: Connection, where: list[ColumnElement[bool]], action: str
) -> list[ColumnElement[bool]]:
    """The condition on decisions, narrowed to the places that the action has in their terms.

    As it was where no terms have the action, or more than `_MANY_TERMS` are to be read.
    """
    table = DECISIONS.c
    query = select(table.terms).where(*where).distinct().limit(_MANY_TERMS)
    digests = connection.execute(query).scalars().all()
    if len(digests) == _MANY_TERMS:
        return where
    texts = contents(connection, digests).values()
    places = {read_terms(text).index_of(action) for text in texts} - {UNKNOWN}
    return [*where, table.choice.in_(places)] if places else where


def columns(
    connection: Connection,
    of: Mapping[str, Column[Any]],
    where: Iterable[ColumnElement[bool]],
    names: Sequence[str] = (),
    *,
    sort: bool = False,
) -> Iterator[ColumnBatch]:
    """Columns of rows by their `names`, by default all, at most `BATCH` rows at a time; `sort` by
    id, as bytes.
    """
    names = names or list(of)
    query = select(*(of[name] for name in names)).where(*where)
    if sort:
        query = query.order_by(
            of["id"] if connection.dialect.name == "sqlite" else collate(of["id"], "C")
        )
    with connection.execute(query.execution_options(yield_per=BATCH)) as rows:
        for part in rows.partitions():
            yield dict(zip(names, zip(*part, strict=True), strict=True))


def contents(connection: Connection, digests: Iterable[str]) -> dict[str, str]:
    """Terms as JSON, by their digests; Damaged where some are missing."""
    table = DECISION_TERMS.c
    distinct = set(digests)
    texts: dict[str, str] = {}
    for chunk in chunks(distinct):
        query = select(table.digest, table.content).where(table.digest.in_(chunk))
        texts |= {row.digest: row.content for row in connection.execute(query)}
    if len(texts) < len(distinct):
        raise Damaged(
            "terms of recorded decisions are missing:"
            " restore the table decision_terms from a backup"
        )
    return texts


def challengers(connection: Connection, model: str, day: int) -> list[str]:
    """The versions that decided in the background on a day."""
    query = (
        select(SHADOW_DECISIONS.c.challenger)
        .where(*of_day(SHADOW_DECISIONS, model, day))
        .distinct()
    )
    return list(connection.execute(query).scalars())


def shadows(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """The choices of challengers: by challenger, by id."""
    table = SHADOW_DECISIONS.c
    choices: dict[str, dict[str, int]] = {}
    for chunk in chunks(ids):
        query = select(table.challenger, table.id, table.choice).where(
            table.id.in_(chunk)
        )
        for challenger, id_, choice in connection.execute(query):
            choices.setdefault(challenger, {})[id_] = choice
    return choices


read_terms = lru_cache(maxsize=64)(TERMS_JSON.validate_json)
"""The terms of a JSON text; many decisions have the same."""
