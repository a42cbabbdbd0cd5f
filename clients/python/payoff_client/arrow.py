"""Tables of pyarrow, Arrow streams and Parquet files; this module imports pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import numpy as np
import pyarrow as pa
from pyarrow import compute, ipc, parquet, types
from pydantic_core import from_json

from payoff_client.files import Part
from payoff_client.rows import CATEGORICAL, NOTATION, Columns, Table, as_feature, listed

_BYTES_OF_VALUE = 4  # about the length of a value as text


class ArrowTable(Table):
    """A table of pyarrow."""

    def part(self, start: int, stop: int) -> Table:
        return ArrowTable(self.data.slice(start, stop - start), self.names)

    def series(self, name: str) -> Any:
        return self.data.column(self.place(name))

    def values(self, name: str) -> list[Any]:
        values: list[Any] = self.series(name).to_pylist()
        return values

    def arrow(self, name: str) -> Any:
        return self.series(name)

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        cases = self.data.select(self.places(kept))
        results = pa.table({name: listed(column) for name, column in columns.items()})
        names = [*cases.column_names, *results.column_names]
        return pa.table([*cases.columns, *results.columns], names)


def _fits(column_type: pa.DataType, kind: str) -> bool:
    """Whether a column of this type is sent as it is; of other types each value is checked."""
    if kind == NOTATION:
        is_moment = types.is_date(column_type) or types.is_timestamp(column_type)
        if is_moment or _fits(column_type, CATEGORICAL):
            return True
    if kind == CATEGORICAL:
        if types.is_dictionary(column_type):
            column_type = column_type.value_type
        return bool(types.is_string(column_type) or types.is_large_string(column_type))
    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal
    return any(test(column_type) for test in tests)


def stream(table: Table, names: Sequence[str], kinds: Mapping[str, str]) -> bytes:
    """Columns of a frame as an Arrow stream, features of these kinds; Invalid as in JSON."""
    columns = {}
    for name in names:
        kind = kinds[name]
        column = None
        # A column with values of several kinds raises; `as_feature` names the first value to fix.
        with suppress(TypeError, ValueError):
            column = table.arrow(name)
        if column is None or not _fits(column.type, kind):
            values = as_feature(name, table.values(name), kind)
            has_text = any(isinstance(value, str) for value in values)
            is_text = kind == CATEGORICAL or (kind == NOTATION and has_text)
            columns[name] = pa.array(values, pa.string() if is_text else pa.float64())
        else:
            columns[name] = column.cast(pa.string()) if kind == CATEGORICAL else column
    return _stream_of(pa.table(columns))


def _stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def parquet_of(table: Table) -> bytes:
    """A frame or a list of objects as a Parquet file; ValueError for a column of several kinds."""
    columns = []
    for name in table.header():
        try:
            columns.append(
                table.arrow(name) if table.is_frame else pa.array(table.column(name))
            )
        except (pa.ArrowException, TypeError, OverflowError) as error:
            fault = f"{name!r} has values of several kinds, or too great ones: {error}"
            raise ValueError(fault) from error
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns, table.header()), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decided(content: bytes) -> tuple[bytes, dict[str, Any]]:
    """An answer of `/predict` as a stream: its other fields as JSON, and its columns as arrays.

    Decisions are the positions of actions.
    """
    table = ipc.open_stream(content).read_all()
    text = metadata_of(content)
    fields = from_json(text)

    def numbers(kind: str, names: Sequence[Any]) -> np.ndarray:
        arrays = [table.column(f"{kind}:{name}").to_numpy() for name in names]
        return np.stack(arrays, axis=1) if arrays else np.empty((table.num_rows, 0))

    if "value" in table.column_names:
        return text, _quantities(table)
    actions = pa.array(map(str, fields["actions"]), pa.string())
    decisions = compute.index_in(table.column("decision").cast(pa.string()), actions)
    columns = {
        "decisions": decisions.to_numpy(),
        "probabilities": numbers("p", fields.get("classes") or ()),
    }
    if any(name.startswith("benefit:") for name in table.column_names):
        columns["expected_benefits"] = numbers("benefit", fields["actions"])
    if any(name.startswith("uplift:") for name in table.column_names):
        columns["uplift"] = numbers("uplift", fields["actions"])
    if "id" in table.column_names:
        columns["ids"] = table.column("id").to_pylist()
    return text, columns


def _quantities(table: pa.Table) -> dict[str, Any]:
    """The columns of an answer of a model of numbers."""
    fields = {
        "value": "values",
        "decision": "decisions",
        "expected_cost": "expected_costs",
    }
    present = [name for name in fields if name in table.column_names]
    columns = {fields[name]: table.column(name).to_numpy() for name in present}
    if "low" in table.column_names:
        ends = [table.column(name).to_numpy() for name in ("low", "high")]
        columns["intervals"] = np.stack(ends, axis=1)
    return columns


def metadata_of(content: bytes) -> bytes:
    """The fields of an answer that are not columns of its stream, as JSON."""
    metadata: bytes = ipc.open_stream(content).schema.metadata[b"payoff"]
    return metadata


@contextmanager
def parquet_parts(
    source: Path, size: float
) -> Iterator[tuple[list[str], Iterator[Part]]]:
    """The columns of a Parquet file, and its rows in one or more streams of about `size` bytes."""
    try:
        with parquet.ParquetFile(source, pre_buffer=False, buffer_size=2**20) as file:
            names = list(file.schema_arrow.names)
            yield names, _streams(file, size / (_BYTES_OF_VALUE * max(len(names), 1)))
    except pa.ArrowException as error:
        raise ValueError(f"{source.name!r} cannot be read: {error}") from error


def _streams(file: Any, rows: float) -> Iterator[Part]:
    """Parts of about so many rows.

    A batch has rows of one row group at most; rows that must go together are read as a table.
    """
    total = file.metadata.num_rows
    if rows >= total:
        yield Part(_stream_of(file.read()), total, 1.0)
        return
    done = 0
    for batch in file.iter_batches(max(int(rows), 1)):
        done += batch.num_rows
        yield Part(
            _stream_of(pa.Table.from_batches([batch])), batch.num_rows, done / total
        )


class ParquetWriter:
    """Writes answers to a Parquet file, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None

    def rows_of(self, answer: httpx.Response) -> pa.Table:
        """The rows of an answer; ValueError where they do not fit those before them."""
        table = ipc.open_stream(answer.content).read_all().replace_schema_metadata(None)
        table.validate(full=True)
        return table if self._writer is None else table.cast(self._writer.schema)

    def write(self, rows: pa.Table) -> None:
        """Append rows."""
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, rows.schema)
        self._writer.write_table(rows)

    def close(self) -> None:
        """Complete the file."""
        if self._writer is not None:
            self._writer.close()
