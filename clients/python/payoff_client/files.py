"""Files of any length, decided in parts: CSV and NDJSON are cut between rows, not parsed; Parquet needs pyarrow."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from payoff_client.bodies import ARROW, Features, of_batch, query
from payoff_client.datasets import CSV, PARQUET, form_of
from payoff_client.decided_files import end_of_row, rest_of, writer_of
from payoff_client.dialect import Dialect
from payoff_client.errors import PayoffError, located
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
    rows: int
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
    unfinished = _beside(target, source)
    try:
        with (
            _opened(source, dialect, whole=of_batch(fields)) as (kind, names, parts),
            Bar(f"deciding {source.name}", progress) as bar,
            closing(writer_of(form, target, unfinished)) as writer,
        ):
            kept = [name for name in names if name not in (*features.names, fields.get("id"))]
            params = query(
                {"model": features.model, **fields, **dialect.of_parts(), **({"keep": kept} if kept else {})}
            )
            for part in parts:
                headers = {"Content-Type": kind, "Accept": accept}
                try:
                    call = Call("POST", "/predict", params, part.content, headers, repeatable)
                    rest, rows = await link.read(
                        call, lambda answer: (rest_of(answer, accept), writer.rows_of(answer.content))
                    )
                except PayoffError as error:
                    raise _in_file(error, features, notes.rows) from None
                notes.add(rest["warnings"], part.rows)
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
    """The media type of the parts of a file, its columns, and the parts."""
    form = form_of(source)
    dialect.check(repr(source.name), is_csv=form == CSV)
    if form == PARQUET:
        with _parquet(source, whole=whole) as (names, parts):
            yield ARROW, names, parts
        return
    with source.open("rb") as file:
        rows: Any = gzip.GzipFile(fileobj=file) if source.suffix.lower() == ".gz" else file
        rows = dialect.in_utf8(rows)
        pieces = iter([rows.read()]) if whole else _pieces(rows, quoted=form == CSV)
        first = next(pieces, b"")
        head = first[: end_of_row(first, quoted=form == CSV)]
        names = dialect.header(head) if form == CSV else _fields_of(head)
        size = max(source.stat().st_size, 1)
        yield form, names, _parts(first, pieces, head if form == CSV else b"", lambda: file.tell() / size)


def _fields_of(line: bytes) -> list[str]:
    """The names in the first line of NDJSON; ValueError where it is no object."""
    try:
        return list(check(json.loads(line) if line.strip() else {}, dict))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the first line is no object of JSON: {error}") from error


def _parts(first: bytes, pieces: Iterator[bytes], header: bytes, share: Callable[[], float]) -> Iterator[_Part]:
    """The pieces, each with the `header` that the first one begins with; of CSV at least one."""
    for piece in chain([first[len(header) :]], pieces):
        if piece or header:
            yield _Part(header + piece, _rows_of(piece, quoted=bool(header)), share())


def _pieces(file: Any, *, quoted: bool) -> Iterator[bytes]:
    """The content, cut at ends of rows."""
    rest = b""
    while block := file.read(_PART):
        rest += block
        end = _last_end(rest, quoted=quoted)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > _LONGEST_ROW:
            raise ValueError(f"a row has more than {_LONGEST_ROW:,} bytes: is a quotation mark not closed?")
    if rest:
        yield rest


def _last_end(text: bytes, *, quoted: bool) -> int:
    """Where the last complete row ends; 0 without one. A line break between quotation marks ends no row.

    Of CSV preferably a row of one line: the service takes several for a quotation mark that is not closed.
    """
    end = text.rfind(b"\n") + 1
    if not quoted or b'"' not in text:
        return end
    found, odd = 0, text.count(b'"', 0, end) % 2
    while end:
        before = text.rfind(b"\n", 0, end - 1) + 1
        odd_before = odd ^ text.count(b'"', before, end) % 2
        if not odd:
            found = found or end
            if not odd_before:
                return end
        end, odd = before, odd_before
    return found


def _rows_of(text: bytes, *, quoted: bool) -> int:
    outside = text.split(b'"')[::2] if quoted else [text]
    return sum(part.count(b"\n") for part in outside) + (bool(text) and not text.endswith(b"\n"))


@contextmanager
def _parquet(source: Path, *, whole: bool) -> Iterator[tuple[list[str], Iterator[_Part]]]:
    from pyarrow import ipc, parquet  # noqa: PLC0415 - for Parquet alone

    def parts(file: Any) -> Iterator[_Part]:
        done, total = 0, max(file.metadata.num_rows, 1)
        for batch in file.iter_batches(total if whole else max(_BATCH_VALUES // max(batch_width, 1), 1)):
            sink = io.BytesIO()
            with ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            done += batch.num_rows
            yield _Part(sink.getvalue(), batch.num_rows, done / total)

    with parquet.ParquetFile(source, pre_buffer=False, buffer_size=2**20) as file:
        names = list(file.schema_arrow.names)
        batch_width = len(names)
        yield names, parts(file)
