"""What a data set is read from: a file or lists, as columns of known kind, each with its place in what was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.data.dataset import DataLimits
from app.errors import Flaw, TooLarge
from app.text import MAX_NAME, refused_character

FILE = "/file"  # where an upload's content is in the request

Kind = Literal["numeric", "categorical"]


@dataclass(frozen=True)
class Location:
    """A column: `loc` points at it; `cell`, where cells can be pointed at, has `{}` for the row's position.

    Where they cannot (a file), the message names the row, counted from `first_row` as an editor shows it.
    """

    name: str
    loc: str
    cell: str | None = None
    first_row: int = 1

    def flaw(self, row: int, msg: str) -> Flaw:
        """A flaw in the cell of the row at position `row` (from 0)."""
        if self.cell is not None:
            return Flaw(self.cell.format(row), msg)
        return Flaw(self.loc, f"{self.name!r}, row {row + self.first_row}: {msg}")


def check_names(names: list[str], loc: str) -> Iterator[Flaw]:
    """What is wrong with the names of columns: empty, too long, of characters that no text may hold, or used twice.

    They are at `loc`, in which `{}` is the position.
    """
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        place = loc.format(position)
        if not name.strip():
            hint = "a table written by pandas needs index=False" if position == 0 else "is line 1 the header?"
            yield Flaw(place, f"column {position + 1} has no name ({hint})")
        elif len(name) > MAX_NAME:
            yield Flaw(place, f"the name of column {position + 1} is longer than {MAX_NAME} characters")
        elif message := refused_character(name):
            yield Flaw(place, f"the name of column {position + 1}: {message}")
        elif name in first:
            yield Flaw(place, f"{name!r} names column {first[name] + 1} and column {position + 1}; rename one")
        first.setdefault(name, position)


@dataclass(frozen=True)
class Source:
    """Columns with their places and kinds; each call of `batches` reads all again, one Arrow array for each column.

    An array holds numbers, or (dictionary-encoded) text, null where a value is missing, or what has no kind here. Once
    it is `typed` it is float64 or strings, by its kind; columns that are `ignored` or have no kind are no longer there.
    By the name of a column, `refused` has what cannot be read, and `left_out` the message about the first word in a
    column of numbers, and how many there are; both are filled while the arrays are read.
    """

    places: Sequence[Location]
    kinds: Sequence[Kind | None]
    batches: Callable[[], Iterator[list[Any]]]
    ignored: Sequence[str] = ()
    refused: dict[str, Flaw] = field(default_factory=dict)
    left_out: dict[str, tuple[str, int]] = field(default_factory=dict)


def check_rows(rows: int, limits: DataLimits) -> None:
    if rows > limits.max_rows:
        raise TooLarge(f"{rows:,} rows; at most {limits.max_rows:,} rows are supported here")


def check_columns(columns: int, limits: DataLimits) -> None:
    if columns > limits.max_columns:
        raise TooLarge(f"{columns:,} columns; a data set may have at most {limits.max_columns:,}")
