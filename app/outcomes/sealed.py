"""Files of sealed days: Parquet, sorted by id, never changed; joined by id with what the database
has of the day.

Imported where a file is needed.
"""

import io
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from time import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import BigInteger, Boolean, Connection, Double, Integer, LargeBinary, String, Text

from app.database.engine import Database
from app.errors import Damaged, NotFound, Unavailable
from app.outcomes import rows
from app.outcomes.decision import FLOATS, INDICES, UNKNOWN, Cases, CasesQuery, date_of
from app.outcomes.rows import (
    OF_DECISIONS,
    OF_OUTCOMES,
    OUTCOME,
    ROUNDS,
    ColumnBatch,
    Replaced,
    SealedFile,
    read_terms,
)
from app.outcomes.tables import DECISIONS, OUTCOMES
from app.storage import Storage
from payoff.errors import PayoffError

SEAL = "rows.parquet"  # the one file of its folder
GROUP = 16_384  # rows that are decoded to find one id
SHADOW = "shadow:"  # columns of challengers begin so
_PART = 16  # groups that are read at a time
_JOINED = (
    16_384  # rows that are joined at a time: the table of hashes stays in the processor's cache
)
_NAN = np.array(np.nan, "<f8").tobytes()
_CODED = ["terms", "client"]
_ARROW = {
    Boolean: pa.bool_(), Integer: pa.int32(), BigInteger: pa.int64(), Double: pa.float64(),
    String: pa.string(), Text: pa.string(), LargeBinary: pa.binary(),
}  # fmt: skip
_TYPES: Mapping[str, Mapping[str, Any]] = {
    kind: {
        name: pa.dictionary(pa.int32(), pa.string())
        if name in _CODED
        else _ARROW[type(column.type)]
        for name, column in of.items()
    }
    for kind, of in (("decisions", OF_DECISIONS), ("outcomes", OF_OUTCOMES))
}
_FEW = [
    *_CODED,
    "choice",
    "truth",
    "action",
    "outcome_at",
    "received_at",
    "revision",
]  # values that repeat
OUTCOME_SCHEMA = pa.schema(_TYPES["outcomes"].items())
"""The columns of a file of outcomes."""


def decision_schema(width: int, challengers: Collection[str]) -> Any:
    """The columns of a file of decisions; probabilities are `width` bytes, filled up with NaN."""
    types = dict(_TYPES["decisions"]) | {"probabilities": pa.binary(max(width, 8))}
    return pa.schema(
        [*types.items(), *((f"{SHADOW}{name}", pa.int32()) for name in sorted(challengers))]
    )


def decision_table(
    batch: ColumnBatch,
    contents: Mapping[str, str],
    shadows: Mapping[str, Mapping[str, int]],
    columns: Any = None,
) -> Any:
    """Rows of the database as a table; `columns` is its schema, by default that of what the batch
    has.
    """
    if columns is None:
        whole = decision_schema(max(map(len, batch.get("probabilities", ())), default=0), shadows)
        columns = pa.schema(
            [field for field in whole if field.name in batch or field.name.startswith(SHADOW)]
        )
    filled: dict[str, Any] = {
        **batch,
        **{
            f"{SHADOW}{name}": [chosen.get(id_) for id_ in batch["id"]]
            for name, chosen in shadows.items()
        },
    }
    digests = pa.array(batch["terms"], pa.string()).dictionary_encode()
    named = pa.array([contents[digest] for digest in digests.dictionary.to_pylist()], pa.string())
    filled["terms"] = pa.DictionaryArray.from_arrays(digests.indices, named)
    if "probabilities" in batch:
        width = columns.field("probabilities").type.byte_width
        filled["probabilities"] = [
            blob + _NAN * ((width - len(blob)) // 8) for blob in batch["probabilities"]
        ]
    none = [None] * len(batch["id"])
    return pa.table({name: filled.get(name, none) for name in columns.names}, schema=columns)


def outcome_table(batches: Iterable[ColumnBatch]) -> Any:
    """Rows of outcomes as a table."""
    tables = [pa.table(batch, OUTCOME_SCHEMA) for batch in batches]
    return pa.concat_tables(tables) if tables else OUTCOME_SCHEMA.empty_table()


class SealedWriter:
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

    def parts(
        self, names: Sequence[str] | None = None, ids: Sequence[str] | None = None
    ) -> Iterator[Any]:
        """The rows in order, some groups at a time; with `ids` only theirs, looked for where they
        can be.
        """
        groups, in_order = range(self._parquet.num_row_groups), sorted(ids or ())
        fitting = [i for i in groups if ids is None or self._may_have(i, in_order)]
        for first in range(0, len(fitting), _PART):
            with _reading(self._name):
                some = fitting[first : first + _PART]
                table = self._parquet.read_row_groups(some, columns=names, use_threads=False)
            yield (
                table
                if ids is None
                else table.filter(pc.is_in(table["id"], value_set=pa.array(ids, pa.string())))
            )

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
        raise Damaged(
            f"the file {name} of recorded decisions is damaged: restore it from a backup"
        ) from error


class SealedFiles:
    """The files of one store, each in a folder that is there whole or not at all."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def publish(self, name: str, content: bytes) -> None:
        """Write a file under a new name, see `new_name`."""
        self._storage.publish(name, {SEAL: content})

    @contextmanager
    def open(self, file: SealedFile) -> Iterator[OpenFile]:
        """One file, read piece by piece; Replaced where it is missing, Damaged where it is not what
        was written.
        """
        try:
            opened = self._storage.open(file.file, SEAL)
        except NotFound as error:
            raise Replaced(file.file) from error
        with opened as content:
            with _reading(file.file):
                coded = _CODED if file.kind == "decisions" else None
                parquet = pq.ParquetFile(
                    content, read_dictionary=coded, page_checksum_verification=True
                )
            with parquet:
                yield OpenFile(parquet, file.file)

    def find(
        self, file: SealedFile, ids: Sequence[str], names: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """The rows of some ids in a file, with these columns and the id; Replaced where it is
        missing.
        """
        with self.open(file) as opened:
            for table in opened.parts(["id", *names], ids):
                yield from table.to_pylist()

    def day(self, database: Database, asked: CasesQuery, day: int) -> Iterator[Cases]:
        """The cases of a day, see `Archive.cases`."""
        for left in reversed(range(ROUNDS)):
            with ExitStack() as opened:
                with database.reading(without_timeout=True) as connection:
                    try:
                        found = SealedDay(self, opened, connection, asked, day)
                    except Replaced:
                        if not left:
                            raise
                        continue
                    yield from found.in_tables()
                try:
                    for file in found.files:
                        for part in file.parts([*found.decisions, *file.challengers]):
                            if len(cases := found.cases(part)):
                                yield cases
                except (
                    FileNotFoundError
                ) as error:  # a store on the network may lose it while it is read
                    raise Unavailable(
                        "a day of decisions was replaced while it was read; try again"
                    ) from error
            return


def new_name(model: str, day: int, kind: str) -> str:
    """The name of a file that is to be written."""
    return f"{model}/{date_of(day)}.{kind}.{int(time() * 1000):012x}{secrets.token_hex(4)}"


class SealedDay:
    """What there is of a day, as of one moment; its files stay open while `opened` does."""

    def __init__(
        self,
        files: SealedFiles,
        opened: ExitStack,
        connection: Connection,
        asked: CasesQuery,
        day: int,
    ) -> None:
        """Replaced where a file is missing."""
        self._asked, self._day, self._connection = asked, day, connection
        self.decisions = list(
            dict.fromkeys(["id", *(name for name in asked.names if name in OF_DECISIONS)])
        )
        self._outcomes = [name for name in asked.names if name in OUTCOME]
        self._erased = pa.array(rows.erased_of(connection, asked.model, day), pa.string())
        self.files: list[OpenFile] = []
        names = ["id", "revision", *self._outcomes]
        in_table = rows.columns(
            connection, OF_OUTCOMES, rows.of_day(OUTCOMES, asked.model, day), sort=True
        )
        told = [outcome_table(in_table).select(names)]
        for file in rows.files_of(connection, asked.model, day):
            if file.kind == "decisions":
                self.files.append(opened.enter_context(files.open(file)))
            else:
                with files.open(file) as outcomes:
                    told += outcomes.parts(names)
        self._told = _latest(told)
        self._told_ids = self._told["id"].combine_chunks()

    def in_tables(self) -> Iterator[Cases]:
        """The cases that only the database has, while the connection is open."""
        model, connection = self._asked.model, self._connection
        has_shadows = bool(rows.challengers(connection, model, self._day))
        sealed: Any = None
        of_day = rows.of_day(DECISIONS, model, self._day)
        for batch in rows.columns(connection, OF_DECISIONS, of_day, self.decisions):
            if sealed is None:
                ids = [
                    part["id"].combine_chunks()
                    for file in self.files
                    for part in file.parts(["id"])
                ]
                sealed = pa.chunked_array(ids, pa.string()).combine_chunks()
            shadows = rows.shadows(connection, batch["id"]) if has_shadows else {}
            table = decision_table(batch, rows.contents(connection, batch["terms"]), shadows)
            found = self.cases(table.filter(pc.invert(pc.is_in(table["id"], value_set=sealed))))
            if len(found):
                yield found

    def cases(self, table: Any) -> Cases:
        """Rows of decisions as cases, with what was told of them."""
        asked = self._asked
        if len(self._erased):
            table = table.filter(pc.invert(pc.is_in(table["id"], value_set=self._erased)))
        if asked.since is not None:
            table = table.filter(pc.greater_equal(table["at"], asked.since))
        if asked.until is not None:
            table = table.filter(pc.less(table["at"], asked.until))
        contents, term = _coded(table, "terms")
        terms = [read_terms(content) for content in contents]
        if asked.versions is not None:
            is_wanted = np.array([one.version in asked.versions for one in terms], dtype=bool)[term]
            table, term = table.filter(pa.array(is_wanted)), term[is_wanted]
        place = _places(table["id"], self._told_ids)
        for name in self._outcomes:
            table = table.append_column(name, self._told[name].take(place))
        keys, key = _coded(table, "client")
        arrays: dict[str, Any] = {
            name: _numbers(table, name, np.float64, np.nan) for name in FLOATS
        }
        arrays |= {name: _numbers(table, name, np.int32, UNKNOWN) for name in INDICES}
        P = np.empty((0, 0))
        if "probabilities" in table.column_names:
            blobs = table["probabilities"].combine_chunks()
            width = blobs.type.byte_width
            content, at = blobs.buffers()[1] or b"", blobs.offset * width
            P = np.frombuffer(content, "<f8", len(blobs) * width // 8, at).reshape(-1, width // 8)
        return Cases(
            day=self._day,
            terms=terms,
            keys=keys,
            term=term,
            key=key,
            probabilities=P,
            ids=table["id"].to_pylist() if "id" in asked.names else None,
            instances=table["instance"].to_pylist() if "instance" in asked.names else None,
            shadows={
                name.removeprefix(SHADOW): _numbers(table, name, np.int32, UNKNOWN)
                for name in table.column_names  # also those of other versions' challengers
                if name.startswith(SHADOW) and table[name].null_count < len(table)
            },
            **arrays,
        )


def _latest(told: Sequence[Any]) -> Any:
    """Tables of outcomes as one, sorted by id; of those of the same decision the last one."""
    some = [table for table in told if len(table)] or told[:1]
    whole = pa.concat_tables(some)
    if len(some) > 1:
        whole = whole.sort_by([("id", "ascending"), ("revision", "ascending")])
        ids = whole["id"].combine_chunks()
        is_last = pc.not_equal(ids[:-1], ids[1:])
        whole = whole.filter(pa.concat_arrays([is_last, pa.array([True])]))
    return whole.combine_chunks()


def _places(ids: Any, sorted_ids: Any) -> Any:
    """Where each id is among the others, null where it is not. O(n), since only those are hashed
    that it can be.
    """
    found = []
    for first in range(0, len(ids), _JOINED):
        some = ids.slice(first, _JOINED)
        ends = pc.min_max(some).as_py()
        start = bisect_left(sorted_ids, ends["min"], key=lambda each: each.as_py())
        end = bisect_right(sorted_ids, ends["max"], key=lambda each: each.as_py())
        place = pc.index_in(some, value_set=sorted_ids.slice(start, end - start)).combine_chunks()
        found.append(pc.add(place, pa.scalar(start, pa.int32())))
    return pa.chunked_array(found, pa.int32())


def _numbers(table: Any, name: str, kind: type, absent: float) -> np.ndarray:
    """A column, with `absent` in place of null."""
    if name not in table.column_names:
        return np.empty(0, kind)
    return table[name].fill_null(absent).to_numpy().astype(kind, copy=False)


def _coded(table: Any, name: str) -> tuple[Sequence[Any], np.ndarray]:
    """Distinct values, and which of them each is: int32 (n,)."""
    if name not in table.column_names:
        return [], np.empty(0, np.int32)
    whole = table[name].unify_dictionaries().combine_chunks()
    values, codes = whole.dictionary.to_pylist(), whole.indices
    if codes.null_count:
        codes, values = codes.fill_null(len(values)), [*values, None]
    return values, codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
