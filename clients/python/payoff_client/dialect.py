"""How a CSV file is written: one object for all functions and commands that take files."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, BinaryIO, Self, TypedDict

_CODECS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "latin-1": "cp1252"}  # as the service reads them
_TAB = ("\\t", "tab")  # as shells have it
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # both as the service has them
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "None", "?"})
_SHOWN = 40  # characters of a value


class Written(TypedDict, total=False):
    """How a CSV file is written; by default with commas, decimal points, and in UTF-8."""

    delimiter: str
    decimal: str
    encoding: str


@dataclass(frozen=True)
class Dialect:
    """`delimiter`, `decimal` and `encoding` of a CSV file; ValueError for an unknown encoding."""

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.encoding not in _CODECS:
            raise ValueError(f"encoding is {self.encoding!r}; must be one of {', '.join(_CODECS)}")
        if self.delimiter in _TAB:
            object.__setattr__(self, "delimiter", "\t")
        if len(self.delimiter) != 1:
            raise ValueError(f"delimiter is {self.delimiter!r}; must be one character")

    @classmethod
    def taken(cls, options: dict[str, Any]) -> Self:
        """The dialect among options, which lose it."""
        found = {name: options.pop(name, None) for name in NAMES}
        return cls(**{name: value for name, value in found.items() if value is not None})

    def query(self) -> dict[str, str]:
        """What differs from the default, as query parameters."""
        return {
            each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default
        }

    def of_parts(self) -> dict[str, str]:
        """The same for parts of a file, which are in UTF-8: see `in_utf8`."""
        return {name: value for name, value in self.query().items() if name != "encoding"}

    def check(self, what: str, *, is_csv: bool) -> None:
        """ValueError where something else than CSV is given a dialect, which would have no effect."""
        if not is_csv and self.query():
            raise ValueError(f"{next(iter(self.query()))} is for CSV files; {what} is none")

    def number(self, text: str) -> float:
        """The number in a text, as the service reads it; ValueError where it is none, or infinite."""
        plain = text.strip()
        if self.decimal != ".":
            plain = plain.replace(".", "?").replace(self.decimal, ".")
        found = float(plain) if _NUMBER.fullmatch(plain) else math.inf
        if math.isinf(found):
            raise ValueError(f"{text[:_SHOWN]!r} is not a number")
        return found

    def header(self, line: bytes) -> list[str]:
        """The names in the first row, as the service reads them; ValueError where it is no row of UTF-8."""
        try:
            return next(self.rows(line), [])
        except (ValueError, csv.Error) as error:
            raise ValueError(f"the header cannot be read: {error}") from error

    def rows(self, text: bytes) -> Iterator[list[str]]:
        """The rows of CSV in UTF-8, without empty lines and spaces around values; ValueError or csv.Error otherwise."""
        found = csv.reader(io.StringIO(text.decode("utf-8-sig"), newline=""), delimiter=self.delimiter)
        return ([cell.strip() for cell in row] for row in found if row)

    def in_utf8(self, file: BinaryIO) -> Any:
        """A file whose `read` has the text in UTF-8."""
        return file if self.encoding == "utf-8" else _Recoded(file, self.encoding)


NAMES = tuple(each.name for each in fields(Dialect))
PLAIN = Dialect()


def dialect_of(options: Mapping[str, Any]) -> Dialect:
    """The dialect among options, which stay as they are."""
    return Dialect.taken(dict(options))


class _Recoded:
    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(file, _CODECS[encoding], newline="")
        self._encoding = encoding

    def read(self, size: int = -1) -> bytes:
        try:
            return self._text.read(size).encode()
        except UnicodeError as error:
            raise ValueError(f"the file is not {self._encoding}") from error
