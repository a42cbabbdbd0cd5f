"""What a data set is read from: a file or lists, as named columns of known kind in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.data.dataset import DataLimits
from app.data.location import Location
from app.errors import TooLarge

Kind = Literal["numeric", "categorical"]


@dataclass(frozen=True)
class LeftOut:
    """Words in a column of numbers, which count as missing: how many there are, and the first with its row."""

    count: int
    row: int
    word: str


@dataclass(frozen=True)
class Source:
    """Columns with their places and kinds; each call of `batches` reads all again, one Arrow array for each column.

    `names` are those of all columns, also of the ones that are ignored. Numeric arrays are float64, categorical ones
    (dictionary-encoded) strings, null where a value is missing. `left_out`, by column, is filled while they are read.
    """

    names: Sequence[str]
    places: Sequence[Location]
    kinds: Sequence[Kind]
    batches: Callable[[], Iterator[list[Any]]]
    left_out: dict[str, LeftOut] = field(default_factory=dict)


def check_rows(rows: int, limits: DataLimits) -> None:
    if rows > limits.max_rows:
        raise TooLarge(f"{rows:,} rows; at most {limits.max_rows:,} rows are supported here")


def check_columns(columns: int, limits: DataLimits) -> None:
    if columns > limits.max_columns:
        raise TooLarge(f"{columns:,} columns; a data set may have at most {limits.max_columns:,}")
