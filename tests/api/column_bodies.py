"""Bodies of columns, as their libraries write them."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from app.api.codecs.media_types import ARROW, CSV, PARQUET


def free(_count: int, _each: int = 1) -> None:
    """Memory without a budget."""


def npy(rows) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asanyarray(rows))
    return file.getvalue()


def table_of(columns) -> pa.Table:
    return columns if isinstance(columns, pa.Table) else pa.table(columns)


def arrow(columns, **options) -> bytes:
    sink, table = io.BytesIO(), table_of(columns)
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)
    ) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet(columns, **options) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table_of(columns), sink, **options)
    return sink.getvalue()


def csv(columns) -> bytes:
    sink = io.BytesIO()
    write_csv(table_of(columns), sink)
    return sink.getvalue()


WRITERS = {CSV: csv, ARROW: arrow, PARQUET: parquet}  # by media type
