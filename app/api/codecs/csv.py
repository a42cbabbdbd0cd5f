"""CSV as spreadsheets and databases write it, read and written. Import it where it is used: pyarrow takes 40 MB."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
from fastapi import Response
from pyarrow import csv

from app.api.codecs.json import in_header
from app.api.codecs.media_types import CSV
from app.data.csv_text import FIRST_ROW, CsvText, check_text, clean, first_word, numbers
from app.data.upload_request import Dialect
from app.errors import Invalid, TooLarge, pointer

_MAX_COLUMNS = 20_000
_MAX_SHOWN = 40  # characters of a wrong cell


def table_of_csv(
    body: bytes, numeric: Collection[str], dialect: Dialect, words: Mapping[str, Collection[str]]
) -> pa.Table:
    """A CSV file with a header; the columns in `numeric` hold numbers, all others strings, and empty cells are null.

    So are cells such as NA, unless that is one of the `words` of their column.
    Invalid at the column and with the row of the first cell that is no number.
    """
    check_text(body)
    text = CsvText(io.BytesIO(body), dialect)
    if len(text.names) > _MAX_COLUMNS:
        raise TooLarge(f"the header has {len(text.names):,} columns; at most {_MAX_COLUMNS:,} are supported")
    parts: list[list[Any]] = [[] for _ in text.names]
    rows = 0
    for block in text.blocks():
        for name, column, known in zip(text.names, block, parts, strict=True):
            cells = clean(column, words.get(name, ()))
            known.append(_numbers(cells, name, rows, dialect) if name in numeric else cells)
        rows += len(block[0])
    types = [pa.float64() if name in numeric else pa.string() for name in text.names]
    return pa.Table.from_arrays([pa.chunked_array(*each) for each in zip(parts, types, strict=True)], text.names)


def _numbers(column: pa.Array, name: str, rows: int, dialect: Dialect) -> pa.Array:
    """The column as float64; Invalid at its first cell that is no number, `rows` rows having come before."""
    found = numbers(column, dialect.decimal)
    if found is None:
        row = first_word(column, dialect.decimal)
        word = column[row].as_py()
        hint = "; send ?decimal=," if "," in word and dialect.decimal == "." and dialect.delimiter != "," else ""
        place = f"in column {name!r} of line {rows + row + FIRST_ROW}"
        raise Invalid.at(pointer(name), f"{word[:_MAX_SHOWN]!r} {place} is not a number{hint}")
    return found


def csv_response(table: pa.Table, rest: Any) -> Response:
    """A CSV file with a header; the rest is JSON in the `Payoff-Answer` header, TooLarge where it is too long."""
    header = in_header(rest)
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    return Response(sink.getvalue().to_pybytes(), media_type=CSV, headers={"Payoff-Answer": header})
