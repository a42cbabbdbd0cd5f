"""Outcomes in requests: a list in JSON, or a table with a row for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt

from app import numbers_in_text
from app.api.codecs.json import Reserve
from app.api.codecs.media_types import CSV
from app.api.codecs.tables import DIALECT_FIELDS, DialectFields, Sheet, TableFields
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.outcomes.tables import MAX_ID
from app.text import MAX_NAME
from app.usecases.fields import TIME_FORM, Moment, Text, WireModel, seconds
from app.usecases.outcomes import FIELDS, Sent, check_count

if TYPE_CHECKING:  # imported where needed: it takes 40 MB of memory that a service without such clients can spare
    import pyarrow as pa

_WORDS = FIELDS[:3]
_LONGEST = {"id": MAX_ID, "truth": MAX_NAME, "action": MAX_NAME, "at": 64}  # characters
_BYTES_PER_CELL = 64  # of memory, beside its text


def _as_text(sent: Any) -> Any:
    return str(sent) if type(sent) is int else sent


class OutcomeDocument(WireModel):
    """What became of a decision."""

    id: Annotated[Text, BeforeValidator(_as_text)] = Field(
        max_length=MAX_ID, description="of the decision, as its answer had it", examples=["visit-1"]
    )
    truth: StrictInt | Text | None = Field(
        description="the class that it really was; null while that is open: nothing is stored then", examples=["ill"]
    )
    action: StrictInt | Text | None = Field(
        default=None, description="what was really done, where that was not the decision", examples=["treat"]
    )
    benefit: Annotated[float, Field(strict=True)] | None = Field(
        default=None, description="what was really gained, where it is not the benefit of the matrix", examples=[4.5]
    )
    at: Moment = Field(
        default=None,
        description=f"when the truth was known, where that is not now: after the decision; {TIME_FORM}",
        examples=["2026-03-01T12:00:00Z"],
    )


_CORRECT = Field(default=False, description="replace outcomes that say something else; in the audit log")


class OutcomesRequest(WireModel):
    """Outcomes of recorded decisions."""

    outcomes: Annotated[list[OutcomeDocument], Field(fail_fast=True, min_length=1)]
    correct: StrictBool = _CORRECT

    def columns(self) -> Sent:
        """As columns."""
        columns = [[getattr(each, name) for each in self.outcomes] for name in FIELDS]
        return Sent(columns, lambda i, name: pointer("outcomes", i, name))


class OutcomesTable(DialectFields):
    """Query parameters beside a table of outcomes."""

    correct: StrictBool = _CORRECT

    def columns(self, kind: str, body: bytes, reserve: Reserve) -> Sent:
        """The columns of a table; Invalid at a column, or at a cell of it."""
        fields = TableFields(**self.model_dump(include={*DIALECT_FIELDS}, exclude_unset=True))
        words = dict.fromkeys(_WORDS, numbers_in_text.MISSING)  # an id, and a class, may be NA
        table, _ = Sheet(kind, body, fields, reserve).read({"benefit"}, FIELDS, words)
        check_count(table.num_rows)
        if not table.num_rows:
            raise Invalid.at("", "the table has no row; at least one outcome is required")
        names = table.column_names
        reject(Flaw(pointer(name), unknown("column", name, FIELDS)) for name in names if name not in FIELDS)
        reject(Flaw("", f"the column {name!r} is missing") for name in ("id", "truth") if name not in names)
        reject(
            Flaw(pointer(name), f"the table has the column {name!r} twice") for name in names if names.count(name) > 1
        )
        reserve(table.num_rows * len(FIELDS) * _BYTES_PER_CELL)
        given = [_short(table.column(name), name, reserve) if name in names else None for name in FIELDS]
        columns = [
            [None] * len(table) if column is None else _READERS[name](column, name)
            for name, column in zip(FIELDS, given, strict=True)
        ]
        reject(
            Flaw(pointer(FIELDS[0], i), f"{FIELDS[0]!r} is missing")
            for i, cell in enumerate(columns[0])
            if cell is None
        )
        return Sent(columns, lambda i, name: pointer(name, i), words=kind == CSV)


def _short(column: pa.ChunkedArray, name: str, reserve: Reserve) -> pa.ChunkedArray:
    """The column, a dictionary spelt out once it is known that no text is too long; Invalid at the first that is."""
    import pyarrow as pa  # noqa: PLC0415

    from app.data.arrow_text import decoded_bytes, first_longer, is_text  # noqa: PLC0415 - with pyarrow

    if name not in _LONGEST or not is_text(column.type):
        return column
    most = _LONGEST[name]
    if (row := first_longer(column, most)) >= 0:
        raise Invalid.at(pointer(name, row), f"{name!r} has at most {most} characters")
    reserve(3 * decoded_bytes(column))  # in Arrow, as objects, and once more with four bytes each
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _words(column: pa.ChunkedArray, name: str) -> list[Any]:
    """Texts and integers; whole numbers that stand beside nulls may come as floats."""
    import pyarrow as pa  # noqa: PLC0415

    from app.data.arrow_text import is_text  # noqa: PLC0415 - with pyarrow

    kind = column.type
    if is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return list(column.to_pylist())
    if not pa.types.is_floating(kind):
        raise Invalid.at(pointer(name), f"the type of {name!r} is '{kind}'; it must be text or integers")
    cells = [None if cell != cell else cell for cell in column.to_pylist()]  # noqa: PLR0124 - NaN
    reject(
        Flaw(pointer(name, i), f"{cell!r} is not an integer; {name!r} holds text or integers")
        for i, cell in enumerate(cells)
        if cell is not None and not cell.is_integer()
    )
    return [None if cell is None else int(cell) for cell in cells]


def _ids(column: pa.ChunkedArray, name: str) -> list[str | None]:
    return [None if cell is None else str(cell) for cell in _words(column, name)]


def _numbers(column: pa.ChunkedArray, name: str) -> list[float | None]:
    import pyarrow as pa  # noqa: PLC0415

    from app.data.arrow_text import floats, is_number  # noqa: PLC0415 - with pyarrow

    if not is_number(column.type) or pa.types.is_boolean(column.type):
        raise Invalid.at(pointer(name), f"the type of {name!r} is '{column.type}'; it must be numbers")
    return [None if cell != cell else cell for cell in floats(column).to_pylist()]  # noqa: PLR0124 - NaN


def _times(column: pa.ChunkedArray, name: str) -> list[float | None]:
    import pyarrow as pa  # noqa: PLC0415

    from app.data.arrow_text import is_text  # noqa: PLC0415 - with pyarrow

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        micros = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        return [None if cell is None else cell / 1e6 for cell in micros.to_pylist()]
    if not is_text(column.type):
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
