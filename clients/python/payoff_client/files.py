"""Files of any length, decided in parts: CSV and NDJSON are cut between rows, not parsed; Parquet needs pyarrow."""

from __future__ import annotations

import codecs
import errno
import gzip
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from payoff_client.bodies import ARROW, Features, of_batch, query
from payoff_client.csv_rows import first_end, last_end
from payoff_client.datasets import CSV, PARQUET, form_of
from payoff_client.decided_files import rest_of, writer_of
from payoff_client.dialect import Dialect
from payoff_client.errors import PayoffError, located
from payoff_client.frames import stream_of
from payoff_client.notes import Notes
from payoff_client.progress import Bar
from payoff_client.shapes import check
from payoff_client.wire import Call, Link, Repeatable

_PART = 8 * 2**20  # bytes of a part in text
_LINE = re.compile(r"\b(line|row) (\d{1,15})\b")
_LONGEST_ROW = 4 * _PART
_FIGURES = ("limits", "total", "unlimited_total", "gap", "estimated_priors")  # of all rows together
_BATCH_VALUES = 2 * 2**20  # of a part of Parquet


@dataclass(frozen=True)
class _Part:
    """Some rows as a body, and how much of the file they and all before them take."""

    content: bytes
    share: float


async def decide_file(
    link: Link,
    features: Features,
    source: Any,
    target: Any,
    fields: Mapping[str, Any],
    progress: bool | None,
    *,
    repeatable: Repeatable,
) -> dict[str, Any]:
    """Decide for the rows of `source` and write `target`; see `Model.decide_file`."""
    source, target, fields = Path(source), Path(target), dict(fields)
    dialect = Dialect.taken(fields)
    form = form_of(target)
    accept = ARROW if form == PARQUET else form
    notes = Notes()
    rest: dict[str, Any] = {}
    is_together = of_batch(fields)
    unfinished = _beside(target, source)
    try:
        with (
            _opened(source, dialect, whole=is_together) as (kind, names, parts),
            Bar(f"deciding {source.name}", progress) as bar,
            closing(writer_of(form, target, unfinished)) as writer,
        ):
            kept = [name for name in names if name not in (*features.names, fields.get("id"))]
            params = query(
                {"model": features.model, **fields, **dialect.of_parts(), **({"keep": kept} if kept else {})}
            )
            for number, part in enumerate(parts):
                assert not (number and is_together), "limits hold for all rows of one request"
                headers = {"Content-Type": kind, "Accept": accept}
                try:
                    call = Call("POST", "/predict", params, part.content, headers, repeatable)
                    rest, (rows, count) = await link.read(
                        call, lambda answer: (rest_of(answer, accept), writer.rows_of(answer.content))
                    )
                except PayoffError as error:
                    raise _in_file(error, features, notes.rows) from None
                notes.add(rest["warnings"], count)
                writer.write(rows)
                bar.show(part.share, f"{notes.rows:,} rows")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    figures = {name: rest[name] for name in _FIGURES if name in rest}
    return {"rows": notes.rows, "model": features.model, "warnings": notes.texts(), **figures}


def _beside(target: Path, source: Path) -> Path:
    """A new file in the folder of `target`, with the mode that it is to have; ValueError where that is `source`."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    if target.exists() and source.exists() and target.samefile(source):
        raise ValueError(f"{target} has the cases; name another file for the decisions")
    descriptor, name = mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(descriptor)
    if target.exists():
        shutil.copymode(target, name)
    else:
        os.umask(mask := os.umask(0))
        Path(name).chmod(0o666 & ~mask)
    return Path(name)


def _in_file(error: PayoffError, features: Features, before: int) -> PayoffError:
    """The error with its rows counted in the file, `before` rows having gone before the part.

    Of CSV the service names the line in the message alone; the header is the first.
    """
    located(error, features.names, lambda row: before + row, of_table=True)
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


@contextmanager
def _opened(source: Path, dialect: Dialect, *, whole: bool) -> Iterator[tuple[str, list[str], Iterator[_Part]]]:
    """The media type of the parts of a file, its columns, and the parts: one if `whole`, at least one in any case."""
    form = form_of(source)
    dialect.check(repr(source.name), is_csv=form == CSV)
    if form == PARQUET:
        with _parquet(source, whole=whole) as (names, parts):
            yield ARROW, names, parts
        return
    with _unpacked(source) as (file, share):
        rows = dialect.in_utf8(file)
        delimiter = dialect.delimiter if form == CSV else None
        pieces = iter([rows.read()]) if whole else _pieces(rows, delimiter)
        first = next(pieces, b"").removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")  # the service passes over empty lines
        header = b""
        if delimiter is None:
            names = _fields_of(first.partition(b"\n")[0])
        else:
            header = first[: first_end(first, delimiter)]
            names = dialect.header(header)
        yield form, names, _parts(first, pieces, header, share)


@contextmanager
def _unpacked(source: Path) -> Iterator[tuple[Any, Callable[[], float]]]:
    """The content of a file, and which share of it is read; ValueError where its compression is damaged."""
    size = max(source.stat().st_size, 1)
    with source.open("rb") as file:
        try:
            packed = source.suffix.lower() == ".gz"
            yield gzip.GzipFile(fileobj=file) if packed else file, lambda: file.tell() / size
        except (zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{source.name!r} is damaged: {error}") from error


def _fields_of(line: bytes) -> list[str]:
    """The names in the first line of NDJSON; ValueError where it is no object."""
    try:
        return list(check(json.loads(line) if line.strip() else {}, dict))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the first line is no object of JSON: {error}") from error


def _parts(first: bytes, pieces: Iterator[bytes], header: bytes, share: Callable[[], float]) -> Iterator[_Part]:
    """The pieces, each with the `header` that the first one begins with."""
    yield _Part(first, share())
    for piece in pieces:
        yield _Part(header + piece, share())


def _pieces(file: Any, delimiter: str | None) -> Iterator[bytes]:
    """The content, cut at ends of rows: of lines where there is no delimiter."""
    rest = b""
    while block := file.read(_PART):
        rest += block
        end = rest.rfind(b"\n") + 1 if delimiter is None else last_end(rest, delimiter)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > _LONGEST_ROW:
            raise ValueError(f"a row has more than {_LONGEST_ROW:,} bytes: is a quotation mark not closed?")
    if rest:
        yield rest


@contextmanager
def _parquet(source: Path, *, whole: bool) -> Iterator[tuple[list[str], Iterator[_Part]]]:
    import pyarrow as pa  # noqa: PLC0415 - for Parquet alone
    from pyarrow import parquet  # noqa: PLC0415

    def tables(file: Any, rows: int) -> Iterator[Any]:
        """All rows at once, or some at a time; a batch has one row group at most, however many rows are asked for."""
        if whole or not file.metadata.num_rows:
            yield file.read()
        else:
            yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches(rows))

    def parts(file: Any) -> Iterator[_Part]:
        done, total = 0, max(file.metadata.num_rows, 1)
        for table in tables(file, max(_BATCH_VALUES // max(len(names), 1), 1)):
            done += table.num_rows
            yield _Part(stream_of(table), done / total)

    with parquet.ParquetFile(source, pre_buffer=False, buffer_size=2**20) as file:
        names = list(file.schema_arrow.names)
        yield names, parts(file)
