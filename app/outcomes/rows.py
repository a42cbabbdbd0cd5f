"""Recorded decisions in the database, with their outcomes: where they are, and batches of them as columns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, islice
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Select, collate, func, select

from app.outcomes.identity import DAY, day_of
from app.outcomes.tables import DECISION_TERMS, DECISIONS, OUTCOMES, SHADOW_DECISIONS
from app.outcomes.terms import Terms

BATCH = 49_152  # rows in memory as Python objects
_CHUNK = 5_000  # values in one statement
_TERMS = 4_096  # kept parsed, of at most so many characters, and of longer ones:
_SHORT, _LONG_TERMS = 4_096, 32

_NAMED = 20  # ids in a line of the log

T = TypeVar("T")
_log = logging.getLogger(__name__)

OUTCOME = ("truth", "action", "benefit", "outcome_at", "received_at", "revision")
SQL_COLUMNS: Mapping[str, ColumnElement[Any]] = {
    **{column.name: column for column in DECISIONS.c if column.name not in ("model", "version")},  # the terms have them
    **{name: OUTCOMES.c[name.removeprefix("outcome_")] for name in OUTCOME},
}

ColumnBatch = dict[str, Sequence[Any]]


def chunks(values: Iterable[T], size: int = _CHUNK) -> Iterator[list[T]]:
    """The values, so many at a time."""
    rest = iter(values)
    while chunk := list(islice(rest, size)):
        yield chunk


def each_value(connection: Connection, column: Column[T], *where: ColumnElement[bool]) -> Iterator[T]:
    """The distinct values of a column that leads an index, one look into the index for each."""
    value = connection.execute(select(func.min(column)).where(*where)).scalar()
    while value is not None:
        yield value
        value = connection.execute(select(func.min(column)).where(column > value, *where)).scalar()


def days_of(connection: Connection, model: str, since: float | None, until: float | None) -> list[int]:
    """Days with decisions of a model that are not sealed, in order."""
    days: list[int] = []
    after = since
    while True:
        query = select(func.min(DECISIONS.c.at)).where(DECISIONS.c.model == model)
        if after is not None:
            query = query.where(DECISIONS.c.at >= after)
        at = connection.execute(query).scalar()
        if at is None or (until is not None and at >= until):
            return days
        days.append(day_of(at))
        after = (days[-1] + 1) * DAY


def of_day(model: str, day: int) -> list[ColumnElement[bool]]:
    """The condition on decisions of one day."""
    return [DECISIONS.c.model == model, DECISIONS.c.at >= day * DAY, DECISIONS.c.at < (day + 1) * DAY]


def batches(
    connection: Connection, names: Sequence[str], where: Iterable[ColumnElement[bool]], *, sort: bool = False
) -> Iterator[ColumnBatch]:
    """Columns of decisions, by their names in `SQL_COLUMNS`, at most `BATCH` rows at a time; `sort` by id, as bytes."""
    source = DECISIONS.outerjoin(OUTCOMES, OUTCOMES.c.id == DECISIONS.c.id)
    query = select(*(SQL_COLUMNS[name].label(name) for name in names)).select_from(source).where(*where)
    if sort:
        query = query.order_by(DECISIONS.c.id if connection.dialect.name == "sqlite" else collate(DECISIONS.c.id, "C"))
    yield from columns(connection, query, names)


def columns(connection: Connection, query: Select[Any], names: Sequence[str]) -> Iterator[ColumnBatch]:
    """The columns of a query's rows, at most `BATCH` rows at a time."""
    for part in connection.execute(query.execution_options(yield_per=BATCH)).partitions():
        yield dict(zip(names, zip(*part, strict=True), strict=True))


def fetched(connection: Connection, select_of: Callable[[list[T]], Select[Any]], values: Iterable[T]) -> Iterator[Any]:
    """The rows of a query for each few of many values."""
    for chunk in chunks(values):
        yield from connection.execute(select_of(chunk))


def outcomes(connection: Connection, model: str, day: int) -> Iterator[ColumnBatch]:
    """The outcomes of a day that are in the database."""
    query = select(OUTCOMES.c.id, *(SQL_COLUMNS[name] for name in OUTCOME))
    yield from columns(connection, query.where(OUTCOMES.c.model == model, OUTCOMES.c.day == day), ("id", *OUTCOME))


def contents(connection: Connection, digests: Iterable[str]) -> dict[str, str]:
    """Terms as JSON, by their digests."""
    table = DECISION_TERMS.c
    found = fetched(connection, lambda some: select(table.digest, table.content).where(table.digest.in_(some)), digests)
    return {row[0]: row[1] for row in found}


def with_terms(connection: Connection, batch: ColumnBatch) -> tuple[ColumnBatch, dict[str, str]]:
    """Those rows of a batch whose terms are there, with these as JSON, by digest.

    The others, which no reader understands, are left out with a line in the log.
    """
    found = contents(connection, set(batch["terms"]))
    has_terms = [digest in found for digest in batch["terms"]]
    if not all(has_terms):
        lost = [name for name, there in zip(batch.get("id", batch["terms"]), has_terms, strict=True) if not there]
        named = ", ".join(list(dict.fromkeys(lost))[:_NAMED])
        _log.error("%d recorded decisions are left out, their terms are missing in the database: %s", len(lost), named)
    return chosen(batch, has_terms), found


def chosen(batch: ColumnBatch, rows: Sequence[bool]) -> ColumnBatch:
    """Some rows of a batch."""
    return batch if all(rows) else {name: list(compress(column, rows)) for name, column in batch.items()}


def shadows(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """What challengers would have chosen: by challenger, by id."""
    table = SHADOW_DECISIONS.c
    found: dict[str, dict[str, int]] = {}
    rows = fetched(
        connection, lambda some: select(table.challenger, table.id, table.choice).where(table.id.in_(some)), ids
    )
    for challenger, id_, choice in rows:
        found.setdefault(challenger, {})[id_] = choice
    return found


def read_terms(content: str) -> Terms:
    """The terms of a JSON text; many decisions have the same."""
    return _short_terms(content) if len(content) <= _SHORT else _long_terms(content)


_short_terms = lru_cache(maxsize=_TERMS)(Terms.read)
_long_terms = lru_cache(maxsize=_LONG_TERMS)(Terms.read)
