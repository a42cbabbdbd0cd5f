"""Files of any length, read and written in parts: CSV is cut where rows end, Parquet needs pyarrow."""

from __future__ import annotations

import csv
import gzip
import io
import math
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO
from uuid import uuid4

from payoff_client.answers import Notes
from payoff_client.deciding import Decider, are_together
from payoff_client.errors import PayoffError, located
from payoff_client.jobs import Bar
from payoff_client.rows import arrow_tools
from payoff_client.shapes import COUNTS, PART, check
from payoff_client.transport import ARROW, CSV, GZIP, PARQUET, Answer, Call, Link, Repeatable, parsed, query

SUFFIXES = {".csv": CSV, ".parquet": PARQUET, ".gz": GZIP}
PART_SIZE = 8 * 2**20  # characters of text, or as many bytes of Parquet
OUTCOMES_SIZE = 2**18  # a request has at most 100,000 outcomes, each of three characters at least
_CODECS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "latin-1": "cp1252"}  # as the service reads them
NO_OUTCOMES: dict[str, Any] = {"accepted": 0, "unchanged": 0, "open": 0, "unknown": [], "conflicts": []}
_FIGURES = ("limits", "total", "unlimited_total", "gap", "estimated_priors")  # of all rows together


class Part(NamedTuple):
    """Some rows of a file as a body, how many they are, and which share of the file they and all before them take."""

    content: bytes
    rows: int
    share: float


def kind_of(path: Path) -> str:
    """The media type of a file, by its suffix; ValueError for another one."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path.name!r} is none of the supported files: {', '.join(SUFFIXES)}")
    return kind


@contextmanager
def opened(source: Path, written: Mapping[str, Any], size: float) -> Iterator[tuple[str, list[str], Iterator[Part]]]:
    """The media type of the parts of a file, its columns, and the parts of about a size, at least one.

    `written` has `delimiter` and `encoding` of CSV, whose parts are in UTF-8.
    """
    if kind_of(source) == PARQUET:
        with arrow_tools().parquet_parts(source, size) as (names, parts):
            yield ARROW, names, parts
    else:
        with read_csv(source, written) as (text, share):
            yield CSV, *_parts_of(text, written.get("delimiter", ","), size, share)


@contextmanager
def read_csv(source: Path, written: Mapping[str, Any]) -> Iterator[tuple[TextIO, Callable[[], float]]]:
    """The text of a file, whose lines end with a line feed alone, and which share of it is read.

    ValueError where its compression, encoding or quotes are damaged.
    """
    encoding = written.get("encoding", "utf-8")
    if encoding not in _CODECS:
        raise ValueError(f"encoding is {encoding!r}; must be one of {', '.join(_CODECS)}")
    size = max(source.stat().st_size, 1)
    with source.open("rb") as file:
        packed = kind_of(source) == GZIP
        content: BinaryIO = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
        try:
            text = io.TextIOWrapper(content, _CODECS[encoding], newline="\n")
            yield text, lambda: min(file.tell() / size, 1.0)
        except (zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{source.name!r} is damaged: {error}") from error
        except UnicodeError as error:
            raise ValueError(f"{source.name!r} is not {encoding}: {error}") from error
        except csv.Error as error:
            raise ValueError(f"{source.name!r} cannot be read: {error}; is a quotation mark not closed?") from error


def _parts_of(
    text: TextIO, delimiter: str, size: float, share: Callable[[], float]
) -> tuple[list[str], Iterator[Part]]:
    """The names in the header, and the rows in parts of about `size` characters with the header, at least one part."""
    lines: list[str] = []

    def kept() -> Iterator[str]:
        for line in text:
            lines.append(line)
            yield line

    def taken() -> str:
        found = "".join(lines)
        lines.clear()
        return found

    rows = csv.reader(kept(), delimiter=delimiter)
    names: list[str] = []
    header = ""
    while not names and (row := next(rows, None)) is not None:  # the service passes over empty lines
        names, header = [name.strip() for name in row], taken()

    def parts() -> Iterator[Part]:
        count = length = number = 0
        for row in rows:
            count += bool(row)
            length += sum(map(len, row)) + len(row)
            if (
                row and length > size and "\n" not in row[-1]
            ):  # the service takes that for a quotation mark that is not closed
                yield Part((header + taken()).encode(), count, share())
                count, length, number = 0, 0, number + 1
        if count or not number:
            yield Part((header + taken()).encode(), count, 1.0)

    return names, parts()


class CsvWriter:
    """Writes answers to a CSV file, gzipped or not, one after the other, with one header."""

    def __init__(self, file: BinaryIO, target: Path) -> None:
        self._file: Any = gzip.GzipFile(fileobj=file, mode="wb") if kind_of(target) == GZIP else file
        self._header: str | None = None

    def rows_of(self, content: bytes) -> tuple[str, str]:
        """The header and the rows of an answer; ValueError where they do not fit to those before them."""
        text = content.decode()
        lines = io.StringIO(text, newline="\n")
        next(csv.reader(lines), None)
        header, rows = text[: lines.tell()], text[lines.tell() :]
        if self._header not in (None, header):
            raise ValueError("parts of the file were answered with different columns")
        return header, rows

    def write(self, rows: tuple[str, str]) -> None:
        """Append rows."""
        header, text = rows
        self._file.write(((header if self._header is None else "") + text).encode())
        self._header = header

    def close(self) -> None:
        """Complete the file."""
        self._file.close()


async def decide_file(
    decider: Decider,
    source: Path,
    target: Path,
    fields: dict[str, Any],
    record: bool | str | None,
    progress: bool | None,
) -> dict[str, Any]:
    """Decide for the rows of `source` and write `target`; see `Model.decide_file`."""
    features = await decider.features(fresh=True)
    fields = await decider.pinned({"model": features.model, **fields})
    if record is not None:
        fields["record"] = bool(record)
    if isinstance(record, str):
        fields["id"] = record
    repeatable: Repeatable = isinstance(record, str) or record is False
    repeatable = decider.records_nothing if record is None else repeatable
    is_csv = kind_of(target) != PARQUET
    if target.exists() and source.exists() and target.samefile(source):
        raise ValueError(f"{target} has the cases; name another file for the decisions")
    notes = Notes()
    rest: dict[str, Any] = {}
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}.part")
    with opened(source, fields, math.inf if are_together(fields) else PART_SIZE) as (kind, columns, parts):
        kept = [name for name in columns if name not in (*features.names, fields.get("id"))]
        params = query({**_of_parts(fields), **({"keep": kept} if kept else {})})
        headers = {"Content-Type": kind, "Accept": CSV if is_csv else ARROW}
        try:
            with (
                Bar(f"deciding {source.name}", progress) as bar,
                unfinished.open("xb") as file,
                closing(CsvWriter(file, target) if is_csv else arrow_tools().ParquetWriter(file)) as writer,
            ):
                for part in parts:
                    call = Call("POST", "/predict", params, part.content, headers, repeatable)
                    try:
                        rest, rows = await decider.link.read(
                            call, lambda answer: (_rest(answer), writer.rows_of(answer.content))
                        )
                    except PayoffError as error:
                        raise _in_file(error, features.names, notes.rows) from None
                    notes.add(rest["warnings"], part.rows)
                    writer.write(rows)
                    bar.show(part.share, f"{notes.rows:,} rows")
            if target.exists():
                shutil.copymode(target, unfinished)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    figures = {name: rest[name] for name in _FIGURES if name in rest}
    return {"rows": notes.rows, "model": features.model, "warnings": notes.texts(), **figures}


def _rest(answer: Answer) -> dict[str, Any]:
    """What an answer has beside its columns."""
    header = answer.response.headers.get("Payoff-Answer")
    text = header.encode() if header is not None else arrow_tools().metadata_of(answer.content)
    found: dict[str, Any] = check(parsed(text), PART)
    return found


async def send_file(link: Link, path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Send a file of outcomes, which the service reads; the counts of all parts."""
    total: dict[str, Any] = {**NO_OUTCOMES}
    before = 0
    with opened(path, fields, OUTCOMES_SIZE) as (kind, names, parts):
        for part in parts:
            call = Call("POST", "/outcomes", query(_of_parts(fields)), part.content, {"Content-Type": kind})
            try:
                add_counts(total, await link.document(call, COUNTS))
            except PayoffError as error:
                raise _in_file(error, names, before) from None
            before += part.rows
    return total


def add_counts(total: dict[str, Any], answer: Mapping[str, Any]) -> None:
    """Add the counts of outcomes in an answer."""
    total |= {name: total[name] + value if name in NO_OUTCOMES else value for name, value in answer.items()}


def _of_parts(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "encoding"}  # parts are in UTF-8


def _in_file(error: PayoffError, names: Sequence[str], before: int) -> PayoffError:
    """The error with its rows counted in the file, `before` rows having gone before the part."""
    located(error, int, names, before=before, of_table=True)
    if before and any(flaw.row is None for flaw in error.errors):
        error.add_note(f"the message counts from the beginning of a part: {before} rows of the file go before it")
    return error
