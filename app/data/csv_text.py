"""CSV in all its dialects, read in one way wherever it comes from: files, and bodies of requests."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from app.data.dataset import DataLimits
from app.data.source import FILE, Kind, Location, Source, check_columns, check_names, check_rows
from app.data.upload_request import Dialect, UploadRequest
from app.errors import MAX_ERRORS, Flaw, Invalid, pointer, reject
from app.text import MISSING

FIRST_ROW = 2  # the first row of values, as an editor counts: the header is row 1
_BLOCK = 1 << 21  # bytes parsed at a time; also the longest row
_WIDE = 4_000  # columns: a block costs a few calls for each column, so of wider tables it holds more rows
# Latin-1 as browsers read it: spreadsheets mean cp1252, which has signs for 0x80 to 0x9f.
_CODECS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "latin-1": "cp1252"}
_NO_TEXT = {
    b"\x1f\x8b": "gzipped",
    b"PK\x03\x04": "an archive or an Excel file",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
}
_RAGGED = "there are rows with another number of values than the header"


class CsvText:
    """Separated text with a header; spaces around names and values do not count.

    Raises Invalid for what is not such a table. At most a block of it is in memory.
    """

    def __init__(self, content: BinaryIO, dialect: Dialect) -> None:
        self._content = content
        self._dialect = dialect
        self.names = self._header()
        if len(self.names) == 1:
            _check_delimiter(self.names[0])

    def blocks(self) -> Iterator[list[Any]]:
        """The columns as strings, to be cleaned by `clean`, a block of rows at a time."""
        ragged: list[Flaw] = []

        def note(row: Any) -> str:
            msg = f"row {row.number}: the header has {row.expected_columns} values, this row {row.actual_columns}"
            ragged.append(Flaw("", msg))
            return "skip" if len(ragged) < MAX_ERRORS else "error"

        header, last = 1, None
        with self._explained(ragged):
            reader = arrow_csv.open_csv(
                self._text(),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=_BLOCK * (1 + len(self.names) // _WIDE),
                    autogenerate_column_names=True,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._dialect.delimiter, newlines_in_values=True, invalid_row_handler=note
                ),
                convert_options=arrow_csv.ConvertOptions(default_column_type=pa.string(), check_utf8=False),
            )
            for batch in reader:
                if batch.num_columns != len(self.names):
                    raise Invalid.at("", "the header cannot be read; check its quotes")
                columns = [column[header:] for column in batch.columns]
                header = 0
                last = columns[-1][-1] if len(columns[-1]) else last
                yield columns
        if ragged:
            raise Invalid(_RAGGED, ragged)
        if last is not None and "\n" in last.as_py():
            raise Invalid.at("", "the last value runs over several lines; close the quote that opens it")

    def _text(self) -> pa.NativeFile:
        """All of it in UTF-8; reading raises UnicodeError where it is not in its encoding.

        Arrow's own check of UTF-8 comes too late: it may pass over rows that are of another length, too.
        """
        self._content.seek(0)
        content = pa.PythonFile(self._content, mode="r")
        return pa.transcoding_input_stream(content, _CODECS[self._dialect.encoding], "utf-8")

    def _header(self) -> list[str]:
        """The names in the first line that is not empty, which is the first row of Arrow's reader, too."""
        text = io.TextIOWrapper(self._text(), "utf-8", newline="")
        try:
            with self._explained([]):
                lines = iter(lambda: text.readline(_BLOCK), "")
                rows = csv.reader(lines, delimiter=self._dialect.delimiter)
                names = [name.strip() for name in next(filter(None, rows), [""])]
        except csv.Error as error:
            raise Invalid.at("", f"the header cannot be read ({error})") from error
        finally:
            text.detach()  # else it would close the file, which is read again
        if names == [""]:
            raise Invalid.at("", "the file is empty, or its first line holds spaces alone")
        return names

    @contextmanager
    def _explained(self, ragged: list[Flaw]) -> Iterator[None]:
        """Arrow's findings in our words; those on ragged rows were noted before."""
        try:
            yield
        except UnicodeError as error:
            raise self._refusal() from error
        except pa.ArrowInvalid as error:
            found = str(error)
            if "Empty CSV file" in found:  # a header that does not even end its line
                return
            if ragged:
                raise Invalid(_RAGGED, ragged) from error
            if "straddling" in found:
                msg = f"a row is longer than {_BLOCK:,} bytes; is there a quote that is not closed?"
                raise Invalid.at("", msg) from error
            raise Invalid.at("", f"the file cannot be read as CSV ({found[:200]})") from error

    def _refusal(self) -> Invalid:
        """The error for text that is not in its encoding."""
        encoding = self._dialect.encoding
        if encoding != "utf-8":
            return Invalid.at("/encoding", f"the file is not {encoding}")
        self._content.seek(0)
        wrong = next((number for number, line in enumerate(self._content, 1) if not _is_utf8(line)), 1)
        self._content.seek(0)
        other = "utf-16" if self._content.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"
        advice = f"send ?encoding={other}, or save the file as UTF-8"
        return Invalid.at("", f"line {wrong} is not UTF-8; {advice}")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_text(content: bytes) -> None:
    """Invalid for formats that are taken for CSV by mistake, by their first bytes."""
    found = next((what for first, what in _NO_TEXT.items() if content.startswith(first)), None)
    if found is not None:
        raise Invalid.at("", f"this is {found}; send the text, or name the format in Content-Type")


def clean(column: Any, words: Collection[str] = ()) -> Any:
    """Strings without the spaces around them, null where the value is missing: a word such as NA, if not of `words`."""
    trimmed = pc.utf8_trim_whitespace(column)
    absent = [word for word in MISSING if not word or word not in words]
    missing = pc.is_in(trimmed, value_set=pa.array(absent))
    return pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)


def in_points(column: Any, decimal: str) -> Any:
    """Numbers with decimal points; where the decimal sign is a comma, a point is no part of a number."""
    if decimal == ".":
        return column
    return pc.replace_substring(pc.replace_substring(column, ".", "?"), ",", ".")


def numbers(column: Any, decimal: str) -> Any | None:
    """A cleaned column as float64; None where a value is not a number."""
    try:
        return in_points(column, decimal).cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def first_word(column: Any, decimal: str) -> int:
    """The position of the first value that is not a number; there is one. O(rows)."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if numbers(column[low:middle], decimal) is None:
            high = middle
        else:
            low = middle
    return low


def _check_delimiter(name: str) -> None:
    """Invalid where the only name holds another sign that separates."""
    other = next((mark for mark in (",", ";", "\t", "|") if mark in name), None)
    if other is not None:
        shown = "%09" if other == "\t" else other
        raise Invalid.at("", f"the header is split by {other!r}; send ?delimiter={shown}, or separate by commas")


def csv_source(content: BinaryIO, limits: DataLimits, request: UploadRequest) -> Source:
    """The columns of a CSV file: one is numeric if each of its values that is not missing is a number.

    Raises Invalid for a file that is not such a table, and TooLarge beyond `limits`, before more than a block of it is
    in memory.
    """
    decimal, ignored, words = request.dialect.decimal, request.named("ignore"), request.named("category")
    try:
        text = CsvText(content, request.dialect)
        check_columns(len(text.names), limits)
        reject(check_names(text.names, "", numbered=False))
        chosen = {j: name for j, name in enumerate(text.names) if name not in ignored}
        numeric = _numeric(text, {j for j, name in chosen.items() if name not in words}, decimal, limits)
    except Invalid as error:
        raise error.under(FILE) from error
    kinds: list[Kind] = ["numeric" if j in numeric else "categorical" for j in chosen]

    def batches() -> Iterator[list[Any]]:
        for columns in text.blocks():
            cells = {j: clean(columns[j]) for j in chosen}
            yield [numbers(column, decimal) if j in numeric else column for j, column in cells.items()]

    places = [Location(name, FILE + pointer(name), first_row=FIRST_ROW) for name in chosen.values()]
    return Source(text.names, places, kinds, batches)


def _numeric(text: CsvText, candidates: set[int], decimal: str, limits: DataLimits) -> set[int]:
    """Those of the columns that hold numbers alone; all is read once, and the rows are counted."""
    rows = 0
    for columns in text.blocks():
        rows += len(columns[0])
        check_rows(rows, limits)
        candidates = {j for j in candidates if numbers(clean(columns[j]), decimal) is not None}
    if not rows:
        raise Invalid.at("", "there is a header, but no row of values")
    return candidates
