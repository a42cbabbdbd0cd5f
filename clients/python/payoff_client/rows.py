"""Rows as callers have them: frames of pandas, polars and pyarrow, objects, arrays.

A library is not imported unless the rows are one of its frames.
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
_SHOWN_CHARACTERS = 40  # of a value in a message
# The kinds of values of a feature; one with a notation takes numbers, moments and text.
NUMERIC, CATEGORICAL, NOTATION = "numeric", "categorical", "notation"
_VALUES_OF = {
    NUMERIC: "a number",
    CATEGORICAL: "text, a whole number, a date",
    NOTATION: "a number, text, a moment",
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


def integral(value: Any) -> Any:
    """The value, with a float without a fraction as an integer.

    In pandas integers are floats where the column has missing values.
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_feature(name: str, values: Sequence[Any], kind: str) -> list[Any]:
    """Values as a feature of this kind takes them.

    A numeric feature takes numbers, booleans as 0 and 1; a categorical feature text, also of whole
    numbers and dates, but not of times, which have no standard text; a feature with a notation
    takes numbers, text and moments. It is the same whether they go as JSON or as Arrow. Invalid at
    other values.
    """
    fitted = [_fit(value, kind) for value in values]
    flaws = []
    for i, (value, fit) in enumerate(zip(values, fitted, strict=True)):
        if fit is None and plain(value) is not None:
            shown = repr(value)[:_SHOWN_CHARACTERS]
            fault = f"{name!r} takes {_VALUES_OF[kind]} or null, not {shown}"
            flaws.append(Flaw(f"/instances/{i}/{name}", fault))
    if flaws:
        raise Invalid.of(flaws)
    return fitted


def _fit(value: Any, kind: str) -> Any:
    """The value as a feature takes it; None where it is missing or does not fit."""
    if (
        kind == NOTATION
        and isinstance(value, date | np.datetime64)
        and plain(value) is not None
    ):
        return str(value)
    if isinstance(value, _TIMES):
        return None
    if kind == CATEGORICAL:
        text = value.decode() if isinstance(value, bytes) else plain(value)
        return str(text) if type(text) in (int, str) else None
    number = plain(value)
    if type(number) is bool:
        return int(number)
    if isinstance(number, str):
        return number if kind == NOTATION else None
    return number if type(number) in (int, float) and abs(number) != math.inf else None


class Table:
    """Rows in the data structure of the caller; this base class is for frames.

    `names` are the columns; None where rows are lists in the order of the model's features.
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
        """The label of a row in the index of the frame, else its position."""
        return position

    def series(self, name: str) -> Any:
        """The column as the library has it; Invalid where no column has the name, or two have."""
        raise NotImplementedError

    def values(self, name: str) -> list[Any]:
        """The values of a column, as the library has them."""
        values: list[Any] = self.series(name).to_list()
        return values

    def column(self, name: str) -> list[Any]:
        """Values as JSON has them, None where missing."""
        return [plain(value) for value in self.values(name)]

    def arrow(self, name: str) -> Any:
        """A column as an array of pyarrow.

        TypeError or ValueError where it has values of several kinds.
        """
        raise NotImplementedError

    def header(self) -> list[str]:
        """The names; TypeError where there are none."""
        if self.names is None:
            raise TypeError(
                "an array has no names of columns: give a frame or a list of objects"
            )
        return self.names

    def objects(self) -> list[dict[str, Any]]:
        """The rows as objects of JSON."""
        return _zipped(self.header(), [self.column(name) for name in self.header()])

    def instances(self, names: Sequence[str], kinds: Mapping[str, str]) -> list[Any]:
        """The rows as JSON has them, with these features of these kinds; see `as_feature`."""
        return _zipped(
            names, [as_feature(name, self.values(name), kinds[name]) for name in names]
        )

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        """The columns `kept` of the table, then those of `columns`, as a table of its library."""
        raise NotImplementedError

    def place(self, name: str) -> int:
        """The position of a column; Invalid where no column has the name, or two have."""
        names = self.names or []
        if names.count(name) == 1:
            return names.index(name)
        fault = "the frame has this column twice"
        if name not in names:
            present = ", ".join(map(repr, names)) or "none"
            fault = f"this column is missing; there are {present}"
        raise Invalid.of([Flaw("", fault, column=name)])

    def places(self, names: Collection[str]) -> list[int]:
        """The positions of all columns with these names; several columns may have the same name."""
        return [i for i, name in enumerate(self.names or ()) if name in names]


class _Pandas(Table):
    def part(self, start: int, stop: int) -> Table:
        return _Pandas(self.data.iloc[start:stop], self.names)

    def label(self, position: int) -> Any:
        return plain(self.data.index[position])

    def series(self, name: str) -> Any:
        return self.data.iloc[:, self.place(name)]

    def arrow(self, name: str) -> Any:
        # NaN among floats stays: it is missing to the service, too, and nothing is copied.
        series = self.series(name)
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
        results = type(self.data)(
            {name: listed(column) for name, column in columns.items()}
        )
        return self.data.select(kept).hstack(results) if kept else results


class Rows(Table):
    """A list of objects; a name that an object lacks is missing in the request, too."""

    is_frame = False

    def __init__(
        self, data: Sequence[Mapping[str, Any]], names: Iterable[Any] | None = None
    ) -> None:
        if names is None:
            names = dict.fromkeys(name for row in data for name in row)
        super().__init__(data, names)

    def values(self, name: str) -> list[Any]:
        self.place(name)
        return [row.get(name) for row in self.data]

    def instances(self, names: Sequence[str], kinds: Mapping[str, str]) -> list[Any]:
        instances = super().instances(names, kinds)
        return [
            {name: value for name, value in instance.items() if name in row}
            for instance, row in zip(instances, self.data, strict=True)
        ]

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        results = _zipped(
            list(columns), [column.tolist() for column in columns.values()]
        )
        names = frozenset(kept)
        return [
            {name: value for name, value in row.items() if name in names} | result
            for row, result in zip(self.data, results, strict=True)
        ]


class _OneRow(Rows):
    """One object; the result is one object, too."""

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        return super().result(kept, columns)[0]


class _Array(Table):
    """Rows in feature order; the result is an object of columns."""

    is_frame = False

    def series(self, name: str) -> Any:
        return self.place(name)  # raises Invalid, as an array has no names

    def instances(
        self, names: Sequence[str], kinds: Mapping[str, str]  # noqa: ARG002
    ) -> list[Any]:  # fmt: skip
        return [[plain(value) for value in row] for row in self.data.tolist()]

    def result(self, kept: Sequence[str], columns: Columns) -> Any:  # noqa: ARG002
        return dict(columns)


def table_of(data: Any) -> Table:
    """The table of a frame, of a list of objects or rows, of one object, or of an array (n, m)."""
    for compute in ("collect", "compute", "toPandas"):  # polars, Dask, Spark
        if callable(getattr(data, compute, None)):
            kind = type(data).__name__
            raise TypeError(
                f"the rows of this {kind} are not there yet; pass frame.{compute}()"
            )
    make = _FRAMES.get(type(data).__module__.partition(".")[0])
    if make is not None and hasattr(data, "columns"):
        return make(data)
    if isinstance(data, Mapping):
        return _OneRow([data])
    if (
        isinstance(data, list | tuple)
        and data
        and all(isinstance(row, Mapping) for row in data)
    ):
        return Rows(data)
    if isinstance(data, np.ndarray | list | tuple):
        # Objects keep the types of the values.
        array = data if isinstance(data, np.ndarray) else np.array(data, dtype=object)
        if not array.size:
            array = array.reshape(len(array), -1 if len(array) else 0)
        if array.ndim != 2:
            fault = f"expected an array (rows, features), not one of the shape {array.shape}"
            raise ValueError(fault)
        return _Array(array, None)
    path = (
        "; `decide_file` decides for a file" if isinstance(data, str | PathLike) else ""
    )
    raise TypeError(
        f"expected a frame, a list of objects or rows, or an array, not {type(data).__name__}{path}"
    )


_FRAMES: dict[str, Callable[[Any], Table]] = {
    "pandas": lambda data: _Pandas(data, data.columns),
    "polars": lambda data: _Polars(data, data.columns),
    "pyarrow": lambda data: arrow_tools().ArrowTable(data, data.column_names),
}


def arrow_tools() -> ModuleType:
    """The module that imports pyarrow, which takes time and memory; ImportError without it."""
    return import_module("payoff_client.arrow")


def has_pyarrow() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def listed(column: np.ndarray) -> Any:
    """An array of objects as a list, so that each library infers its type."""
    return column.tolist() if column.dtype == object else column


def _zipped(
    names: Sequence[str], columns: Sequence[Sequence[Any]]
) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
