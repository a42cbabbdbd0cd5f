"""CSV, read in one way wherever it comes from: files, and bodies of requests."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from app.errors import MAX_ERRORS, Flaw, Invalid
from app.numbers_in_text import MISSING

FIRST_ROW = 2  # the first row of values, as an editor counts: the header is row 1
_BLOCK = 1 << 21  # bytes parsed at a time; also the longest row
_WIDE = 4_000  # columns: a block costs a few calls for each column, so of wider tables it holds more rows
_CODECS = {"latin-1": "cp1252"}  # as browsers read it: spreadsheets mean that, which has signs for 0x80 to 0x9f
_NO_TEXT = {
    b"\x1f\x8b": "gzipped",
    b"PK\x03\x04": "an archive or an Excel file",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
}
_RAGGED = "there are rows with another number of values than the header"


class CsvText:
    """Separated text in UTF-8 with a header; spaces around names and values do not count.

    Raises Invalid for what is not such a table. At most a block of it is in memory.
    """

    def __init__(self, content: BinaryIO, delimiter: str) -> None:
        self._content = content
        self._delimiter = delimiter
        _check_utf8(content)
        self.names = _header(content, delimiter)
        if len(self.names) == 1:
            _check_delimiter(self.names[0])

    def blocks(self) -> Iterator[list[Any]]:
        """The columns as strings, to be cleaned by `clean`, a block of rows at a time."""
        ragged: list[Flaw] = []

        def note(row: Any) -> str:
            msg = f"row {row.number}: the header has {row.expected_columns} values, this row {row.actual_columns}"
            ragged.append(Flaw("", msg))
            return "skip" if len(ragged) < MAX_ERRORS else "error"

        self._content.seek(0)
        header, last = 1, None
        with _explained(ragged):
            reader = arrow_csv.open_csv(
                pa.PythonFile(self._content, mode="r"),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=_BLOCK * (1 + len(self.names) // _WIDE),
                    autogenerate_column_names=True,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=note
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


def in_utf8(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Text in UTF-8; Invalid at `/encoding` where it is not in this one."""
    decoder = codecs.getincrementaldecoder(_CODECS.get(encoding, encoding))()
    try:
        for part in parts:
            yield decoder.decode(part).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise Invalid.at("/encoding", f"the file is not {encoding}") from error


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
            raise Invalid.at("", f"line {line} is not UTF-8; {_other_encoding(content)}") from error
        if not chunk:
            return
        line += chunk.count(b"\n")


def _other_encoding(content: BinaryIO) -> str:
    """What the text may be instead, by its first bytes."""
    content.seek(0)
    other = "utf-16" if content.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"
    return f"send ?encoding={other}, or save the file as UTF-8"


def _header(content: BinaryIO, delimiter: str) -> list[str]:
    """The names in the first line that is not empty, which is the first row of Arrow's reader, too."""
    content.seek(0)
    text = io.TextIOWrapper(content, "utf-8-sig", newline="")
    try:
        lines = iter(lambda: text.readline(_BLOCK), "")
        names = [name.strip() for name in next(filter(None, csv.reader(lines, delimiter=delimiter)), [""])]
    except csv.Error as error:
        raise Invalid.at("", f"the header cannot be read ({error})") from error
    finally:
        text.detach()
    if names == [""]:
        raise Invalid.at("", "the file is empty, or its first line holds spaces alone")
    return names


def _check_delimiter(name: str) -> None:
    """Invalid where the only name holds another sign that separates."""
    other = next((mark for mark in (",", ";", "\t", "|") if mark in name), None)
    if other is not None:
        shown = "%09" if other == "\t" else other
        raise Invalid.at("", f"the header is split by {other!r}; send ?delimiter={shown}, or separate by commas")


@contextmanager
def _explained(ragged: list[Flaw]) -> Iterator[None]:
    """Arrow's findings in our words; those on ragged rows were noted before."""
    try:
        yield
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
