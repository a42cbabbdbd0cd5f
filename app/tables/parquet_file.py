"""Parquet files, refused by their metadata before anything is decoded where they are too large."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow._parquet import _reconstruct_filemetadata

from app.tables.dataset import ColumnReport, DataLimits
from app.tables.source import (
    FILE,
    Held,
    Location,
    Source,
    check_columns,
    check_names,
    check_rows,
)
from app.tables.text import normal
from app.tables.values import holds_moments, holds_numbers, holds_text, index_columns
from payoff.errors import Invalid, TooLarge, pointer, reject

_TRAILER = 8  # bytes at the end: the length of the footer, and a mark
_ARROW_SCHEMA = b"ARROW:schema"  # the key of the types that Arrow had
_NO_SCHEMA = b"-----:schema"
_BATCH = 1 << 14  # rows decoded at a time
_BUFFER = 1 << 16  # bytes of each column read at a time
_LEAST_BYTES_OF_A_CSV_VALUE = 2  # a digit and a comma


def write_stream(content: BinaryIO, sink: BinaryIO, limits: DataLimits) -> None:
    """Write the columns of a Parquet file to `sink` as an Arrow stream, text as dictionaries, types
    as they are.

    Raises Invalid, and TooLarge over `limits`, also for the written stream.
    """
    with _explained():
        file = _opened(content, limits)
        with pa.ipc.new_stream(sink, file.schema_arrow) as writer:
            for batch in file.iter_batches(batch_size=_BATCH, use_threads=False):
                writer.write_batch(batch)
                if sink.tell() > limits.max_upload_bytes:
                    raise TooLarge(
                        f"unpacked, the file has more than {limits.max_upload_bytes:,} bytes"
                    )


def parquet_source(content: BinaryIO, limits: DataLimits) -> Source:
    """A Parquet file of flat columns: numbers, booleans and moments as they are, strings and
    dictionaries as words.

    Raises Invalid, and TooLarge over `limits`. A file of few bytes can hold very many equal
    values; it may hold as many as the largest CSV file could.
    """
    with _explained():
        file = _opened(content, limits)
        schema = file.schema_arrow
        names = list(map(normal, schema.names))
        reject(check_names(names, FILE))
    if not file.metadata.num_rows:
        raise Invalid.at(FILE, "the table has no rows")

    def batches() -> Iterator[list[Any]]:
        with _explained():
            for batch in file.iter_batches(batch_size=_BATCH, use_threads=False):
                yield batch.columns

    places = [Location(name, FILE + pointer(name)) for name in names]
    index = {name: ColumnReport(name) for name in sorted(index_columns(schema))}
    return Source(
        places, [_kind(column_type) for column_type in schema.types], batches, index
    )


def _opened(content: BinaryIO, limits: DataLimits) -> Any:
    """The file, its words as dictionaries: long ones that repeat are not spelt out; a column is
    read page by page.
    """
    content.seek(0)
    metadata = _metadata(content)
    check_columns(metadata.num_columns, limits)
    check_rows(metadata.num_rows, limits)
    size = sum(
        metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)
    )
    values = metadata.num_rows * metadata.num_columns
    if max(size, values * _LEAST_BYTES_OF_A_CSV_VALUE) > limits.max_upload_bytes:
        raise TooLarge(
            f"{values:,} values in {size:,} bytes; decoded, they are more than this service accepts"
        )
    words = [
        field.name
        for field in metadata.schema.to_arrow_schema()
        if _kind(field.type) == "words"
    ]
    return pq.ParquetFile(
        content,
        read_dictionary=words,
        metadata=metadata,
        buffer_size=_BUFFER,
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",  # nanoseconds in 64 bits end in 2262, without an error
    )


def _metadata(content: BinaryIO) -> Any:
    """The footer; types that Arrow lacks, such as integers of 128 bits, are those that Parquet
    stores.
    """
    try:
        return pq.read_metadata(content)
    except pa.ArrowNotImplementedError:
        content.seek(-_TRAILER, os.SEEK_END)
        length = int.from_bytes(content.read(4), "little")
        content.seek(-_TRAILER - length, os.SEEK_END)
        footer = content.read(length).replace(_ARROW_SCHEMA, _NO_SCHEMA)
        return _reconstruct_filemetadata(pa.py_buffer(footer))


def _kind(column_type: Any) -> Held | None:
    if holds_numbers(column_type):
        return "truth" if pa.types.is_boolean(column_type) else "numeric"
    if holds_text(column_type):
        return "words"
    return "moment" if holds_moments(column_type) else None


@contextmanager
def _explained() -> Iterator[None]:
    """Invalid for the errors of Arrow."""
    try:
        yield
    except MemoryError:  # Arrow's is also an ArrowException
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Invalid.at(
            FILE, f"the file cannot be read as Parquet ({str(error)[:200]})"
        ) from error
