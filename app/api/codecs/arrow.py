"""Arrow streams, read and written; and Parquet files, written. Import it where it is used: pyarrow takes 40 MB."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from fastapi import Response
from pyarrow import parquet

from app.api.codecs.json import ascii_json
from app.api.codecs.media_types import ARROW, PARQUET
from app.api.gate import Reserve
from app.data.arrow_text import plain
from app.errors import Invalid, TooLarge

_ARROW_FILE = b"ARROW1"


def table_of_arrow(body: bytes, reserve: Reserve) -> pa.Table:
    """An Arrow IPC stream, checked in full; uncompressed, so that it takes no more memory than its body.

    Text that has to be converted can take more, of which `reserve` is told before it is read. TooLarge where the stream
    states more rows than its bytes can stand for.
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            _check_plain(message.type, bytes(message.metadata))
        return plain(pa.ipc.open_stream(body).read_all(), len(body), reserve)
    except (Invalid, TooLarge):
        raise
    except (pa.ArrowException, MemoryError, OSError, ValueError, struct.error) as error:
        hint = "; it is an Arrow file (Feather): write a stream" if body.startswith(_ARROW_FILE) else ""
        raise Invalid.at("", f"the body is not an Arrow IPC stream{hint}") from error


def _check_plain(kind: str, message: bytes) -> None:
    """Invalid for what unpacks to more than was sent: compressed batches and delta dictionaries.

    `message` is the flatbuffer of an IPC message (Arrow columnar format, "Encapsulated message format"), of which
    pyarrow exposes neither; the numbers are those of the fields in Message.fbs.
    """
    if kind not in {"record batch", "dictionary"}:
        return
    batch = _field(message, struct.unpack_from("<I", message)[0], 2)
    if kind == "dictionary":
        added = _place(message, batch, 2)
        if added and message[added]:
            raise Invalid.at("", "delta dictionaries are not supported; send whole dictionaries")
        batch = _field(message, batch, 1)
    if _place(message, batch, 3):
        raise Invalid.at("", "compressed streams are not supported; send the stream uncompressed")


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


def arrow_response(table: pa.Table, rest: Any) -> Response:
    """An Arrow IPC stream; the rest is JSON in its metadata (`payoff`)."""
    table = table.replace_schema_metadata({"payoff": ascii_json(rest)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)


def parquet_response(table: pa.Table, rest: Any) -> Response:
    """A Parquet file; the rest is JSON in its metadata (`payoff`)."""
    sink = pa.BufferOutputStream()
    parquet.write_table(table.replace_schema_metadata({"payoff": ascii_json(rest)}), sink)
    return Response(sink.getvalue().to_pybytes(), media_type=PARQUET)


def table_of(columns: Mapping[str, Any]) -> pa.Table:
    """Columns of an answer: lists, arrays or Arrow's."""
    return pa.table({name: array_of(values) for name, values in columns.items()})


def array_of(values: Any) -> Any:
    """A column of a table; values of several kinds become text."""
    if not isinstance(values, list):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])
