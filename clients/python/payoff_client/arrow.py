"""All that needs pyarrow, which is imported with this module: its tables, streams, Parquet files."""

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
from payoff_client.rows import CATEGORICAL, FORM, Columns, Table, listed, of_feature

_BYTES_OF_VALUE = 4  # of a value in text, about


class ArrowTable(Table):
    """A table of pyarrow."""

    def part(self, start: int, stop: int) -> Table:
        return ArrowTable(self.data.slice(start, stop - start), self.names)

    def series(self, name: str) -> Any:
        return self.data.column(self.place(name))

    def values(self, name: str) -> list[Any]:
        found: list[Any] = self.series(name).to_pylist()
        return found

    def arrow(self, name: str) -> Any:
        return self.series(name)

    def result(self, kept: Sequence[str], columns: Columns) -> Any:
        found = self.data.select(self.places(kept))
        given = pa.table({name: listed(column) for name, column in columns.items()})
        return pa.table(
            [*found.columns, *given.columns], [*found.column_names, *given.column_names]
        )


def _fits(kind: pa.DataType, wanted: str) -> bool:
    """Whether a column of this type is sent as it is; of others the values are looked at."""
    if wanted == FORM and (
        types.is_date(kind) or types.is_timestamp(kind) or _fits(kind, CATEGORICAL)
    ):
        return True
    if wanted == CATEGORICAL:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind))
    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal
    return any(test(kind) for test in tests)


def stream(table: Table, names: Sequence[str], kinds: Mapping[str, str]) -> bytes:
    """Columns of a frame as an Arrow stream, features of these kinds; Invalid as in JSON."""
    columns = {}
    for name in names:
        column, kind = None, kinds[name]
        with suppress(
            TypeError, ValueError
        ):  # values of several kinds, of which the first to blame is named
            column = table.arrow(name)
        if column is None or not _fits(column.type, kind):
            values = of_feature(name, table.values(name), kind)
            is_text = kind == CATEGORICAL or (
                kind == FORM and any(isinstance(value, str) for value in values)
            )
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
    """A frame, or a list of objects, as a Parquet file; ValueError where a column has values of several kinds."""
    columns = []
    for name in table.header():
        try:
            columns.append(table.arrow(name) if table.is_frame else pa.array(table.column(name)))
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise ValueError(
                f"{name!r} has values of several kinds, or too great ones: {error}"
            ) from error
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns, table.header()), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decided(content: bytes) -> tuple[bytes, dict[str, Any]]:
    """An answer of `/predict`: what is beside its columns, as JSON, and these as arrays; of decisions the positions."""
    table = ipc.open_stream(content).read_all()
    text = metadata_of(content)
    rest = from_json(text)

    def numbers(kind: str, names: Sequence[Any]) -> np.ndarray:
        columns = [table.column(f"{kind}:{name}").to_numpy() for name in names]
        return np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))

    if "value" in table.column_names:
        names = {"value": "values", "decision": "decisions", "expected_cost": "expected_costs"}
        found = {
            names[name]: table.column(name).to_numpy()
            for name in names
            if name in table.column_names
        }
        ends = [
            table.column(name).to_numpy() for name in ("low", "high") if name in table.column_names
        ]
        return text, found | ({"intervals": np.stack(ends, axis=1)} if ends else {})
    actions = pa.array(map(str, rest["actions"]), pa.string())
    found = {
        "decisions": compute.index_in(
            table.column("decision").cast(pa.string()), actions
        ).to_numpy(),
        "probabilities": numbers("p", rest["classes"]),
    }
    if any(name.startswith("benefit:") for name in table.column_names):
        found["expected_benefits"] = numbers("benefit", rest["actions"])
    return text, found | (
        {"ids": table.column("id").to_pylist()} if "id" in table.column_names else {}
    )


def metadata_of(content: bytes) -> bytes:
    """What the service answered beside the columns of a stream."""
    found: bytes = ipc.open_stream(content).schema.metadata[b"payoff"]
    return found


@contextmanager
def parquet_parts(source: Path, size: float) -> Iterator[tuple[list[str], Iterator[Part]]]:
    """The columns of a Parquet file, and its rows as streams of about `size` bytes, at least one."""
    try:
        with parquet.ParquetFile(source, pre_buffer=False, buffer_size=2**20) as file:
            names = list(file.schema_arrow.names)
            yield names, _streams(file, size / (_BYTES_OF_VALUE * max(len(names), 1)))
    except pa.ArrowException as error:
        raise ValueError(f"{source.name!r} cannot be read: {error}") from error


def _streams(file: Any, rows: float) -> Iterator[Part]:
    """A batch has rows of one group at most, however many are asked for: rows that go together are read as a table."""
    total = file.metadata.num_rows
    if rows >= total:
        yield Part(_stream_of(file.read()), total, 1.0)
        return
    done = 0
    for batch in file.iter_batches(max(int(rows), 1)):
        done += batch.num_rows
        yield Part(_stream_of(pa.Table.from_batches([batch])), batch.num_rows, done / total)


class ParquetWriter:
    """Writes answers to a Parquet file, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None

    def rows_of(self, answer: httpx.Response) -> pa.Table:
        """The rows of an answer; ValueError where they do not fit to those before them."""
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
