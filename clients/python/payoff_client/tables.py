"""What callers give: frames of pandas, polars and pyarrow, rows as objects, arrays. No library is imported for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from payoff_client.frames import frame_of
from payoff_client.values import Columns, Table, of_feature, plain


def table_of(data: Any) -> Table:
    """The table of a frame, of a list of objects or rows, of one object, or of an array (n, m)."""
    eager(data)
    frame = frame_of(data)
    if frame is not None:
        return frame
    if isinstance(data, Mapping):
        return _OneRow([data])
    if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        return Rows(data)
    if isinstance(data, np.ndarray | list | tuple):
        return _Array(data)
    path = "; `decide_file` decides for a file" if isinstance(data, str | PathLike) else ""
    raise TypeError(f"expected a frame, a list of objects or rows, or an array, not {type(data).__name__}{path}")


def eager(data: Any) -> None:
    """TypeError for a frame whose rows are not computed yet."""
    for compute in ("collect", "compute", "toPandas"):  # polars, Dask, Spark
        if callable(getattr(data, compute, None)):
            raise TypeError(f"the rows of this {type(data).__name__} are not there yet; pass frame.{compute}()")


def records(table: Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows as objects with these names."""
    columns = [table.column(name) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else []


def instances_of(table: Table, names: Sequence[str], texts: Collection[str]) -> list[dict[str, Any]]:
    """The rows as objects of features, those in `texts` being categories; names that a row lacks stay absent."""
    if not isinstance(table, Rows):
        columns = [table.feature(name, is_text=name in texts) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else []
    rows: list[dict[str, Any]] = [{} for _ in table.data]
    for name in names:
        places = [i for i, row in enumerate(table.data) if name in row]
        values = (table.data[i][name] for i in places)
        for i, value in zip(places, of_feature(name, values, is_text=name in texts, rows=places), strict=True):
            rows[i][name] = value
    return rows


def rows_of(table: Table, names: Sequence[str] | None) -> list[Any]:
    """The rows as JSON has them: objects by name, or lists where the table has no names; names that a row lacks stay
    absent.
    """
    if isinstance(table, _Array):
        return [[plain(value) for value in row] for row in table.data.tolist()]
    assert names is not None
    if not isinstance(table, Rows):
        return records(table, names)
    wanted = frozenset(names)
    return [{name: plain(value) for name, value in row.items() if name in wanted} for row in table.data]


class Rows:
    """A list of objects; one that lacks a name lacks it in the request, too."""

    def __init__(self, data: Sequence[Mapping[str, Any]]) -> None:
        self.data = data
        self.names: list[str] | None = list(dict.fromkeys(name for row in data for name in row))

    def __len__(self) -> int:
        return len(self.data)

    def part(self, start: int, stop: int) -> Table:
        return Rows(self.data[start:stop])

    def label(self, position: int) -> Any:
        return position

    def column(self, name: str) -> list[Any]:
        return [plain(row.get(name)) for row in self.data]

    def feature(self, name: str, *, is_text: bool) -> list[Any]:
        return of_feature(name, (row.get(name) for row in self.data), is_text=is_text)

    def matrix(self, names: Sequence[str]) -> np.ndarray | None:  # noqa: ARG002
        return None

    def arrow(self, names: Sequence[str], texts: Collection[str] = ()) -> bytes | None:  # noqa: ARG002
        return None

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        names = list(columns)
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [
            {name: sent[name] for name in kept if name in sent} | dict(zip(names, row, strict=True))
            for sent, row in zip(self.data, rows, strict=True)
        ]


class _OneRow(Rows):
    """One object: the result is one, too."""

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        return super().result(kept, columns)[0]


class _Array:
    """Rows in feature order; the result is an object of columns."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data) if isinstance(data, np.ndarray) else _array(data)
        self.names: list[str] | None = None
        if self.data.ndim != 2:
            raise ValueError(f"expected an array (rows, features), not one of the shape {self.data.shape}")

    def __len__(self) -> int:
        return len(self.data)

    def part(self, start: int, stop: int) -> Table:
        return _Array(self.data[start:stop])

    def label(self, position: int) -> Any:
        return position

    def column(self, name: str) -> list[Any]:
        raise KeyError(name)

    def feature(self, name: str, *, is_text: bool) -> list[Any]:
        raise KeyError(name, is_text)

    def matrix(self, names: Sequence[str]) -> np.ndarray | None:  # noqa: ARG002
        numeric = self.data.dtype.kind in "iufb"
        return np.ascontiguousarray(self.data, dtype=np.float64) if numeric else None

    def arrow(self, names: Sequence[str], texts: Collection[str] = ()) -> bytes | None:  # noqa: ARG002
        return None

    def result(self, kept: Sequence[str], columns: Columns) -> Any:  # noqa: ARG002
        return dict(columns)


def _array(rows: Iterable[Any]) -> np.ndarray:
    """Rows of several kinds of values keep them."""
    listed = [list(row) for row in rows]
    if len({len(row) for row in listed}) > 1:
        raise ValueError("the rows have different lengths")
    return np.array(listed, dtype=object).reshape(len(listed), len(listed[0]) if listed else 0)
