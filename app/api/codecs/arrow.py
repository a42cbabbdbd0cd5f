"""Files of tables as tables of Arrow: its streams and CSV read and written, Parquet written.
pyarrow takes 40 MB.
"""

import io
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from fastapi import Response
from pyarrow import csv, parquet

from app.api.codecs.answers import AnswerColumn, NamedChoice
from app.api.codecs.json import ascii_json, in_header
from app.api.codecs.media_types import CSV, PARQUET
from app.api.memory import Charge
from app.tables.csv_text import CsvText
from app.tables.text import MAX_SHOWN
from app.tables.upload_request import Dialect
from app.tables.values import as_numbers, clean, plain
from payoff.errors import Invalid, TooLarge, pointer

_ARROW_FILE = b"ARROW1"
_MAX_COLUMNS = 20_000


def table_of_arrow(body: bytes, charge: Charge) -> pa.Table:
    """An Arrow IPC stream, checked in full; uncompressed, so that it takes no more memory than its
    body.

    Text that has to be converted can take more, which is charged before it is read. TooLarge where
    the stream states more rows than its bytes can stand for.
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            _check_plain(message.type, bytes(message.metadata))
        return plain(pa.ipc.open_stream(body).read_all(), len(body), charge)
    except (Invalid, TooLarge):
        raise
    except (pa.ArrowException, MemoryError, OSError, ValueError, struct.error) as error:
        is_file = body.startswith(_ARROW_FILE)
        hint = "; it is an Arrow file (Feather): write a stream" if is_file else ""
        raise Invalid.at("", f"the body is not an Arrow IPC stream{hint}") from error


def _check_plain(kind: str, message: bytes) -> None:
    """Invalid for what unpacks to more than was sent: compressed batches and delta dictionaries.

    `message` is the flatbuffer of an IPC message (Arrow columnar format, "Encapsulated message
    format"), of which pyarrow exposes neither; the numbers are those of the fields in Message.fbs.
    """
    if kind not in {"record batch", "dictionary"}:
        return
    batch = _field(message, struct.unpack_from("<I", message)[0], 2)
    if kind == "dictionary":
        added = _place(message, batch, 2)
        if added and message[added]:
            raise Invalid.at(
                "", "delta dictionaries are not supported; send whole dictionaries"
            )
        batch = _field(message, batch, 1)
    if _place(message, batch, 3):
        raise Invalid.at(
            "", "compressed streams are not supported; send the stream uncompressed"
        )


def _place(message: bytes, table: int, field: int) -> int:
    """Where a field of a flatbuffer's table stands, 0 where it is absent."""
    index = table - int(struct.unpack_from("<i", message, table)[0])
    if 4 + 2 * field >= struct.unpack_from("<H", message, index)[0]:
        return 0
    distance = int(struct.unpack_from("<H", message, index + 4 + 2 * field)[0])
    return table + distance if distance else 0


def _field(message: bytes, table: int, field: int) -> int:
    """Where the table begins that a field refers to."""
    place = _place(message, table, field)
    return place + int(struct.unpack_from("<I", message, place)[0])


def table_response(kind: str, columns: Mapping[str, Any], metadata: Any) -> Response:
    """Columns of an answer, lists, arrays or Arrow's, in a format of `TABULAR`.

    The metadata is JSON in the table's metadata (`payoff`), or in the header `Payoff-Answer` of
    CSV. TooLarge where it is too long for a header.
    """
    table = pa.table({name: _array_of(values) for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    headers = {"Payoff-Answer": in_header(metadata)} if kind == CSV else {}
    try:
        if kind == CSV:
            csv.write_csv(table, sink)
        else:
            table = table.replace_schema_metadata({"payoff": ascii_json(metadata)})
            if kind == PARQUET:
                parquet.write_table(table, sink)
            else:
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
    # The format may have no type for a carried column of moments or decimals.
    except (pa.ArrowException, OSError) as error:
        raise Invalid.at(
            "/keep", f"what comes back cannot be written as {kind}: {error}"
        ) from error
    return Response(sink.getvalue().to_pybytes(), media_type=kind, headers=headers)


def _array_of(values: Any) -> Any:
    """A column of a table; values of several kinds become text."""
    if not isinstance(values, list):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def table_of_csv(
    body: bytes,
    numeric: Collection[str],
    dialect: Dialect,
    words: Mapping[str, Collection[str]],
) -> pa.Table:
    """A CSV file with a header; the columns in `numeric` hold numbers, all others strings.

    Empty cells are null, and so are cells such as NA that are not among the `words` of their
    column. Invalid at the column and with the row of the first cell that is not a number.
    """
    text = CsvText(io.BytesIO(body), dialect)
    if len(text.names) > _MAX_COLUMNS:
        raise TooLarge(
            f"the header has {len(text.names):,} columns; at most {_MAX_COLUMNS:,} are supported"
        )
    parts: list[list[Any]] = [[] for _ in text.names]
    rows = 0
    for block in text.blocks():
        for name, column, chunks in zip(text.names, block, parts, strict=True):
            cells = clean(column, words.get(name, ()))
            first_row = rows + text.first_row
            chunks.append(
                _numbers(cells, name, first_row, dialect) if name in numeric else cells
            )
        rows += len(block[0])
    types = [pa.float64() if name in numeric else pa.string() for name in text.names]
    columns = list(map(pa.chunked_array, parts, types))
    return pa.Table.from_arrays(columns, text.names)


def _numbers(column: pa.Array, name: str, first_row: int, dialect: Dialect) -> pa.Array:
    """The column as float64; Invalid at its first cell that is not a number, with its line."""
    numbers, strange = as_numbers(column, dialect.decimal)
    if strange is not None:
        row = strange.index(True).as_py()
        word = column[row].as_py()
        may_be_decimal = (
            "," in word and dialect.decimal == "." and dialect.delimiter != ","
        )
        hint = "; send ?decimal=," if may_be_decimal else ""
        place = f"in column {name!r} of line {first_row + row}"
        raise Invalid.at(
            pointer(name), f"{word[:MAX_SHOWN]!r} {place} is not a number{hint}"
        )
    return numbers


def table_columns(columns: Sequence[AnswerColumn]) -> dict[str, Any]:
    """The columns of an answer by their names in tables."""
    table: dict[str, Any] = {}
    for _, values, short, labels in columns:
        if isinstance(values, NamedChoice):
            words = pa.array([str(word) for word in values.names])
            positions = pa.array(values.choice, pa.int32())
            table[short] = pa.DictionaryArray.from_arrays(positions, words)
        else:
            names = [short]
            if labels is not None:
                prefix = f"{short}:" if short else ""
                names = [f"{prefix}{label}" for label in labels]
            arrays = map(np.ascontiguousarray, np.atleast_2d(values.T))
            table |= dict(zip(names, arrays, strict=True))
    return table
