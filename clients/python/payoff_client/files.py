"""Files of any length, read and written in parts.

CSV is cut where rows end; Parquet needs pyarrow.
"""

import csv
import gzip
import io
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast
from uuid import uuid4

import httpx

from payoff_client.documents import Counts, Data, Decided, Object, adapter
from payoff_client.errors import PayoffError, located
from payoff_client.rows import Table, arrow_tools, integral, table_of
from payoff_client.transport import (
    ARROW,
    CSV,
    GZIP,
    JSON,
    PARQUET,
    Call,
    Link,
    json_of,
    query,
)

SUFFIXES = {".csv": CSV, ".parquet": PARQUET, ".gz": GZIP}
PART_SIZE = 8 * 2**20  # characters of text, or as many bytes of Parquet
OUTCOMES_SIZE = (
    2**18
)  # a request has at most 100,000 outcomes, each of three characters at least
_CODECS = {
    "utf-8": "utf-8-sig",
    "utf-16": "utf-16",
    "latin-1": "cp1252",
}  # as in the service
_NAMES = ("id", "truth", "action")  # the fields of an outcome whose integers are names
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\1*\s*', re.IGNORECASE)  # Excel's first line
_OUTCOMES_AT_ONCE = 20_000


class Part(NamedTuple):
    """Some rows of a file as a body, their number, and the share of the file up to their end."""

    content: bytes
    rows: int
    share: float


def kind_of(path: Path) -> str:
    """The media type of a file, by its suffix; ValueError for another one."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        suffixes = ", ".join(SUFFIXES)
        raise ValueError(f"{path.name!r} is none of the supported files: {suffixes}")
    return kind


@contextmanager
def opened(
    source: Path, written: Mapping[str, Any], size: float
) -> Iterator[tuple[str, list[str], Iterator[Part]]]:
    """The media type of the parts of a file, its columns, and one or more parts of about a size.

    `written` has `delimiter` and `encoding` of CSV, whose parts are in UTF-8. ValueError where a
    file is damaged.
    """
    kind = kind_of(source)
    if kind == PARQUET:
        with arrow_tools().parquet_parts(source, size) as (names, parts):
            yield ARROW, names, parts
        return
    encoding = written.get("encoding", "utf-8")
    if encoding not in _CODECS:
        raise ValueError(
            f"encoding is {encoding!r}; must be one of {', '.join(_CODECS)}"
        )
    length = max(source.stat().st_size, 1)
    with source.open("rb") as file:
        content: Any = gzip.GzipFile(fileobj=file) if kind == GZIP else file
        # Lines end with LF, CRLF or CR, as in the service.
        text = io.TextIOWrapper(content, _CODECS[encoding], newline="")

        def share() -> float:
            return min(file.tell() / length, 1.0)

        try:
            names, parts = _parts_of(text, written.get("delimiter"), size, share)
            yield CSV, names, parts
        except (
            zlib.error,
            EOFError,
            gzip.BadGzipFile,
            UnicodeError,
            csv.Error,
        ) as error:
            hint = (
                "; is a quotation mark not closed?"
                if isinstance(error, csv.Error)
                else ""
            )
            fault = f"{source.name!r} cannot be read as {encoding} CSV: {error}{hint}"
            raise ValueError(fault) from error


def columns_of(source: Path, written: Mapping[str, Any]) -> list[str]:
    """The columns of a file, written as `opened` takes it."""
    with opened(source, written, 1) as (_, names, _):
        return names


def _beginning(text: TextIO) -> tuple[str, str, str]:
    """The line in which Excel names the separator, or the first other line; and the separator."""
    first = next(text, "")
    separator = _SEPARATOR.fullmatch(first)
    return (first, "", separator[1]) if separator else ("", first, ",")


def _parts_of(
    text: TextIO, delimiter: str | None, size: float, share: Callable[[], float]
) -> tuple[list[str], Iterator[Part]]:
    """The names in the header, and the rows in one or more parts of about `size` characters.

    Each part begins with the header.
    """
    lines: list[str] = []  # that the reader of rows took since the last part

    def record(first: str) -> Iterator[str]:
        for line in chain(filter(None, [first]), text):
            lines.append(line)
            yield line

    def take_lines() -> str:
        content = "".join(lines)
        lines.clear()
        return content

    before, first, separator = _beginning(text)
    rows = csv.reader(record(first), delimiter=delimiter or separator)
    names: list[str] = []
    header = ""
    for row in rows:
        names = [name.strip() for name in row]
        header = before + take_lines()
        if names:  # the service passes over empty lines
            break

    def parts() -> Iterator[Part]:
        count = length = number = 0
        for row in rows:
            count += bool(row)
            length += sum(map(len, row)) + len(row)
            # The service takes a line feed in the last cell for a quotation mark that is not
            # closed.
            if row and length > size and "\n" not in row[-1]:
                yield Part((header + take_lines()).encode(), count, share())
                count = length = 0
                number += 1
        if count or not number:
            yield Part((header + take_lines()).encode(), count, 1.0)

    return names, parts()


class CsvWriter:
    """Writes answers to a CSV file, one after the other, with one header."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._header: str | None = None

    def rows_of(self, answer: httpx.Response) -> tuple[str, str]:
        """The header and the rows of an answer; ValueError where they do not fit those before."""
        text = answer.content.decode()
        lines = io.StringIO(text, newline="\n")
        next(csv.reader(lines), None)
        header, rows = text[: lines.tell()], text[lines.tell() :]
        if self._header not in (None, header):
            raise ValueError("parts of the file were answered with different columns")
        return header, rows

    def write(self, rows: tuple[str, str]) -> None:
        """Append rows."""
        header, text = rows
        if self._header is None:
            text = header + text
        self._file.write(text.encode())
        self._header = header

    def close(self) -> None:
        """Complete the file."""
        self._file.close()


@contextmanager
def written(target: Path) -> Iterator[tuple[str, Any]]:
    """The media type and the writer of answers that make a file, which appears when complete."""
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}.part")
    kind = kind_of(target)
    try:
        with unfinished.open("xb") as file:
            if kind == PARQUET:
                writer = arrow_tools().ParquetWriter(file)
            else:
                writer = CsvWriter(
                    gzip.GzipFile(fileobj=file, mode="wb") if kind == GZIP else file
                )
            with closing(writer):
                yield (ARROW if kind == PARQUET else CSV), writer
        if target.exists():
            shutil.copymode(target, unfinished)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def fields_of_answer(answer: httpx.Response) -> Object:
    """The fields of an answer that are not columns."""
    header = answer.headers.get("Payoff-Answer")
    text = header if header is not None else arrow_tools().metadata_of(answer.content)
    fields: Object = adapter(Decided).validate_json(text)
    return fields


async def send_outcomes(
    link: Link, outcomes: Data, fields: Mapping[str, Any]
) -> Counts:
    """Send a file of outcomes, or a table of them; returns the counts of all parts."""
    total: Object = {
        "accepted": 0,
        "unchanged": 0,
        "open": 0,
        "unknown": [],
        "conflicts": [],
    }
    before = 0
    file = Path(outcomes) if isinstance(outcomes, str | Path) else None
    table = table_of([] if file else outcomes)
    source: AbstractContextManager[tuple[str, list[str], Iterator[Part]]] = (
        opened(file, fields, OUTCOMES_SIZE)
        if file
        else nullcontext((JSON, table.header(), _parts_of_table(table, fields)))
    )
    with source as (kind, names, parts):
        params = {} if kind == JSON else query(of_parts(fields))
        for part in parts:
            call = Call(
                "POST", "/outcomes", params, part.content, {"Content-Type": kind}
            )
            try:
                counts = await link.document(call, Counts)
            except PayoffError as error:
                raise located(
                    error, int if file else table.label, names, before
                ) from None
            for name, value in counts.items():
                total[name] = total[name] + value if name in total else value
            before += part.rows
    return cast(Counts, total)


def _parts_of_table(table: Table, fields: Mapping[str, Any]) -> Iterator[Part]:
    for start in range(0, len(table), _OUTCOMES_AT_ONCE):
        rows = table.part(start, start + _OUTCOMES_AT_ONCE).objects()
        outcomes = [
            {
                name: integral(value) if name in _NAMES else value
                for name, value in row.items()
                if value is not None or name == "truth"
            }
            for row in rows
        ]
        yield Part(json_of({**fields, "outcomes": outcomes}), len(rows), 1.0)


def of_parts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of requests with parts of a file, which are in UTF-8 whatever the file is in."""
    return {name: value for name, value in fields.items() if name != "encoding"}
