"""Bodies of columns, as their libraries write them."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa

from app.api.codecs.media_types import ARROW
from app.api.codecs.tables import Sheet, TableFields


def free(_count: int, _each: int = 1) -> None:
    """Memory without a budget."""


def rows_of_arrow(body, schema, charge=free):
    """What the routes make of an Arrow stream with this schema: rows and warnings."""
    return Sheet(ARROW, body, TableFields(), charge).rows(schema)[0]


def npy(rows) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(rows))
    return file.getvalue()


def arrow(columns) -> bytes:
    sink = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
