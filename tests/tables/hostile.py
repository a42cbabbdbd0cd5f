"""Parquet files that say of themselves what is not so."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq


def written(columns, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def claiming(content, number, other):
    """The file with every `number` of its metadata and page headers replaced by `other`, in as many bytes."""
    old, new = _varint(number), _varint(other)
    assert old in content
    assert len(new) <= len(old)
    padded = (
        bytes(byte | 0x80 for byte in new)
        + b"\x80" * (len(old) - len(new) - 1)
        + b"\x00"
    )
    return content.replace(old, new if len(new) == len(old) else padded)


def long_words(millions):
    """A few kilobytes that unpack to so many million characters, and declare a hundred bytes."""
    words = [f"{i}" * (millions * 500_000) for i in range(2)]
    content = written(
        {"a": words, "y": [0, 1]},
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
    )
    size = (
        pq.ParquetFile(io.BytesIO(content))
        .metadata.row_group(0)
        .column(0)
        .total_uncompressed_size
    )
    total = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).total_byte_size
    return claiming(claiming(content, total, 100), size, 90)


def _varint(number):
    """Zigzag varint of Thrift's compact protocol."""
    number = number << 1
    parts = []
    while True:
        parts.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(parts)
