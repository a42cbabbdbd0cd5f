"""Where a column stands in what was sent, so that every problem can point at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.errors import Flaw, pointer
from app.text import MAX_NAME, refused_character

FILE = "/file"  # where an upload's content is in the request


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


def check_names(names: list[str], loc: str, *, numbered: bool) -> Iterator[Flaw]:
    """What is wrong with the names of columns: empty, too long, of characters that no text may hold, or used twice.

    `numbered` points at `loc/3`, else all flaws are at `loc` and name the column.
    """
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        place = loc + pointer(position) if numbered else loc
        if not name.strip():
            hint = "a table written by pandas needs index=False" if position == 0 else "is line 1 the header?"
            yield Flaw(place, f"column {position + 1} has no name" + ("" if numbered else f" ({hint})"))
        elif len(name) > MAX_NAME:
            yield Flaw(place, f"the name of column {position + 1} is longer than {MAX_NAME} characters")
        elif message := refused_character(name):
            yield Flaw(place, f"the name of column {position + 1}: {message}")
        elif name in first:
            yield Flaw(place, f"{name!r} names column {first[name] + 1} and column {position + 1}; rename one")
        first.setdefault(name, position)
