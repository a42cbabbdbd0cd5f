"""What a data set is read from: a file or lists, as named columns of known kind in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

from app.data.dataset import DataLimits
from app.data.location import Location
from app.errors import TooLarge

Kind = Literal["numeric", "categorical"]


class Source(Protocol):
    """Columns with their places and kinds; `batches` gives one Arrow array for each column.

    `names` are those of all columns, also of the ones that are ignored.

    Numeric arrays are float64, categorical ones (dictionary-encoded) strings, null where a value is missing.
    """

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def places(self) -> Sequence[Location]: ...

    @property
    def kinds(self) -> Sequence[Kind]: ...

    def batches(self) -> Iterator[list[Any]]: ...


def check_rows(rows: int, limits: DataLimits) -> None:
    if rows > limits.max_rows:
        raise TooLarge(f"{rows:,} rows; at most {limits.max_rows:,} rows are supported here")


def check_columns(columns: int, limits: DataLimits) -> None:
    if columns > limits.max_columns:
        raise TooLarge(f"{columns:,} columns; a data set may have at most {limits.max_columns:,}")
