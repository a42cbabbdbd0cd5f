"""The source of a data set: a file or lists, as columns of known kind, each with its place in the
request.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from app.tables.dataset import ColumnReport, DataLimits
from app.tables.text import refused_character
from payoff.errors import MAX_NAME, Flaw, TooLarge

FILE = "/file"  # where an upload's content is in the request

_ROWS_SHOWN = 3  # of a flaw that many rows have

Kind = Literal["numeric", "categorical"]
Held = Literal["numeric", "truth", "moment", "words", "text"]
"""The content of a column as it comes; `text` of a file without types may be anything, `words` were
declared as strings.
"""


@dataclass(frozen=True)
class Location:
    """A column: `loc` points at it; `cell`, where cells can be pointed at, has `{}` for the row's
    position.

    Where they cannot (a file), the message names the row, counted from `first_row` as an editor
    shows it.
    """

    name: str
    loc: str
    cell: str | None = None
    first_row: int = 1
    # positions of rows that were left out, in order, in parts
    left_out: Sequence[np.ndarray] = ()

    def flaw(self, row: int, msg: str) -> Flaw:
        """A flaw in the cell of the row at position `row` (from 0)."""
        return self.flaw_of([row], msg)

    def flaw_of(self, rows: Sequence[int] | np.ndarray, msg: str) -> Flaw:
        """The one flaw of these rows, at the first of them, with their number and the first few."""
        count = len(rows)
        first = [int(row) for row in rows[:_ROWS_SHOWN]]
        more = ", …" if count > len(first) else ""
        if self.cell is not None:
            shown = f"positions {', '.join(map(str, first))}{more}"
            many = f" (in {count:,} rows, {shown})" if count > 1 else ""
            return Flaw(self.cell.format(first[0]), msg + many)
        shown = ", ".join(str(self._row_of_file(row)) for row in first)
        place = f"row {shown}" if count == 1 else f"{count:,} rows ({shown}{more})"
        return Flaw(self.loc, f"{self.name!r}, {place}: {msg}")

    def _row_of_file(self, row: int) -> int:
        """The row as an editor counts it, those that were left out included."""
        if self.left_out:
            gaps = np.concatenate(self.left_out)
            row += int(np.searchsorted(gaps - np.arange(len(gaps)), row, side="right"))
        return row + self.first_row


def check_names(names: list[str], loc: str) -> Iterator[Flaw]:
    """The flaws of the names of columns: empty, too long, of characters that no text may
    hold, or used twice.

    They are at `loc`, in which `{}` is the position.
    """
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        place = loc.format(position)
        if not name.strip():
            hint = (
                "a table written by pandas needs index=False"
                if position == 0
                else "is line 1 the header?"
            )
            yield Flaw(place, f"column {position + 1} has no name ({hint})")
        elif len(name) > MAX_NAME:
            yield Flaw(
                place,
                f"the name of column {position + 1} is longer than {MAX_NAME} characters",
            )
        elif message := refused_character(name):
            yield Flaw(place, f"the name of column {position + 1}: {message}")
        elif name in first:
            yield Flaw(
                place,
                f"{name!r} names column {first[name] + 1} and column {position + 1}; rename one",
            )
        first.setdefault(name, position)


@dataclass(frozen=True)
class Source:
    """Columns with their places and kinds; each call of `batches` reads all again, one Arrow array
    for each column.

    As it comes, an array is of a kind of `Held`, text cleaned or dictionary-encoded and null where
    a value is missing; or of a type that has no kind here. Once the source is typed, arrays are
    float64 or strings, by their `Kind`. By the name of a column, `ignored` has the report of one
    that is no feature, whether it is among them or not, `notations` how text stands for its
    numbers, `notes` what was made of it, `refused` what cannot be read, and `left_out` counts of
    what is left out, by reason; the last two are filled while the arrays are read.
    """

    places: Sequence[Location]
    kinds: Sequence[Any]
    batches: Callable[[], Iterator[list[Any]]]
    ignored: dict[str, ColumnReport] = field(default_factory=dict)
    notations: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    refused: dict[str, Flaw] = field(default_factory=dict)
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)

    def ignoring(self, reports: dict[str, ColumnReport]) -> Self:
        """The source whose columns of these reports, which say why, are no features."""
        return replace(self, ignored=self.ignored | reports)


def check_rows(rows: int, limits: DataLimits) -> None:
    if rows > limits.max_rows:
        raise TooLarge(
            f"{rows:,} rows; at most {limits.max_rows:,} rows are supported here"
        )


def check_columns(columns: int, limits: DataLimits) -> None:
    if columns > limits.max_columns:
        raise TooLarge(
            f"{columns:,} columns; a data set may have at most {limits.max_columns:,}"
        )
