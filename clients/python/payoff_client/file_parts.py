"""Files in parts that requests send: CSV is cut between rows, not parsed; Parquet needs pyarrow."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from payoff_client.bodies import ARROW
from payoff_client.csv_rows import first_end, last_end
from payoff_client.datasets import CSV, PARQUET, form_of
from payoff_client.dialect import Dialect
from payoff_client.errors import PayoffError, located
from payoff_client.frames import stream_of

_LINE = re.compile(r"\b(line|row) (\d{1,15})\b")
_LONGEST_ROW = 32 * 2**20
_VALUE = 4  # bytes of a value in text, about


@dataclass(frozen=True)
class Part:
    """Some rows as a body, and how much of the file they and all before them take."""

    content: bytes
    share: float


@contextmanager
def opened(source: Path, dialect: Dialect, size: int | None) -> Iterator[tuple[str, list[str], Iterator[Part]]]:
    """The media type of the parts of a file, its columns, and the parts, at least one.

    `size` is that of a part in bytes; None for all rows in one.
    """
    form = form_of(source)
    dialect.check(repr(source.name), is_csv=form == CSV)
    if form == PARQUET:
        with _parquet(source, size) as (names, parts):
            yield ARROW, names, parts
        return
    with unpacked(source) as (file, share):
        rows = dialect.in_utf8(file)
        pieces = iter([rows.read()]) if size is None else _pieces(rows, dialect.delimiter, size)
        first = next(pieces, b"").removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")  # the service passes over empty lines
        header = first[: first_end(first, dialect.delimiter)]
        yield form, dialect.header(header), _parts(first, pieces, header, share)


@contextmanager
def unpacked(source: Path) -> Iterator[tuple[Any, Callable[[], float]]]:
    """The content of a file, and which share of it is read; ValueError where its compression is damaged."""
    size = max(source.stat().st_size, 1)
    with source.open("rb") as file:
        try:
            packed = source.suffix.lower() == ".gz"
            yield gzip.GzipFile(fileobj=file) if packed else file, lambda: file.tell() / size
        except (zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{source.name!r} is damaged: {error}") from error


def _parts(first: bytes, pieces: Iterator[bytes], header: bytes, share: Callable[[], float]) -> Iterator[Part]:
    """The pieces, each with the `header` that the first one begins with."""
    yield Part(first, share())
    for piece in pieces:
        if piece.strip(b"\r\n"):
            yield Part(header + piece, share())


def _pieces(file: Any, delimiter: str, size: int) -> Iterator[bytes]:
    """The content, cut at ends of rows."""
    rest = b""
    while block := file.read(size):
        rest += block
        end = last_end(rest, delimiter)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > _LONGEST_ROW:
            raise ValueError(f"a row has more than {_LONGEST_ROW:,} bytes: is a quotation mark not closed?")
    if rest:
        yield rest


@contextmanager
def _parquet(source: Path, size: int | None) -> Iterator[tuple[list[str], Iterator[Part]]]:
    import pyarrow as pa  # noqa: PLC0415 - for Parquet alone
    from pyarrow import parquet  # noqa: PLC0415

    def tables(file: Any) -> Iterator[Any]:
        """All rows at once, or some at a time; a batch has one row group at most, however many rows are asked for."""
        if size is None or not file.metadata.num_rows:
            yield file.read()
        else:
            rows = max(size // (_VALUE * max(len(names), 1)), 1)
            yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches(rows))

    def parts(file: Any) -> Iterator[Part]:
        done, total = 0, max(file.metadata.num_rows, 1)
        for table in tables(file):
            done += table.num_rows
            yield Part(stream_of(table), done / total)

    try:
        with parquet.ParquetFile(source, pre_buffer=False, buffer_size=2**20) as file:
            names = list(file.schema_arrow.names)
            yield names, parts(file)
    except pa.ArrowException as error:
        raise ValueError(f"{source.name!r} cannot be read: {error}") from error


def in_file(error: PayoffError, names: Sequence[str], before: int) -> PayoffError:
    """The error with its rows counted in the file, `before` rows having gone before the part.

    Of CSV the service names the line in the message alone; the header is the first.
    """
    located(error, names, lambda row: before + row, of_table=True)
    found = []
    for flaw in error.errors:
        line = _LINE.search(flaw.msg) if flaw.row is None else None
        if line is not None:
            number = before + int(line[2])
            msg = f"{flaw.msg[: line.start()]}{line[1]} {number}{flaw.msg[line.end() :]}"
            flaw = replace(flaw, msg=msg, row=number - 2)  # noqa: PLW2901 - the same flaw
        found.append(flaw)
    error.errors = tuple(found)
    return error
