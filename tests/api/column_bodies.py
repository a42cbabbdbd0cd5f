"""Bodies of columns, as their libraries write them."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa


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
