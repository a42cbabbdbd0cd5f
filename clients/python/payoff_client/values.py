"""What the tables of all libraries share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Any, Protocol

import numpy as np

from payoff_client.errors import Flaw, Invalid

_TIMES = (datetime, time, timedelta, np.datetime64, np.timedelta64)
MAX_FLAWS = 20
_SHOWN = 40  # characters of a value
Columns = Mapping[str, np.ndarray]


class Table(Protocol):
    """Rows in the form in which they were given.

    `names` are the columns; None where rows are lists in the model's feature order.
    """

    names: list[str] | None

    def __len__(self) -> int:
        """The number of rows."""

    def part(self, start: int, stop: int) -> Table:
        """Some of the rows."""

    def label(self, position: int) -> Any:
        """What the caller calls a row."""

    def column(self, name: str) -> list[Any]:
        """Values as JSON has them, None where missing."""

    def feature(self, name: str, *, is_text: bool) -> list[Any]:
        """Values as a feature takes them, see `of_feature`."""

    def matrix(self, names: Sequence[str]) -> np.ndarray | None:
        """Columns (n, m) of float64, NaN where missing; None where one of them is not numeric."""

    def arrow(self, names: Sequence[str], texts: Collection[str] = ()) -> bytes | None:
        """Columns as an Arrow stream, those in `texts` being categories; None where no library writes it.

        Invalid at values of another kind than the rest of their column.
        """

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        """Columns of the table beside others, in the library of the table, with its index."""


def plain(value: Any) -> Any:
    """A value of JSON: missing ones are None, dates are text, numbers of NumPy are Python's."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, list | dict):
        return value
    return float(value) if hasattr(value, "as_tuple") else str(value)


def whole(value: Any) -> Any:
    """The value, a float without a fraction as an integer: integers beside missing values are floats to pandas."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def of_feature(name: str, values: Iterable[Any], *, is_text: bool, rows: Iterable[int] | None = None) -> list[Any]:
    """Values as a feature takes them: numbers, where booleans are 0 and 1, or text, also of whole numbers and dates.

    It is the same whether they go as JSON or as Arrow. Invalid at other ones: a time has no text of its own.
    """
    found = list(values)
    flaws = []
    for i, value in enumerate(found):
        fit = _fit(value, is_text=is_text)
        if fit is None and plain(value) is not None:
            needed = "text, a whole number, a date" if is_text else "a number"
            flaws.append((i, f"{name!r} takes {needed} or null, not {repr(value)[:_SHOWN]}"))
        found[i] = fit
    if flaws:
        places = list(range(len(found)) if rows is None else rows)
        errors = [Flaw(f"/instances/{places[i]}/{name}", msg) for i, msg in flaws[:MAX_FLAWS]]
        raise Invalid(errors[0].msg, status=422, title="Invalid request", errors=errors)
    return found


def _fit(value: Any, *, is_text: bool) -> Any:
    """The value as a feature takes it; None where it is missing or does not fit."""
    if isinstance(value, _TIMES):
        return None
    if is_text and isinstance(value, bytes):
        return value.decode()
    found = plain(value)
    if is_text:
        return str(found) if type(found) is int else found if type(found) is str else None
    return int(found) if type(found) is bool else found if type(found) in (int, float) else None
