"""NDJSON: an object a line, whose members are the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import orjson
import pyarrow as pa

from app.data.dataset import DataLimits
from app.data.location import FILE, Location, check_names
from app.data.source import Kind, check_columns, check_rows
from app.data.upload_request import UploadRequest
from app.errors import Invalid, TooLarge, pointer, reject
from app.json_text import document_of, syntax_error

_BLOCK = 1 << 20  # bytes parsed at a time; also the longest line
_CELLS_PER_BYTE = 8  # at most: few objects of one name each can stand for many cells
_FREE_CELLS = 1_000_000
_BOM = b"\xef\xbb\xbf"
_NUMBERS = frozenset({int, float, bool, type(None)})
_OPEN, _CLOSE = b"{}"


class Lines(NamedTuple):
    """Objects, and in which line each stands."""

    objects: list[dict[str, Any]]
    numbers: list[int]

    def names(self) -> dict[str, None]:
        """The names of all members, in order of their appearance."""
        return {name: None for each in self.objects for name in each}

    def column(self, name: str) -> pa.Array:
        """The values of a member as numbers, booleans, strings or nulls; null where an object lacks it."""
        values = [each.get(name) for each in self.objects]
        try:
            found = pa.array(values)
        except (pa.ArrowException, OverflowError):
            if not _NUMBERS.issuperset(map(type, values)):
                raise self._flaw(name, values) from None
            found = pa.array([None if value is None else float(value) for value in values])
        if pa.types.is_nested(found.type):
            raise self._flaw(name, values)
        return found

    def _flaw(self, name: str, values: Sequence[Any]) -> Invalid:
        """The first value that is not of the kind of the first."""
        words = next((type(value) is str for value in values if value is not None), False)
        expected = {str, type(None)} if words else _NUMBERS
        number = next((n for n, value in zip(self.numbers, values, strict=True) if type(value) not in expected), 0)
        held = "text" if words else "numbers"
        return Invalid.at(pointer(name), f"{name!r}, line {number}: send {held} or null, as in the other lines")


def lines_of(body: bytes) -> Lines:
    """The objects of a whole body; Invalid with the line of what is none."""
    return _parsed(body.removeprefix(_BOM), 1)


class JsonLinesFile:
    """A file of objects as a source: numbers and booleans are numeric, text is categorical, null or absent is missing.

    Raises Invalid with the line for what is neither or both, and TooLarge beyond `limits`. One block in memory.
    """

    def __init__(self, content: BinaryIO, limits: DataLimits, request: UploadRequest) -> None:
        self._content = content
        self._limits = limits
        self._ignored = request.named("ignore")
        try:
            kinds, rows = self._survey()
        except Invalid as error:
            raise error.under(FILE) from error
        if not rows:
            raise Invalid.at(FILE, "the file has no row")
        reject(check_names(list(kinds), FILE, numbered=False))
        self.names = list(kinds)
        chosen = {name: kind for name, kind in kinds.items() if name not in self._ignored}
        self.places = [Location(name, FILE + pointer(name)) for name in chosen]
        self.kinds: list[Kind] = [kind or "numeric" for kind in chosen.values()]

    def batches(self) -> Iterator[list[Any]]:
        for lines in self._blocks():
            columns = (lines.column(place.name) for place in self.places)
            yield [
                column.cast(pa.float64(), safe=False) if kind == "numeric" else column.cast(pa.string())
                for column, kind in zip(columns, self.kinds, strict=True)
            ]

    def _survey(self) -> tuple[dict[str, Kind | None], int]:
        """The kind of each column, None where there is no value, and the number of rows."""
        kinds: dict[str, Kind | None] = {}
        rows = 0
        for lines in self._blocks():
            rows += len(lines.objects)
            kinds = dict.fromkeys([*kinds, *lines.names()]) | kinds
            self._check_extent(rows, len(kinds))
            for name, known in kinds.items():
                if name not in self._ignored:
                    kinds[name] = _joined(name, known, lines)
        return kinds, rows

    def _check_extent(self, rows: int, columns: int) -> None:
        check_rows(rows, self._limits)
        check_columns(columns, self._limits)
        if rows * columns > _FREE_CELLS + _CELLS_PER_BYTE * self._content.tell():
            raise TooLarge(
                f"{rows:,} rows have {columns:,} columns together, and nearly no values; send the rows with fewer names"
            )

    def _blocks(self) -> Iterator[Lines]:
        self._content.seek(0)
        rest, first = b"", 1
        while chunk := self._content.read(_BLOCK):
            block, _, rest = (rest + chunk).rpartition(b"\n")
            if len(rest) > _BLOCK:
                raise Invalid.at("", f"a line is longer than {_BLOCK:,} bytes")
            yield _parsed(block.removeprefix(_BOM) if first == 1 else block, first)
            first += block.count(b"\n") + 1 if block else 0
        yield _parsed(rest, first)


def _joined(name: str, known: Kind | None, lines: Lines) -> Kind | None:
    """The kind of a column after some more lines; Invalid where they are of another kind."""
    column = lines.column(name)
    if pa.types.is_null(column.type):
        return known
    kind: Kind = "categorical" if pa.types.is_string(column.type) else "numeric"
    if known not in (None, kind):
        number = lines.numbers[column.is_valid().index(True).as_py()]
        held = "numbers" if known == "numeric" else "text"
        raise Invalid.at(pointer(name), f"{name!r}, line {number}: send {held} or null, as in the lines before")
    return kind


def _parsed(block: bytes, first: int) -> Lines:
    """All objects parsed at once; where that fails, line by line to find the first that is wrong."""
    filled = [(number, line) for number, line in enumerate(map(bytes.strip, block.split(b"\n")), first) if line]
    text = b"[" + b",".join(line for _, line in filled) + b"]"
    try:
        objects = document_of(text)
    except ValueError:  # Invalid is one
        objects = []
    whole = len(objects) == len(filled) and {dict}.issuperset(map(type, objects))
    if not whole or any(line[0] != _OPEN or line[-1] != _CLOSE for _, line in filled):
        for number, line in filled:
            _check_line(number, line)
        raise Invalid.at("", "the lines are nested too deeply")
    return Lines(objects, [number for number, _ in filled])


def _check_line(number: int, line: bytes) -> None:
    try:
        value = document_of(line)
    except orjson.JSONDecodeError as error:
        raise Invalid.at("", f"line {number} is not JSON: {syntax_error(error)}") from error
    except Invalid as error:
        raise Invalid.at("", f"line {number}: {error.detail}") from error
    if type(value) is not dict:
        raise Invalid.at("", f"line {number} is not an object of values by column name")
