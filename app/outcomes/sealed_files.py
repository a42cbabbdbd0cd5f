"""Files of sealed days: Parquet, sorted by id, never changed. Imported where a file is needed."""

from __future__ import annotations

import io
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from time import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import BigInteger, Boolean, Double, Integer, LargeBinary, String, Text

from app.errors import Damaged, NotFound, PayoffError
from app.outcomes.decision import DAY
from app.outcomes.rows import OF_DECISIONS, OF_OUTCOMES, ColumnBatch, Replaced, SealedFile
from app.storage import Storage

SEAL = "rows.parquet"  # the one file of its folder
GROUP = 16_384  # rows that are decoded to find one id
SHADOW = "shadow:"  # columns of challengers begin so
_PART = 16  # groups that are read at a time
_CODED = ["terms", "client"]
_ARROW = {
    Boolean: pa.bool_(), Integer: pa.int32(), BigInteger: pa.int64(), Double: pa.float64(),
    String: pa.string(), Text: pa.string(), LargeBinary: pa.binary(),
}  # fmt: skip
_TYPES: Mapping[str, Mapping[str, Any]] = {
    kind: {
        name: pa.dictionary(pa.int32(), pa.string()) if name in _CODED else _ARROW[type(column.type)]
        for name, column in of.items()
    }
    for kind, of in (("decisions", OF_DECISIONS), ("outcomes", OF_OUTCOMES))
}
_FEW = [*_CODED, "choice", "truth", "action", "outcome_at", "received_at", "revision"]  # values that repeat
OUTCOMES = pa.schema(_TYPES["outcomes"].items())
"""The columns of a file of outcomes."""


def decision_schema(width: int, challengers: Collection[str]) -> Any:
    """The columns of a file of decisions; probabilities are `width` bytes, filled up with NaN."""
    types = dict(_TYPES["decisions"]) | {"probabilities": pa.binary(max(width, 8))}
    return pa.schema([*types.items(), *((f"{SHADOW}{name}", pa.int32()) for name in sorted(challengers))])


def decision_table(
    batch: ColumnBatch, contents: Mapping[str, str], shadows: Mapping[str, Mapping[str, int]], columns: Any = None
) -> Any:
    """Rows of the database as a table; `columns` is its schema, by default that of what the batch has."""
    if columns is None:
        whole = decision_schema(max(map(len, batch.get("probabilities", ())), default=0), shadows)
        columns = pa.schema([field for field in whole if field.name in batch or field.name.startswith(SHADOW)])
    filled: dict[str, Any] = {
        **batch,
        **{f"{SHADOW}{name}": [chosen.get(id_) for id_ in batch["id"]] for name, chosen in shadows.items()},
    }
    if "terms" in batch:
        digests = pa.array(batch["terms"], pa.string()).dictionary_encode()
        named = pa.array([contents[digest] for digest in digests.dictionary.to_pylist()], pa.string())
        filled["terms"] = pa.DictionaryArray.from_arrays(digests.indices, named)
    if "probabilities" in batch:
        width = columns.field("probabilities").type.byte_width
        filled["probabilities"] = [_widened(blob, width) for blob in batch["probabilities"]]
    none = [None] * len(batch["id"])
    arrays = [filled.get(field.name, none) for field in columns]
    return pa.table(
        [
            each if isinstance(each, pa.Array) else pa.array(each, field.type)
            for each, field in zip(arrays, columns, strict=True)
        ],
        schema=columns,
    )


def outcome_table(batches: Iterable[ColumnBatch]) -> Any:
    """Rows of outcomes as a table."""
    tables = [pa.table([pa.array(batch[field.name], field.type) for field in OUTCOMES], OUTCOMES) for batch in batches]
    return pa.concat_tables(tables) if tables else OUTCOMES.empty_table()


def _widened(blob: bytes, width: int) -> bytes:
    """Float64 filled up with NaN."""
    return blob + b"\0\0\0\0\0\0\xf8\x7f" * ((width - len(blob)) // 8)


class Draft:
    """A file that is being written, in memory."""

    def __init__(self, columns: Any) -> None:
        self.columns = columns
        self.rows = 0
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(
            self._sink,
            columns,
            compression="zstd",
            use_dictionary=[name for name in _FEW if name in columns.names],
            column_encoding={"id": "DELTA_BYTE_ARRAY"},
            write_page_checksum=True,
        )

    def add(self, table: Any) -> None:
        if len(table):
            self.rows += len(table)
            self._writer.write_table(table, row_group_size=GROUP)

    def content(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()


class OpenFile:
    """One file, open."""

    def __init__(self, parquet: Any, name: str) -> None:
        self._parquet = parquet
        self._name = name
        self.columns = parquet.schema_arrow
        self.challengers = [name for name in self.columns.names if name.startswith(SHADOW)]

    def parts(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows in order, some groups at a time."""
        yield from self._parts(range(self._parquet.num_row_groups), names)

    def whole(self, names: Sequence[str] | None = None) -> Any:
        """All rows."""
        return pa.concat_tables(self.parts(names))

    def find(self, ids: Sequence[str], names: Sequence[str]) -> Iterator[Any]:
        """The rows of some ids, looked for where they can be."""
        wanted = pa.array(ids, pa.string())
        in_order = sorted(ids)
        fitting = [i for i in range(self._parquet.num_row_groups) if self._may_have(i, in_order)]
        for table in self._parts(fitting, names):
            yield table.filter(pc.is_in(table["id"], value_set=wanted))

    def _parts(self, groups: Sequence[int], names: Sequence[str] | None) -> Iterator[Any]:
        for first in range(0, len(groups), _PART):
            with _reading(self._name):
                some = list(groups[first : first + _PART])
                table = self._parquet.read_row_groups(some, columns=names, use_threads=False)
            yield table

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


def _check(file: SealedFile, columns: Any) -> None:
    wrong = [name for name, kind in _TYPES[file.kind].items() if not _fits(columns, name, kind)]
    if wrong:
        what = f"its column {wrong[0]!r} is missing, or of another type"
        raise Damaged(f"the file {file.file} is not one of recorded {file.kind}, {what}: restore it from a backup")


def _fits(columns: Any, name: str, kind: Any) -> bool:
    if columns.get_field_index(name) < 0:
        return False
    found = columns.field(name).type
    return bool(found == kind or (pa.types.is_fixed_size_binary(found) and kind == pa.binary()))


class Files:
    """The files of one store, each in a folder that is there whole or not at all."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def publish(self, name: str, content: bytes) -> None:
        """Write a file under a new name, see `new_name`."""
        self._storage.publish(name, {SEAL: content})

    @contextmanager
    def open(self, file: SealedFile) -> Iterator[OpenFile]:
        """One file, read piece by piece; Replaced where it is missing, Damaged where it is not what was written."""
        try:
            opened = self._storage.open(file.file, SEAL)
        except NotFound as error:
            raise Replaced(file.file) from error
        with opened as content:
            with _reading(file.file):
                coded = _CODED if file.kind == "decisions" else None
                parquet = pq.ParquetFile(content, read_dictionary=coded, page_checksum_verification=True)
                _check(file, parquet.schema_arrow)
            with parquet:
                yield OpenFile(parquet, file.file)

    def remove(self, name: str) -> None:
        self._storage.remove(name)


def new_name(model: str, day: int, kind: str) -> str:
    """The name of a file that is to be written."""
    date = datetime.fromtimestamp(day * DAY, UTC).date()
    return f"{model}/{date}.{kind}.{int(time() * 1000):012x}{secrets.token_hex(4)}"
