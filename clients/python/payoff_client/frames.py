"""Frames of pandas, polars and pyarrow. None of them is imported unless one was given."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from payoff_client.values import Columns, Table, of_feature, plain


def frame_of(data: Any) -> Table | None:
    """The table of a frame; None for anything else."""
    make = _FRAMES.get(type(data).__module__.partition(".")[0])
    return make(data) if make is not None and hasattr(data, "columns") else None


class _Pandas:
    def __init__(self, data: Any) -> None:
        self.data = data
        self.names: list[str] | None = [str(name) for name in data.columns]

    def __len__(self) -> int:
        return len(self.data)

    def part(self, start: int, stop: int) -> Table:
        return _Pandas(self.data.iloc[start:stop])

    def label(self, position: int) -> Any:
        return plain(self.data.index[position])

    def _series(self, name: str) -> Any:
        assert self.names is not None
        return self.data.iloc[:, _place(self.names, name)]

    def column(self, name: str) -> list[Any]:
        return [plain(value) for value in self._series(name).tolist()]

    def feature(self, name: str, *, is_text: bool) -> list[Any]:
        return of_feature(name, self._series(name).tolist(), is_text=is_text)

    def matrix(self, names: Sequence[str]) -> np.ndarray | None:
        assert self.names is not None
        part = self.data.iloc[:, [_place(self.names, name) for name in names]]
        if any(getattr(kind, "kind", "O") not in "iufb" for kind in part.dtypes):
            return None
        X: np.ndarray = part.to_numpy(dtype=np.float64, na_value=np.nan)
        return X

    def arrow(self, names: Sequence[str], texts: Collection[str] = ()) -> bytes | None:
        if find_spec("pyarrow") is None:
            return None
        import pyarrow as pa  # noqa: PLC0415 - only where it is installed

        columns = {}
        for name in names:
            try:
                columns[name] = pa.Array.from_pandas(self._series(name))
            except (pa.ArrowException, TypeError):  # values of several kinds
                columns[name] = pa.nulls(0, pa.date32())
            if not _is_sent(columns[name].type, is_text=name in texts):
                columns[name] = _array(self, name, is_text=name in texts)
        return stream_of(pa.table(columns))

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        return self.data.iloc[:, _places(self.names, kept)].assign(**columns)


class _Polars:
    def __init__(self, data: Any) -> None:
        self.data = data
        self.names: list[str] | None = list(data.columns)

    def __len__(self) -> int:
        return int(self.data.height)

    def part(self, start: int, stop: int) -> Table:
        return _Polars(self.data.slice(start, stop - start))

    def label(self, position: int) -> Any:
        return position

    def column(self, name: str) -> list[Any]:
        return [plain(value) for value in self.data.get_column(name).to_list()]

    def feature(self, name: str, *, is_text: bool) -> list[Any]:
        return of_feature(name, self.data.get_column(name).to_list(), is_text=is_text)

    def matrix(self, names: Sequence[str]) -> np.ndarray | None:
        import polars as pl  # noqa: PLC0415 - a frame of it was given

        part = self.data.select(names)
        if not all(kind.is_numeric() or kind == pl.Boolean for kind in part.dtypes):
            return None
        columns = [part.get_column(name).cast(pl.Float64).to_numpy() for name in names]
        return np.stack(columns, axis=1) if columns else None

    def arrow(self, names: Sequence[str], texts: Collection[str] = ()) -> bytes | None:
        import polars as pl  # noqa: PLC0415 - a frame of it was given

        words = (pl.String, pl.Categorical, pl.Enum, pl.Binary, pl.Null)
        columns = []
        for name in names:
            column, is_text = self.data.get_column(name), name in texts
            kind = column.dtype
            numbers = kind.is_integer() if is_text else kind.is_numeric() or kind in (pl.Boolean, pl.Null)
            if not numbers and not (is_text and kind in words):
                values = self.feature(name, is_text=is_text)
                column = pl.Series(name, values, dtype=pl.String if is_text else pl.Float64)
            columns.append(column)
        sink = io.BytesIO()
        pl.DataFrame(columns).write_ipc_stream(sink)
        return sink.getvalue()

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        import polars as pl  # noqa: PLC0415 - a frame of it was given

        series = [pl.Series(name, _listed(column)) for name, column in columns.items()]
        return self.data.select(kept).with_columns(series) if kept else pl.DataFrame(series)


class _Arrow:
    def __init__(self, data: Any) -> None:
        self.data = data
        self.names: list[str] | None = list(data.column_names)

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def part(self, start: int, stop: int) -> Table:
        return _Arrow(self.data.slice(start, stop - start))

    def label(self, position: int) -> Any:
        return position

    def _column(self, name: str) -> Any:
        assert self.names is not None
        return self.data.column(_place(self.names, name))

    def column(self, name: str) -> list[Any]:
        return [plain(value) for value in self._column(name).to_pylist()]

    def feature(self, name: str, *, is_text: bool) -> list[Any]:
        return of_feature(name, self._column(name).to_pylist(), is_text=is_text)

    def matrix(self, names: Sequence[str]) -> np.ndarray | None:
        import pyarrow as pa  # noqa: PLC0415 - a table of it was given

        tests = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal
        columns = [self._column(name) for name in names]
        if not all(any(test(column.type) for test in tests) for column in columns):
            return None
        numbers = [(c.cast(pa.int8()) if pa.types.is_boolean(c.type) else c).cast(pa.float64()) for c in columns]
        return np.stack([column.to_numpy() for column in numbers], axis=1) if numbers else None

    def arrow(self, names: Sequence[str], texts: Collection[str] = ()) -> bytes | None:
        import pyarrow as pa  # noqa: PLC0415 - a table of it was given

        columns = {name: self._column(name) for name in names}
        for name, column in columns.items():
            if not _is_sent(column.type, is_text=name in texts):
                columns[name] = _array(self, name, is_text=name in texts)
        return stream_of(pa.table(columns))

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - a table of it was given

        found = self.data.select(_places(self.names, kept))
        given = pa.table({name: _listed(column) for name, column in columns.items()})
        return pa.table([*found.columns, *given.columns], [*found.column_names, *given.column_names])


def _place(names: Sequence[str] | None, name: str) -> int:
    """The position of a column; ValueError where two have the name, or none has."""
    found = (names or ()).count(name)
    if found != 1:
        raise ValueError(f"the frame has the column {name!r} twice" if found else f"no column {name!r}")
    return (names or ()).index(name)


def _places(names: Sequence[str] | None, wanted: Collection[str]) -> list[int]:
    """The positions of all columns with these names, which may be doubled."""
    return [i for i, name in enumerate(names or ()) if name in wanted]


def _is_sent(kind: Any, *, is_text: bool) -> bool:
    """Whether the service takes an Arrow column of this type as it is for a feature, as it takes JSON of its values."""
    from pyarrow import types  # noqa: PLC0415 - only where it is installed

    if types.is_null(kind) or types.is_integer(kind):
        return True
    if not is_text:
        return any(test(kind) for test in (types.is_floating, types.is_boolean, types.is_decimal))
    words = kind.value_type if types.is_dictionary(kind) else kind
    tests = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    return any(test(words) for test in tests)


def _array(table: Table, name: str, *, is_text: bool) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - only where it is installed

    return pa.array(table.feature(name, is_text=is_text), pa.string() if is_text else pa.float64())


def _listed(column: np.ndarray) -> Any:
    return column.tolist() if column.dtype == object else column


def stream_of(table: Any) -> bytes:
    """A table of pyarrow as an Arrow stream."""
    import pyarrow as pa  # noqa: PLC0415 - only where it is installed

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


_FRAMES: dict[str, Callable[[Any], Table]] = {"pandas": _Pandas, "polars": _Polars, "pyarrow": _Arrow}
