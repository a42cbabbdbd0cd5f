"""Outcomes in tables: CSV, Parquet and Arrow streams, a row for each."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from app.answering.outcomes import FIELDS, OutcomeRows, check_count
from app.api.codecs.columns import read
from app.api.codecs.media_types import CSV
from app.api.codecs.tables import DIALECT_FIELDS, DialectFields, Sheet, TableFields
from app.api.memory import Charge
from app.outcomes.tables import MAX_ID
from app.requests.fields import seconds
from app.tables.text import MISSING, refused_character
from app.tables.values import first_longer, floats, holds_numbers, holds_text
from payoff.errors import MAX_NAME, Flaw, Invalid, pointer, reject, unknown_at

_WORDS = FIELDS[:3]
_MAX_LENGTHS = {
    "id": MAX_ID,
    "truth": MAX_NAME,
    "action": MAX_NAME,
    "at": 64,
}  # characters


def outcomes_of(
    fields: DialectFields, kind: str, body: bytes, charge: Charge
) -> OutcomeRows:
    """The columns of a table; Invalid at a column, or at a cell of it."""
    dialect = TableFields(
        **fields.model_dump(include={*DIALECT_FIELDS}, exclude_unset=True)
    )
    words = dict.fromkeys(_WORDS, MISSING)  # an id, and a class, may be NA
    table, _ = read(Sheet(kind, body, dialect, charge), {"benefit"}, FIELDS, words)
    check_count(table.num_rows)
    if not table.num_rows:
        raise Invalid.at("", "the table has no row; at least one outcome is required")
    names = table.column_names
    reject(
        unknown_at(pointer(name), "column", name, FIELDS)
        for name in names
        if name not in FIELDS
    )
    reject(
        Flaw("", f"the column {' or '.join(map(repr, columns))} is missing")
        for columns in (("id",), ("truth", "benefit"))
        if set(columns).isdisjoint(names)
    )
    reject(
        Flaw(pointer(name), f"the table has the column {name!r} twice")
        for name in names
        if names.count(name) > 1
    )
    arrow_columns = [
        _short(table.column(name), name) if name in names else None for name in FIELDS
    ]
    columns = [
        [None] * len(table) if column is None else _READERS[name](column, name)
        for name, column in zip(FIELDS, arrow_columns, strict=True)
    ]
    flaws = (
        "'id' is missing" if cell is None else refused_character(cell)
        for cell in columns[0]
    )
    reject(Flaw(pointer("id", i), flaw) for i, flaw in enumerate(flaws) if flaw)
    rows = list(zip(*columns, strict=True))
    return OutcomeRows(rows, lambda i, name: pointer(name, i), words=kind == CSV)


def _short(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The column; Invalid at the first text that is too long."""
    max_length = _MAX_LENGTHS.get(name)
    if not max_length or not holds_text(column.type):
        return column
    row = first_longer(column, max_length)
    if row >= 0:
        raise Invalid.at(
            pointer(name, row), f"{name!r} has at most {max_length} characters"
        )
    return column


def _words(column: pa.ChunkedArray, name: str) -> list[Any]:
    """Texts and integers; whole numbers that stand beside nulls may come as floats. A truth may be
    any number.
    """
    kind = column.type
    if holds_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return list(column.to_pylist())
    if not pa.types.is_floating(kind):
        raise Invalid.at(
            pointer(name),
            f"the type of {name!r} is '{kind}'; it must be text or integers",
        )
    cells = [None if cell != cell else cell for cell in column.to_pylist()]  # noqa: PLR0124 - NaN
    reject(
        Flaw(
            pointer(name, i),
            f"{cell!r} is not an integer; {name!r} holds text or integers",
        )
        for i, cell in enumerate(cells)
        if cell is not None and not cell.is_integer() and name != "truth"
    )
    return [
        int(cell) if cell is not None and cell.is_integer() else cell for cell in cells
    ]


def _ids(column: pa.ChunkedArray, name: str) -> list[str | None]:
    return [None if cell is None else str(cell) for cell in _words(column, name)]


def _numbers(column: pa.ChunkedArray, name: str) -> list[float | None]:
    if not holds_numbers(column.type) or pa.types.is_boolean(column.type):
        raise Invalid.at(
            pointer(name),
            f"the type of {name!r} is '{column.type}'; it must be numbers",
        )
    cells = floats(column).to_pylist()
    return [None if cell != cell else cell for cell in cells]  # noqa: PLR0124 - NaN


def _times(column: pa.ChunkedArray, name: str) -> list[float | None]:
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        micros = column.cast(
            pa.timestamp("us", getattr(column.type, "tz", None)), safe=False
        ).cast(pa.int64())
        return [None if cell is None else cell / 1e6 for cell in micros.to_pylist()]
    if not holds_text(column.type):
        return _numbers(column, name)
    times: list[float | None] = []
    for i, cell in enumerate(column.to_pylist()):
        try:
            times.append(seconds(cell))
        except ValueError as error:
            raise Invalid.at(pointer(name, i), str(error)) from error
    return times


_READERS: dict[str, Callable[[Any, str], list[Any]]] = {
    "id": _ids,
    "truth": _words,
    "action": _words,
    "benefit": _numbers,
    "at": _times,
}
