"""CSV in all its dialects, read in one way from files and from bodies of requests."""

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as arrow_csv

from app.tables.dataset import DataLimits
from app.tables.notations import candidates
from app.tables.source import (
    FILE,
    Location,
    Source,
    check_columns,
    check_names,
    check_rows,
)
from app.tables.text import normal
from app.tables.upload_request import Dialect
from app.tables.values import clean
from payoff.errors import MAX_ERRORS, Flaw, Invalid, TooLarge, pointer, reject

FIRST_ROW = 2  # the first row of values, as an editor counts: the header is row 1
# bytes that are parsed at a time, each at the cost of a few calls for each column; also the
# maximum of a row
_BLOCK = 1 << 23
# Latin-1 as browsers read it: spreadsheets mean cp1252, which has signs for 0x80 to 0x9f.
_CODECS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "latin-1": "cp1252"}
_MOST_SHOWN = 60  # characters of a line
_MOST_COLUMNS = 20_000  # for each Arrow takes some 10 kB, before anybody else sees them
_RAGGED = "there are rows with another number of values than the header"
NO_HEADER = (
    "names of columns look like values: where line 1 is no header, send header=none"
)
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\1*\s*', re.IGNORECASE)  # Excel's first line
_LINE = re.compile(rb"[^\r\n]+")
# the bytes of a line without a name; in UTF-16 every other byte is a NUL
_EMPTY = b"\0 \t"
_YEAR = re.compile(r"(19|20)\d\d", re.ASCII)  # which a header may have
_BYTES_RECOGNISED = 1024  # bytes: every other format has a NUL among them


class CsvText:
    """Separated text with a header; spaces around names and values do not count.

    Raises Invalid for what is not such a table. At most a block of it is in memory.
    """

    def __init__(self, content: BinaryIO, dialect: Dialect) -> None:
        self._content = content
        self._dialect = dialect
        self._ragged: list[Flaw] = []  # rows of another length than the header
        self._codec = _CODECS[dialect.encoding]
        content.seek(0)
        begin = content.read(_BYTES_RECOGNISED)
        if dialect.encoding == "utf-16":
            if not begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self._codec = "utf-16-be" if begin.startswith(b"\0") else "utf-16-le"
        elif b"\0" in begin:
            other_format = (
                "no CSV, such as Excel: send CSV or Parquet, named in Content-Type"
            )
            utf16 = (
                f"this is not {dialect.encoding}; it is UTF-16 (send ?encoding=utf-16)"
            )
            raise Invalid.at("", f"{utf16}, or {other_format}")
        line = next(iter(begin.decode(self._codec, errors="ignore").splitlines()), "")
        separator = _SEPARATOR.fullmatch(line)
        is_ordered = "delimiter" in dialect.model_fields_set
        self._delimiter = (
            separator[1] if separator and not is_ordered else dialect.delimiter
        )
        self._lines_before = 1 if separator else 0
        self.first_row = self._lines_before + (
            FIRST_ROW if dialect.header == "first" else 1
        )
        with self._explained():
            self._begun: arrow_csv.CSVStreamingReader | None = self._begin()
            self.names = [normal(name) for name in self._begun.schema.names]
            if dialect.header == "none":
                self.names = [f"column_{j + 1}" for j in range(len(self.names))]

    def blocks(self) -> Iterator[list[Any]]:
        """The columns as strings, to be cleaned by `clean`, a block of rows at a time; again once
        all were read.
        """
        last = None
        with self._explained():
            reader = self._begun or self._begin()
            self._begun = None
            for batch in reader:
                last = batch.columns[-1][-1] if batch.num_rows else last
                yield batch.columns
        if last is not None and "\n" in last.as_py():
            raise Invalid.at(
                "",
                "the last value runs over several lines; close the quote that opens it",
            )

    def _begin(self) -> arrow_csv.CSVStreamingReader:
        """Arrow's reader from the beginning; it raises UnicodeError for text that is not in its
        encoding.

        Its own check of UTF-8 comes too late: it may pass over rows that are of another length,
        too. It reads ahead in a thread: until it is at the end, nothing else may read, move or ask
        the content.
        """
        ragged = (
            self._ragged
        )  # with `self` in its handler, the reader would keep itself in memory

        def note(row: Any) -> str:
            lengths = f"the header has {row.expected_columns} values, this row {row.actual_columns}"
            ragged.append(Flaw("", f"row {row.number}: {lengths}"))
            return "skip" if len(ragged) < MAX_ERRORS else "error"

        self._content.seek(0)
        parts = iter(lambda: self._content.readline(_BLOCK), b"")
        lines = (line[0] for part in parts for line in _LINE.finditer(part))
        header = next(islice(filter(_has_names, lines), self._lines_before, None), b"")
        marks = header.count(self._delimiter.encode())
        if marks > _MOST_COLUMNS:
            raise TooLarge(f"the header has more than {_MOST_COLUMNS:,} columns")
        if not marks:  # before rows that decimal commas make longer
            _check_delimiter(header.decode(self._codec, errors="ignore"))
        self._content.seek(0)
        content = pa.PythonFile(self._content, mode="r")
        return arrow_csv.open_csv(
            pa.transcoding_input_stream(content, self._codec, "utf-8"),
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=_BLOCK,
                autogenerate_column_names=self._dialect.header == "none",
                skip_rows=self._lines_before,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                invalid_row_handler=note,
            ),
            convert_options=arrow_csv.ConvertOptions(
                default_column_type=pa.string(), check_utf8=False
            ),
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Invalid for what Arrow finds, and for the ragged rows that were noted meanwhile."""
        try:
            yield
        except UnicodeError as error:
            raise self._refusal() from error
        except pa.ArrowInvalid as error:
            reject(self._ragged, _RAGGED)
            if str(error).startswith("CSV parse error: Empty CSV"):
                raise self._without_rows() from error
            hint = (
                "is there no row, a quote that is not closed,"
                f" or a row of more than {_BLOCK:,} bytes?"
            )
            raise Invalid.at(
                "", f"the file cannot be read as CSV: {str(error)[:200]}; {hint}"
            ) from error
        reject(self._ragged, _RAGGED)

    def _without_rows(self) -> Invalid:
        """The error for a file of which Arrow has read all, and found at most a header."""
        self._content.seek(0)
        line = (
            self._content.readline(_BLOCK).decode(self._codec, errors="replace").strip()
        )
        arrived = (
            f"is {line[:_MOST_SHOWN]!r}, and no row follows it, or a quote is not closed"
            if line
            else "is empty"
        )
        hint = "; curl -d joins the lines of a file: send it with --data-binary @file"
        return Invalid.at("", f"the first line {arrived}{hint}")

    def _refusal(self) -> Invalid:
        """The error for text that is not in its encoding."""
        encoding = self._dialect.encoding
        if encoding != "utf-8":
            return Invalid.at("/encoding", f"the file is not {encoding}")
        self._content.seek(0)
        lines = enumerate(self._content, 1)
        wrong = next(
            (
                number
                for number, line in lines
                if line.decode(errors="ignore").encode() != line
            ),
            1,
        )
        return Invalid.at(
            "",
            f"line {wrong} is not UTF-8; send ?encoding=latin-1, or save the file as UTF-8",
        )


def _has_names(line: bytes) -> bool:
    """Whether a line is more than blank."""
    return bool(line.strip(_EMPTY))


def _check_delimiter(header: str) -> None:
    """Invalid where a header of one name holds another sign that separates."""
    separator = next((mark for mark in (",", ";", "\t", "|") if mark in header), None)
    if separator is not None:
        shown = "%09" if separator == "\t" else separator
        raise Invalid.at(
            "",
            f"the header is split by {separator!r}; send ?delimiter={shown}, or separate by commas",
        )


def csv_source(content: BinaryIO, limits: DataLimits, dialect: Dialect) -> Source:
    """The columns of a CSV file as text.

    Raises Invalid for a file that is not such a table, and TooLarge over `limits`, before more
    than a block of it is in memory; also while it is read.
    """
    with _in_file():
        text = CsvText(content, dialect)
        check_columns(len(text.names), limits)
        values = [
            name
            for name in text.names
            if candidates(name) and not _YEAR.fullmatch(name)
        ]
        hint = NO_HEADER if 2 * len(values) >= len(text.names) else ""
        reject(
            Flaw(flaw.loc, f"{flaw.msg}; {hint}".rstrip("; "))
            for flaw in check_names(text.names, "")
        )

    def batches() -> Iterator[list[Any]]:
        rows = 0
        with _in_file():
            for columns in text.blocks():
                rows += len(columns[0])
                check_rows(rows, limits)
                yield list(map(clean, columns))
            if not rows:
                raise Invalid.at("", "there is a header, but no row of values")

    places = [
        Location(name, FILE + pointer(name), first_row=text.first_row)
        for name in text.names
    ]
    return Source(
        places,
        ["text"] * len(places),
        batches,
        notes=dict.fromkeys(values[:1], hint) if hint else {},
    )


@contextmanager
def _in_file() -> Iterator[None]:
    """Every flaw but a wrong encoding is one of the file."""
    try:
        yield
    except Invalid as error:
        raise Invalid(
            error.detail, [Flaw(flaw.loc or FILE, flaw.msg) for flaw in error.flaws]
        ) from error
