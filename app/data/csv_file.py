"""CSV files, read twice: once for the kinds of the columns, once for their values; never whole in memory."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from app.data.dataset import DataLimits
from app.data.location import FILE, Location, check_names
from app.data.source import Kind, check_columns, check_rows
from app.data.typed import in_points
from app.data.upload_request import UploadRequest
from app.errors import MAX_ERRORS, Flaw, Invalid, pointer, reject

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None", "?")
_BLOCK = 1 << 21  # bytes parsed at a time; also the longest row
_FIRST_ROW = 2  # the first row of values, as an editor counts: the header is row 1


class CsvFile:
    """A comma-separated file in UTF-8 with a header; spaces around names and values do not count.

    A column is numeric if each of its values that is not missing is a number, else categorical. Raises Invalid
    for a file that is not such a table, and TooLarge beyond `limits`, before more than a block of it is in memory.
    """

    def __init__(self, content: BinaryIO, limits: DataLimits, request: UploadRequest) -> None:
        self._content = content
        self._limits = limits
        self._dialect = request.dialect
        _check_utf8(content)
        self.names = _header(content, request.dialect.delimiter)
        check_columns(len(self.names), limits)
        self._check_header(self.names)
        ignored = request.named("ignore")
        self._chosen = [j for j, name in enumerate(self.names) if name not in ignored]
        names = [self.names[j] for j in self._chosen]
        self.places = [Location(name, FILE + pointer(name), first_row=_FIRST_ROW) for name in names]
        words = request.named("category")  # as they are written: 007 is not 7
        self.kinds: list[Kind] = [
            "categorical" if name in words else kind for name, kind in zip(names, self._find_kinds(), strict=True)
        ]

    def batches(self) -> Iterator[list[Any]]:
        for columns in self._blocks([]):
            cleaned = [_clean(columns[j]) for j in self._chosen]
            yield [
                in_points(column, self._dialect.decimal).cast(pa.float64()) if kind == "numeric" else column
                for column, kind in zip(cleaned, self.kinds, strict=True)
            ]

    def _check_header(self, names: list[str]) -> None:
        if len(names) == 1:
            other = next((mark for mark in (",", ";", "\t", "|") if mark in names[0]), None)
            if other is not None:
                shown = "%09" if other == "\t" else other
                raise Invalid.at(
                    FILE, f"the header is split by {other!r}; send ?delimiter={shown}, or separate by commas"
                )
        reject(check_names(names, FILE, numbered=False))

    def _find_kinds(self) -> list[Kind]:
        """Read everything once: kinds, ragged rows, and the number of rows."""
        numeric = [True] * len(self._chosen)
        ragged: list[Flaw] = []
        rows = 0
        last: Any = None
        for columns in self._blocks(ragged):
            rows += len(columns[0])
            check_rows(rows, self._limits)
            numeric = [
                known and _all_numbers(columns[j], self._dialect.decimal)
                for known, j in zip(numeric, self._chosen, strict=True)
            ]
            last = columns[-1][-1].as_py() if len(columns[-1]) else last
        if ragged:
            raise Invalid("there are rows with another number of values than the header", ragged)
        if not rows:
            raise Invalid.at(FILE, "there is a header, but no row of values")
        if "\n" in last:
            raise Invalid.at(FILE, "the last value runs over several lines; close the quote that opens it")
        return ["numeric" if known else "categorical" for known in numeric]

    def _blocks(self, ragged: list[Flaw]) -> Iterator[list[Any]]:
        """The columns as strings, a block of rows at a time; rows of another length go to `ragged` as flaws."""

        def note(row: Any) -> str:
            msg = f"row {row.number}: the header has {row.expected_columns} values, this row {row.actual_columns}"
            ragged.append(Flaw(FILE, msg))
            return "skip" if len(ragged) < MAX_ERRORS else "error"

        self._content.seek(0)
        header = 1
        with _explained(ragged):
            reader = arrow_csv.open_csv(
                pa.PythonFile(self._content, mode="r"),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK, autogenerate_column_names=True
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._dialect.delimiter, newlines_in_values=True, invalid_row_handler=note
                ),
                convert_options=arrow_csv.ConvertOptions(default_column_type=pa.string(), check_utf8=False),
            )
            for batch in reader:
                if batch.num_columns != len(self.names):
                    raise Invalid.at(FILE, "the header cannot be read; check its quotes")
                yield [column[header:] for column in batch.columns]
                header = 0


def _check_utf8(content: BinaryIO) -> None:
    """Arrow's own check comes too late: it may pass over rows that are of another length and not UTF-8."""
    content.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    while True:
        chunk = content.read(_BLOCK)
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line += error.object.count(b"\n", 0, error.start)
            raise Invalid.at(FILE, f"line {line} is not UTF-8; {_other_encoding(content)}") from error
        if not chunk:
            return
        line += chunk.count(b"\n")


def _other_encoding(content: BinaryIO) -> str:
    """What the file may be instead, by its first bytes."""
    content.seek(0)
    other = "utf-16" if content.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"
    return f"send ?encoding={other}, or save the file as UTF-8"


def _header(content: BinaryIO, delimiter: str) -> list[str]:
    """The names in the first line that is not blank."""
    content.seek(0)
    text = io.TextIOWrapper(content, "utf-8-sig", newline="")
    try:
        lines = iter(lambda: text.readline(_BLOCK), "")
        row = next((row for row in csv.reader(lines, delimiter=delimiter) if any(map(str.strip, row))), None)
    except csv.Error as error:
        raise Invalid.at(FILE, f"the header cannot be read ({error})") from error
    finally:
        text.detach()
    if row is None:
        raise Invalid.at(FILE, "the file is empty")
    return [name.strip() for name in row]


def _clean(column: Any) -> Any:
    """Strings without the spaces around them, null where the value is missing."""
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, value_set=pa.array(MISSING))
    return pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)


def _all_numbers(column: Any, decimal: str) -> bool:
    try:
        in_points(_clean(column), decimal).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


@contextmanager
def _explained(ragged: list[Flaw]) -> Iterator[None]:
    """Arrow's findings in our words; those on ragged rows were noted before."""
    try:
        yield
    except pa.ArrowInvalid as error:
        found = str(error)
        if ragged:
            raise Invalid("there are rows with another number of values than the header", ragged) from error
        if "Empty CSV file" in found:  # a header that does not even end its line
            raise Invalid.at(FILE, "there is a header, but no row of values") from error
        if "straddling" in found:
            msg = f"a row is longer than {_BLOCK:,} bytes; is there a quote that is not closed?"
            raise Invalid.at(FILE, msg) from error
        raise Invalid.at(FILE, f"the file cannot be read as CSV ({found[:200]})") from error
