"""Uploaded bytes, opened as what they are: CSV, gzipped or not, or Parquet."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from app.data.csv_file import csv_source
from app.data.dataset import DataLimits
from app.data.location import FILE
from app.data.parquet_file import parquet_source
from app.data.source import Source
from app.data.upload_request import UploadRequest
from app.errors import Invalid, TooLarge

_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_ZIP = b"PK\x03\x04"
_CHUNK = 1 << 20
_RATIO = 100  # tables pack to a third or a twentieth: bytes beyond this hold a reader for next to nothing
_IN_MEMORY = 1 << 23  # unpacked content beyond this goes to a temporary file


@contextmanager
def opened(content: BinaryIO, limits: DataLimits, request: UploadRequest) -> Iterator[Source]:
    """A source over `content` (at any position), recognised by its first bytes; what is unpacked is deleted at the end.

    Raises Invalid for what cannot be read and TooLarge beyond `limits`, also for what a gzipped file unpacks to.
    """
    size = content.seek(0, 2)
    if size > limits.max_upload_bytes:
        raise TooLarge(f"{size:,} bytes; an upload may have at most {limits.max_upload_bytes:,}")
    if not _first_bytes(content).startswith(_GZIP):
        yield _source(content, limits, request)
        return
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as plain:
        _unpack(content, cast(BinaryIO, plain), min(limits.max_upload_bytes, max(size * _RATIO, _IN_MEMORY)))
        yield _source(cast(BinaryIO, plain), limits, request)


def _source(content: BinaryIO, limits: DataLimits, request: UploadRequest) -> Source:
    first = _first_bytes(content)
    if first.startswith(_PARQUET):
        return parquet_source(content, limits, request)
    if first.startswith((_ZIP, _GZIP)):
        raise Invalid.at(FILE, "this is an archive or an Excel file; send CSV, gzipped or not, or Parquet")
    return csv_source(content, limits, request)


def _first_bytes(content: BinaryIO) -> bytes:
    content.seek(0)
    return content.read(4)


def _unpack(packed: BinaryIO, plain: BinaryIO, most: int) -> None:
    packed.seek(0)
    size = 0
    try:
        with gzip.GzipFile(fileobj=packed, mode="rb") as stream:
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                if size > most:
                    raise TooLarge(f"this file may unpack to at most {most:,} bytes; send it unpacked")
                plain.write(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Invalid.at(FILE, f"the gzipped file is damaged ({error})") from error
