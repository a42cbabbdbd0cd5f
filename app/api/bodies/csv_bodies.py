"""CSV in requests and answers, as spreadsheets and databases write it."""

from __future__ import annotations

import io
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fastapi import Response

from app.api.bodies.binary import header_of
from app.api.bodies.json_bodies import Reserve, free
from app.data.dialect import Dialect
from app.errors import Invalid, TooLarge, pointer

if TYPE_CHECKING:  # imported where needed: it takes 40 MB of memory that a service without such clients can spare
    import pyarrow as pa

CSV = "text/csv"
_BYTES_PER_BYTE = 12  # of memory: a number of one digit and its delimiter take eight, and twice while they are built
_BAD_CELL = re.compile(r"column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", re.DOTALL)
_MAX_COLUMNS = 20_000
_MAX_HEADER = 1 << 22  # bytes
_MAX_SHOWN = 40  # characters of a wrong cell


def table_of_csv(body: bytes, numbers: Collection[str], dialect: Dialect, reserve: Reserve = free) -> pa.Table:
    """A CSV file with a header; the columns in `numbers` hold numbers, all others strings, and empty cells are null.

    Invalid at the column and with the row of the first cell that is no number.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute, csv  # noqa: PLC0415

    from app.data.csv_file import MISSING  # noqa: PLC0415 - with pyarrow

    reserve(len(body) * _BYTES_PER_BYTE)
    names = _header(body, dialect)
    options = {
        "read_options": csv.ReadOptions(encoding=dialect.encoding, use_threads=False),
        "parse_options": csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            column_types={name: pa.float64() if name in numbers else pa.string() for name in names},
            decimal_point=dialect.decimal,
            null_values=list(MISSING),
            strings_can_be_null=True,
        ),
    }
    try:
        table = csv.read_csv(io.BytesIO(body), **options)
    except (pa.ArrowException, UnicodeError, ValueError) as error:
        raise _worded(str(error), names, dialect) from error
    columns = [
        column if name in numbers else compute.utf8_trim_whitespace(column)
        for name, column in zip(names, table.columns, strict=True)
    ]
    if columns and table.num_rows and "\n" in str(columns[-1][-1].as_py()):
        raise Invalid.at("", "the last value runs over several lines; close the quote that opens it")
    return pa.Table.from_arrays(columns, names)


def _header(body: bytes, dialect: Dialect) -> list[str]:
    """The names of the columns; Invalid where they seem to be separated or written in another way."""
    import csv  # noqa: PLC0415 - the name is pyarrow's, too

    try:
        mode = "ignore" if len(body) > _MAX_HEADER else "strict"
        text = body[:_MAX_HEADER].decode(dialect.encoding, mode).lstrip("\ufeff")
    except UnicodeError as error:
        other = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        raise Invalid.at("/encoding", f"the file is not {dialect.encoding}; send ?encoding={other}") from error
    names = next(csv.reader(io.StringIO(text), delimiter=dialect.delimiter), [])
    if len(names) > _MAX_COLUMNS:
        raise TooLarge(f"the header has {len(names):,} columns; at most {_MAX_COLUMNS:,} are supported")
    if len(names) == 1:
        for other in {",", ";", "\t", "|"} - {dialect.delimiter}:
            if other in names[0]:
                shown = "%09" if other == "\t" else other
                raise Invalid.at("/delimiter", f"the header has one column; send ?delimiter={shown} if it separates")
    return names


def _worded(message: str, names: list[str], dialect: Dialect) -> Invalid:
    found = _BAD_CELL.search(message)
    if found is None:
        return Invalid.at("", f"the body is not a CSV file: {message.splitlines()[0][:200]}")
    name, value = names[int(found[1])], found[3]
    hint = "; send ?decimal=," if "," in value and dialect.decimal == "." and dialect.delimiter != "," else ""
    row = f" of line {found[2]}" if found[2] else ""
    return Invalid.at(pointer(name), f"{value[:_MAX_SHOWN]!r} in column {name!r}{row} is not a number{hint}")


def csv_response(columns: dict[str, Any], rest: Any) -> Response:
    """A CSV file with a header; the rest is JSON in the `Payoff-Answer` header, TooLarge where it is too long."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    header = header_of(rest)
    sink = pa.BufferOutputStream()
    table = pa.table(columns)
    for place, kind in enumerate(table.schema.types):
        if pa.types.is_dictionary(kind):
            table = table.set_column(place, table.column_names[place], table.column(place).cast(kind.value_type))
    csv.write_csv(table, sink)
    return Response(sink.getvalue().to_pybytes(), media_type=CSV, headers={"Payoff-Answer": header})
