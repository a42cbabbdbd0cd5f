"""Sealed days as Parquet: each a file that is never changed, sorted by id. Imported where a file is needed."""

from __future__ import annotations

import io
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from time import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import BigInteger, Boolean, Double, Integer, LargeBinary, String, Text

from app.errors import Damaged, PayoffError
from app.outcomes.identity import DAY
from app.outcomes.rows import OUTCOME, SQL_COLUMNS, ColumnBatch
from app.storage import Storage

SEAL = "decisions.parquet"  # the one file of a sealed day's folder
GROUP = 16_384  # rows that are decoded to find one id
SHADOW = "shadow:"  # columns of challengers begin so
_PART = 16  # groups that are read at a time
_CODED = ["terms", "client"]
_ARROW = {
    Boolean: pa.bool_(), Integer: pa.int32(), BigInteger: pa.int64(), Double: pa.float64(),
    String: pa.string(), Text: pa.string(), LargeBinary: pa.binary(),
}  # fmt: skip
_TYPES: Mapping[str, Any] = {
    name: pa.dictionary(pa.int32(), pa.string()) if name in _CODED else _ARROW[type(column.type)]
    for name, column in SQL_COLUMNS.items()
}
_FEW = [*_CODED, "choice", "truth", "action", "outcome_at", "received_at", "revision"]  # values that repeat


def schema(width: int, challengers: Collection[str]) -> Any:
    """The columns of a file; probabilities are `width` bytes, filled up with NaN."""
    types = dict(_TYPES) | {"probabilities": pa.binary(max(width, 1))}
    return pa.schema([*types.items(), *((f"{SHADOW}{name}", pa.int32()) for name in sorted(challengers))])


def table_of(
    batch: ColumnBatch, contents: Mapping[str, str], shadows: Mapping[str, Mapping[str, int]], columns: Any
) -> Any:
    """Rows of the database as a table; `columns` is its schema."""
    width = columns.field("probabilities").type.byte_width
    filled = {
        **batch,
        "terms": [contents[digest] for digest in batch["terms"]],
        "probabilities": [widened(blob, width) for blob in batch["probabilities"]],
        **{f"{SHADOW}{name}": [chosen.get(id_) for id_ in batch["id"]] for name, chosen in shadows.items()},
    }
    none = [None] * len(batch["id"])
    return pa.table([pa.array(filled.get(field.name, none), field.type) for field in columns], schema=columns)


def widened(blob: bytes, width: int) -> bytes:
    """Float64 filled up with NaN."""
    return blob + b"\0\0\0\0\0\0\xf8\x7f" * ((width - len(blob)) // 8)


def cast(table: Any, columns: Any) -> Any:
    """A table with the columns of another schema, which has more challengers or classes."""
    width = columns.field("probabilities").type.byte_width
    arrays = []
    for field in columns:
        if field.name not in table.column_names:
            arrays.append(pa.nulls(len(table), field.type))
        elif field.name == "probabilities" and table[field.name].type != field.type:
            arrays.append(pa.array([widened(blob, width) for blob in table[field.name].to_pylist()], field.type))
        else:
            arrays.append(table[field.name])
    return pa.table(arrays, schema=columns)


def told_later(table: Any, outcomes: Any) -> Any:
    """A table with those outcomes in place of its own, as far as there are."""
    if not len(outcomes):
        return table
    place = pc.index_in(table["id"], value_set=outcomes["id"].combine_chunks())
    is_told = place.is_valid()
    if pc.any(is_told).as_py():
        for name in OUTCOME:
            if name in table.column_names:
                column = pc.if_else(is_told, outcomes[name].take(place), table[name])
                table = table.set_column(table.column_names.index(name), name, column)
    return table


def outcomes_of(batches: Iterator[ColumnBatch]) -> Any:
    """Rows of outcomes as a table with the names of `OUTCOME`, and `id`."""
    columns = pa.schema([(name, _TYPES[name]) for name in ("id", *OUTCOME)])
    tables = [
        pa.table([pa.array(batch[field.name], field.type) for field in columns], schema=columns) for batch in batches
    ]
    return pa.concat_tables(tables) if tables else columns.empty_table()


class Draft:
    """A file that is being written, in memory."""

    def __init__(self, columns: Any) -> None:
        self.columns = columns
        self.rows = self.known = 0
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(
            self._sink,
            columns,
            compression="zstd",
            use_dictionary=_FEW,
            column_encoding={"id": "DELTA_BYTE_ARRAY"},
            write_page_checksum=True,
        )

    def add(self, table: Any) -> None:
        if len(table):
            self.rows += len(table)
            self.known += len(table) - table["truth"].null_count
            self._writer.write_table(table, row_group_size=GROUP)

    def content(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()


class SealedFile:
    """One file, open."""

    def __init__(self, parquet: Any, name: str) -> None:
        self._parquet = parquet
        self._name = name
        self.columns = parquet.schema_arrow
        self.challengers = [name[len(SHADOW) :] for name in self.columns.names if name.startswith(SHADOW)]

    def parts(self, names: Sequence[str] | None = None, size: int = _PART) -> Iterator[Any]:
        """The rows in order, `size` groups at a time."""
        count = self._parquet.num_row_groups
        for first in range(0, count, size):
            yield self._read(range(first, min(first + size, count)), names)

    def find(self, ids: Sequence[str], names: Sequence[str]) -> Any:
        """The rows of some ids, looked for where they can be."""
        wanted = pa.array(ids, pa.string())
        in_order = sorted(ids)
        fitting = [i for i in range(self._parquet.num_row_groups) if self._may_have(i, in_order)]
        for first in range(0, len(fitting), _PART):
            table = self._read(fitting[first : first + _PART], names)
            yield table.filter(pc.is_in(table["id"], value_set=wanted))

    def ids(self) -> Any:
        """All ids, as an array."""
        return pa.concat_tables(self.parts(["id"]))["id"].combine_chunks()

    def _read(self, groups: Collection[int], names: Sequence[str] | None) -> Any:
        chosen = None if names is None else list(names)
        with _reading(self._name):
            return self._parquet.read_row_groups(list(groups), columns=chosen, use_threads=False)

    def _may_have(self, group: int, ids: Sequence[str]) -> bool:
        found = self._parquet.metadata.row_group(group).column(0).statistics
        if found is None or not found.has_min_max:
            return True
        return bisect_left(ids, found.min) < bisect_right(ids, found.max)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Damaged where Arrow cannot make sense of a file; what the store raises stays as it is."""
    try:
        yield
    except (PayoffError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise Damaged(f"the file {name} of recorded decisions is damaged: restore it from a backup") from error


def _check(name: str, columns: Any) -> None:
    wrong = [field for field, kind in _TYPES.items() if not _fits(columns, field, kind)]
    if wrong:
        what = f"its column {wrong[0]!r} is missing, or of another type"
        raise Damaged(f"the file {name} is not one of recorded decisions, {what}: restore it from a backup")


def _fits(columns: Any, name: str, kind: Any) -> bool:
    if columns.get_field_index(name) < 0:
        return False
    found = columns.field(name).type
    return bool(found == kind or (pa.types.is_fixed_size_binary(found) and kind == pa.binary()))


class SealedFiles:
    """The files of one store, each in a folder `model/date.moment` that is there whole or not at all."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def publish(self, name: str, content: bytes) -> None:
        """Write a file under a new name, see `new_name`."""
        self._storage.publish(name, {SEAL: content})

    @contextmanager
    def open(self, name: str) -> Iterator[SealedFile]:
        """One file, read piece by piece; NotFound where it was replaced, Damaged where it is not what was written."""
        with self._storage.open(name, SEAL) as content:
            with _reading(name):
                parquet = pq.ParquetFile(content, read_dictionary=_CODED, page_checksum_verification=True)
                _check(name, parquet.schema_arrow)
            with parquet:
                yield SealedFile(parquet, name)

    def remove(self, name: str) -> None:
        self._storage.remove(name)


def new_name(model: str, day: int) -> str:
    """The name of a file that is to be written."""
    date = datetime.fromtimestamp(day * DAY, UTC).date()
    return f"{model}/{date}.{int(time() * 1000):012x}{secrets.token_hex(4)}"
