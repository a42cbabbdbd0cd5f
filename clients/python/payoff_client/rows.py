"""Rows as callers have them: frames of pandas, polars and pyarrow, objects, arrays. None of the libraries is imported
unless one of its frames is given.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np

from payoff_client.errors import Flaw, Invalid

_TIMES = (datetime, time, timedelta, np.datetime64, np.timedelta64)
_SHOWN = 40  # characters of a value
NUMERIC, CATEGORICAL, FORM = (
    "numeric",
    "categorical",
    "form",
)  # what features take; those with a form take text, too
_NEEDED = {
    NUMERIC: "a number",
    CATEGORICAL: "text, a whole number, a date",
    FORM: "a number, text, a moment",
}
Columns = Mapping[str, np.ndarray]


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


def of_feature(name: str, values: Sequence[Any], kind: str) -> list[Any]:
    """Values as a feature of this kind takes them.

    A numeric one takes numbers, booleans as 0 and 1; a categorical one text, also of whole numbers and dates, but not
    of times, which have no text of their own; one with a form takes numbers, text and moments. It is the same whether
    they go as JSON or as Arrow. Invalid at other ones.
    """
    found = [_fit(value, kind) for value in values]
    needed = _NEEDED[kind]
    flaws = [
        Flaw(
            f"/instances/{i}/{name}",
            f"{name!r} takes {needed} or null, not {repr(values[i])[:_SHOWN]}",
        )
        for i, value in enumerate(found)
        if value is None and plain(values[i]) is not None
    ]
    if flaws:
        raise Invalid.of(flaws)
    return found


def _fit(value: Any, kind: str) -> Any:
    """The value as a feature takes it; None where it is missing or does not fit."""
    if kind == FORM and isinstance(value, date | np.datetime64) and plain(value) is not None:
        return str(value)
    if isinstance(value, _TIMES):
        return None
    found = value.decode() if kind == CATEGORICAL and isinstance(value, bytes) else plain(value)
    if kind == CATEGORICAL:
        return str(found) if type(found) is int else found if type(found) is str else None
    if type(found) is bool:
        return int(found)
    if isinstance(found, str):
        return found if kind == FORM else None
    return found if type(found) in (int, float) and abs(found) != math.inf else None


class Table:
    """Rows in the form in which they were given: here a frame.

    `names` are the columns; None where rows are lists in the model's feature order.
    """

    is_frame = True

    def __init__(self, data: Any, names: Iterable[Any] | None) -> None:
        self.data = data
        self.names = None if names is None else [str(name) for name in names]

    def __len__(self) -> int:
        return len(self.data)

    def part(self, start: int, stop: int) -> "Table":
        """Some of the rows."""
        return type(self)(self.data[start:stop], self.names)

    def label(self, position: int) -> Any:
        """What the caller calls a row."""
        return position

    def series(self, name: str) -> Any:
        """The column as the library has it; Invalid where two have the name, or none has."""
        raise NotImplementedError

    def values(self, name: str) -> list[Any]:
        """The values of a column, as the library has them."""
        found: list[Any] = self.series(name).to_list()
        return found

    def column(self, name: str) -> list[Any]:
        """Values as JSON has them, None where missing."""
        return [plain(value) for value in self.values(name)]

    def arrow(self, name: str) -> Any:
        """A column as an array of pyarrow; TypeError or ValueError where it has values of several kinds."""
        raise NotImplementedError

    def header(self) -> list[str]:
        """The names; TypeError where there are none."""
        if self.names is None:
            raise TypeError("an array has no names of columns: give a frame or a list of objects")
        return self.names

    def objects(self) -> list[dict[str, Any]]:
        """The rows as objects of JSON."""
        return _zipped(self.header(), [self.column(name) for name in self.header()])

    def instances(self, names: Sequence[str], kinds: Mapping[str, str]) -> list[Any]:
        """The rows as JSON has them, with these features of these kinds; see `of_feature`."""
        return _zipped(names, [of_feature(name, self.values(name), kinds[name]) for name in names])

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        """Columns of the table beside others, in the library of the table, with its index."""
        raise NotImplementedError

    def place(self, name: str) -> int:
        """The position of a column; Invalid where two have the name, or none has."""
        names = self.names or []
        if names.count(name) != 1:
            among = f"this column is missing; there are {', '.join(map(repr, names)) or 'none'}"
            raise Invalid.of(
                [
                    Flaw(
                        "",
                        "the frame has this column twice" if name in names else among,
                        column=name,
                    )
                ]
            )
        return names.index(name)

    def places(self, wanted: Collection[str]) -> list[int]:
        """The positions of all columns with these names, which may be doubled."""
        return [i for i, name in enumerate(self.names or ()) if name in wanted]


class _Pandas(Table):
    def part(self, start: int, stop: int) -> Table:
        return _Pandas(self.data.iloc[start:stop], self.names)

    def label(self, position: int) -> Any:
        return plain(self.data.index[position])

    def series(self, name: str) -> Any:
        return self.data.iloc[:, self.place(name)]

    def arrow(self, name: str) -> Any:
        series = self.series(
            name
        )  # NaN among floats stays: it is missing to the service, too, and nothing is copied
        return arrow_tools().pa.array(series, from_pandas=series.dtype.kind != "f")

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        return self.data.iloc[:, self.places(kept)].assign(**columns)


class _Polars(Table):
    def part(self, start: int, stop: int) -> Table:
        return _Polars(self.data.slice(start, stop - start), self.names)

    def series(self, name: str) -> Any:
        return self.data.to_series(self.place(name))

    def arrow(self, name: str) -> Any:
        return self.series(name).to_arrow()

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        found = type(self.data)({name: listed(column) for name, column in columns.items()})
        return self.data.select(kept).hstack(found) if kept else found


class Rows(Table):
    """A list of objects; one that lacks a name lacks it in the request, too."""

    is_frame = False

    def __init__(
        self, data: Sequence[Mapping[str, Any]], names: Iterable[Any] | None = None
    ) -> None:
        super().__init__(
            data, dict.fromkeys(name for row in data for name in row) if names is None else names
        )

    def values(self, name: str) -> list[Any]:
        self.place(name)
        return [row.get(name) for row in self.data]

    def instances(self, names: Sequence[str], kinds: Mapping[str, str]) -> list[Any]:
        sent = super().instances(names, kinds)
        return [
            {name: one[name] for name in one if name in row}
            for one, row in zip(sent, self.data, strict=True)
        ]

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        added = _zipped(list(columns), [column.tolist() for column in columns.values()])
        wanted = frozenset(kept)
        return [
            {name: value for name, value in sent.items() if name in wanted} | row
            for sent, row in zip(self.data, added, strict=True)
        ]


class _OneRow(Rows):
    """One object: the result is one, too."""

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        return super().result(kept, columns)[0]


class _Array(Table):
    """Rows in feature order; the result is an object of columns."""

    is_frame = False

    def series(self, name: str) -> Any:
        return self.place(name)  # it has none

    def instances(self, names: Sequence[str], kinds: Mapping[str, str]) -> list[Any]:  # noqa: ARG002
        return [[plain(value) for value in row] for row in self.data.tolist()]

    def result(self, kept: Sequence[str], columns: Columns) -> Any:  # noqa: ARG002
        return dict(columns)


def table_of(data: Any) -> Table:
    """The table of a frame, of a list of objects or rows, of one object, or of an array (n, m)."""
    for compute in ("collect", "compute", "toPandas"):  # polars, Dask, Spark
        if callable(getattr(data, compute, None)):
            raise TypeError(
                f"the rows of this {type(data).__name__} are not there yet; pass frame.{compute}()"
            )
    make = _FRAMES.get(type(data).__module__.partition(".")[0])
    if make is not None and hasattr(data, "columns"):
        return make(data)
    if isinstance(data, Mapping):
        return _OneRow([data])
    if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        return Rows(data)
    if isinstance(data, np.ndarray | list | tuple):
        found = (
            data if isinstance(data, np.ndarray) else np.array(data, dtype=object)
        )  # which keeps several kinds
        found = found if found.size else found.reshape(len(found), -1 if len(found) else 0)
        if found.ndim != 2:
            raise ValueError(
                f"expected an array (rows, features), not one of the shape {found.shape}"
            )
        return _Array(found, None)
    path = "; `decide_file` decides for a file" if isinstance(data, str | PathLike) else ""
    raise TypeError(
        f"expected a frame, a list of objects or rows, or an array, not {type(data).__name__}{path}"
    )


_FRAMES: dict[str, Callable[[Any], Table]] = {
    "pandas": lambda data: _Pandas(data, data.columns),
    "polars": lambda data: _Polars(data, data.columns),
    "pyarrow": lambda data: arrow_tools().ArrowTable(data, data.column_names),
}


def arrow_tools() -> ModuleType:
    """What needs pyarrow, which takes time and memory to import; ImportError where it is not installed."""
    return import_module("payoff_client.arrow")


def has_pyarrow() -> bool:
    """Whether it is installed."""
    return find_spec("pyarrow") is not None


def listed(column: np.ndarray) -> Any:
    """Objects as a list, of which each library finds the type."""
    return column.tolist() if column.dtype == object else column


def _zipped(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
