"""Files of sealed days: Parquet, sorted by id, never changed.

They are joined by id with the rows that the database has of the day. Arrow takes time and memory:
this module is imported where a file is needed.
"""

import io
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from time import time
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import (
    BigInteger,
    Boolean,
    Connection,
    Double,
    Integer,
    LargeBinary,
    String,
    Text,
)

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
SHADOW = "shadow:"  # the prefix of the columns of challengers
_GROUPS_OF_PART = 16  # are read at a time
_JOINED_ROWS = 16_384  # at a time: their table of hashes stays in the processor's cache
_NAN = np.array(np.nan, "<f8").tobytes()
_CODED = ["terms", "client", "segments"]
_ARROW = {
    Boolean: pa.bool_(), Integer: pa.int32(), BigInteger: pa.int64(), Double: pa.float64(),
    String: pa.string(), Text: pa.string(), LargeBinary: pa.binary(),
}  # fmt: skip
_TYPES: Mapping[str, Mapping[str, Any]] = {
    kind: {
        name: pa.dictionary(pa.int32(), pa.string())
        if name in _CODED
        else _ARROW[type(column.type)]
        for name, column in columns.items()
    }
    for kind, columns in (("decisions", OF_DECISIONS), ("outcomes", OF_OUTCOMES))
}
# Columns whose values repeat.
_REPEATING = [
    *_CODED,
    "choice",
    "truth",
    "action",
    "outcome_at",
    "received_at",
    "revision",
]
OUTCOME_SCHEMA = pa.schema(_TYPES["outcomes"].items())
"""The columns of a file of outcomes."""


def decision_schema(width: int, challengers: Collection[str]) -> Any:
    """The columns of a file of decisions; probabilities are `width` bytes, filled up with NaN."""
    types = dict(_TYPES["decisions"]) | {"probabilities": pa.binary(max(width, 8))}
    types |= {f"{SHADOW}{name}": pa.int32() for name in sorted(challengers)}
    return pa.schema(types.items())


def decision_table(
    batch: ColumnBatch,
    contents: Mapping[str, str],
    shadows: Mapping[str, Mapping[str, int]],
    columns: Any = None,
) -> Any:
    """Rows of the database as a table; `columns` is its schema, by default the columns of the batch
    and of the challengers.
    """
    if columns is None:
        width = max(map(len, batch.get("probabilities", ())), default=0)
        columns = pa.schema(
            field
            for field in decision_schema(width, shadows)
            if field.name in batch or field.name.startswith(SHADOW)
        )
    values: dict[str, Any] = dict(batch)
    for name, choices in shadows.items():
        values[f"{SHADOW}{name}"] = [choices.get(id_) for id_ in batch["id"]]
    digests = pa.array(batch["terms"], pa.string()).dictionary_encode()
    texts = pa.array(
        [contents[digest] for digest in digests.dictionary.to_pylist()], pa.string()
    )
    values["terms"] = pa.DictionaryArray.from_arrays(digests.indices, texts)
    if "probabilities" in batch:
        width = columns.field("probabilities").type.byte_width
        blobs = batch["probabilities"]
        if min(map(len, blobs), default=width) < width:
            blobs = [blob + _NAN * ((width - len(blob)) // 8) for blob in blobs]
        values["probabilities"] = blobs
    absent = [None] * len(batch["id"])
    return pa.table(
        {name: values.get(name, absent) for name in columns.names}, schema=columns
    )


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
            use_dictionary=[name for name in _REPEATING if name in columns.names],
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
        self.challengers = [
            name for name in self.columns.names if name.startswith(SHADOW)
        ]

    def parts(
        self, names: Sequence[str] | None = None, ids: Sequence[str] | None = None
    ) -> Iterator[Any]:
        """The rows in order, `_GROUPS_OF_PART` groups at a time.

        With `ids` only their rows; only the groups that can have them are read.
        """
        groups = list(range(self._parquet.num_row_groups))
        if ids is not None:
            sorted_ids = sorted(ids)
            groups = [group for group in groups if self._may_have(group, sorted_ids)]
        for start in range(0, len(groups), _GROUPS_OF_PART):
            with _reading(self._name):
                table = self._parquet.read_row_groups(
                    groups[start : start + _GROUPS_OF_PART],
                    columns=names,
                    use_threads=False,
                )
            if ids is not None:
                table = table.filter(
                    pc.is_in(table["id"], value_set=pa.array(ids, pa.string()))
                )
            yield table

    def _may_have(self, group: int, sorted_ids: Sequence[str]) -> bool:
        statistics = self._parquet.metadata.row_group(group).column(0).statistics
        if statistics is None or not statistics.has_min_max:
            return True
        return bisect_left(sorted_ids, statistics.min) < bisect_right(
            sorted_ids, statistics.max
        )


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Damaged where Arrow cannot read a file; errors of the store stay as they are."""
    try:
        yield
    except (PayoffError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise Damaged(
            f"the file {name} of recorded decisions is damaged: restore it from a backup"
        ) from error


class SealedFiles:
    """The files of one store, each in a folder of its own, which is complete or does not exist."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def publish(self, name: str, content: bytes) -> None:
        """Write a file under a new name, see `new_name`."""
        self._storage.publish(name, {SEAL: content})

    @contextmanager
    def open(self, file: SealedFile) -> Iterator[OpenFile]:
        """One file, read part by part; Replaced where it is missing, Damaged where its content is
        not what was written.
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
        """The rows of the ids in a file, with the columns `names` and the id; Replaced where the
        file is missing.
        """
        with self.open(file) as opened:
            for table in opened.parts(["id", *names], ids):
                yield from table.to_pylist()

    def day(self, database: Database, query: CasesQuery, day: int) -> Iterator[Cases]:
        """The cases of a day, see `Archive.cases`."""
        for round_ in range(ROUNDS):
            with ExitStack() as open_files:
                with database.reading(without_timeout=True) as connection:
                    try:
                        sealed_day = SealedDay(self, open_files, connection, query, day)
                    except Replaced:
                        if round_ == ROUNDS - 1:
                            raise
                        continue
                    yield from sealed_day.in_tables()
                if not sealed_day.files:
                    return
                try:
                    yield from sealed_day.in_files()
                except FileNotFoundError as error:
                    # A store on the network may lose a file while it is read.
                    raise Unavailable(
                        "a day of decisions was replaced while it was read; try again"
                    ) from error
            return


def new_name(model: str, day: int, kind: str) -> str:
    """The name of a file that is to be written."""
    return (
        f"{model}/{date_of(day)}.{kind}.{int(time() * 1000):012x}{secrets.token_hex(4)}"
    )


class SealedDay:
    """The files and rows of a day, as of one moment; files stay open while `open_files` does."""

    def __init__(
        self,
        files: SealedFiles,
        open_files: ExitStack,
        connection: Connection,
        query: CasesQuery,
        day: int,
    ) -> None:
        """Replaced where a file is missing."""
        self._query = query
        self._day = day
        self._connection = connection
        names = [name for name in query.names if name in OF_DECISIONS]
        self._decision_names = list(dict.fromkeys(["id", *names]))
        self._outcome_names = [name for name in query.names if name in OUTCOME]
        self.files: list[OpenFile] = []
        names = ["id", "revision", *self._outcome_names]
        of_day = rows.of_day(OUTCOMES, query.model, day)
        recent = outcome_table(rows.columns(connection, OF_OUTCOMES, of_day, sort=True))
        tables = [recent.select(names)]
        for file in rows.files_of(connection, query.model, day):
            if file.kind == "decisions":
                self.files.append(open_files.enter_context(files.open(file)))
            else:
                with files.open(file) as outcomes:
                    tables.append(pa.concat_tables(outcomes.parts(names)))
        # An erased case is in no table, but files may still have it.
        erased = rows.erased_of(connection, query.model, day) if self.files else []
        self._erased = pa.array(erased, pa.string())
        self._outcomes = _latest(tables)
        self._outcome_ids = self._outcomes["id"].combine_chunks()

    def in_tables(self) -> Iterator[Cases]:
        """The cases that only the database has, while the connection is open."""
        model = self._query.model
        connection = self._connection
        has_shadows = bool(rows.challengers(connection, model, self._day))
        sealed_ids: Any = None
        of_day = rows.of_day(DECISIONS, model, self._day)
        if self._query.action is not None:
            of_day = rows.with_action(connection, of_day, self._query.action)
        for batch in rows.columns(
            connection, OF_DECISIONS, of_day, self._decision_names
        ):
            if sealed_ids is None and self.files:
                sealed_ids = self._sealed_ids()
            shadows = rows.shadows(connection, batch["id"]) if has_shadows else {}
            table = decision_table(
                batch, rows.contents(connection, batch["terms"]), shadows
            )
            if sealed_ids is not None:
                is_sealed = pc.is_in(table["id"], value_set=sealed_ids)
                table = table.filter(pc.invert(is_sealed))
            cases = self._cases(table)
            if len(cases) or self._query.action is not None:
                yield cases

    def in_files(self) -> Iterator[Cases]:
        """The cases of the files."""
        for file in self.files:
            for part in file.parts([*self._decision_names, *file.challengers]):
                cases = self._cases(part)
                if len(cases) or self._query.action is not None:
                    yield cases

    def _sealed_ids(self) -> Any:
        """The ids of the decisions in files."""
        ids = [
            part["id"].combine_chunks()
            for file in self.files
            for part in file.parts(["id"])
        ]
        return pa.chunked_array(ids, pa.string()).combine_chunks()

    def _cases(self, table: Any) -> Cases:
        """Rows of decisions as cases, with their outcomes."""
        query = self._query
        scanned = len(table)
        if len(self._erased):
            table = table.filter(
                pc.invert(pc.is_in(table["id"], value_set=self._erased))
            )
        if query.since is not None:
            table = table.filter(pc.greater_equal(table["at"], query.since))
        if query.until is not None:
            table = table.filter(pc.less(table["at"], query.until))
        contents, term = _coded(table, "terms")
        terms = [read_terms(content) for content in contents]
        if query.versions is not None:
            versions = [case_terms.version in query.versions for case_terms in terms]
            has_version = np.array(versions, dtype=bool)[term]
            table = table.filter(pa.array(has_version))
            term = term[has_version]
        if query.action is not None:
            places = [case_terms.index_of(query.action) for case_terms in terms]
            choice = _numbers(table, "choice", np.int32, UNKNOWN)
            has_action = np.array(places, dtype=np.int32)[term] == choice
            table = table.filter(pa.array(has_action))
            term = term[has_action]
        place = _places(table["id"], self._outcome_ids)
        for name in self._outcome_names:
            table = table.append_column(name, self._outcomes[name].take(place))
        keys, key = _coded(table, "client")
        segments, segment = _coded(table, "segments")
        arrays: dict[str, Any] = {
            name: _numbers(table, name, np.float64, np.nan) for name in FLOATS
        }
        arrays |= {name: _numbers(table, name, np.int32, UNKNOWN) for name in INDICES}
        P = np.empty((0, 0))
        if "probabilities" in table.column_names:
            blobs = table["probabilities"].combine_chunks()
            width = blobs.type.byte_width
            content = blobs.buffers()[1] or b""
            numbers = len(blobs) * width // 8
            P = np.frombuffer(content, "<f8", numbers, blobs.offset * width)
            P = P.reshape(-1, width // 8)
        return Cases(
            day=self._day,
            terms=terms,
            keys=keys,
            term=term,
            key=key,
            segments=[text and orjson.loads(text) for text in segments],
            segment=segment,
            probabilities=P,
            ids=table["id"].to_pylist() if "id" in query.names else None,
            instances=table["instance"].to_pylist()
            if "instance" in query.names
            else None,
            # A file also has the challengers of other versions, whose columns may be empty here.
            shadows={
                name.removeprefix(SHADOW): _numbers(table, name, np.int32, UNKNOWN)
                for name in table.column_names
                if name.startswith(SHADOW) and table[name].null_count < len(table)
            },
            scanned=scanned,
            **arrays,
        )


def _latest(tables: Sequence[Any]) -> Any:
    """Tables of outcomes as one, sorted by id; of several outcomes of a decision the last one."""
    parts = [table for table in tables if len(table)] or tables[:1]
    outcomes = pa.concat_tables(parts)
    if len(parts) > 1:
        outcomes = outcomes.sort_by([("id", "ascending"), ("revision", "ascending")])
        ids = outcomes["id"].combine_chunks()
        is_last = pc.not_equal(ids[:-1], ids[1:])
        outcomes = outcomes.filter(pa.concat_arrays([is_last, pa.array([True])]))
    return outcomes.combine_chunks()


def _places(ids: Any, sorted_ids: Any) -> Any:
    """The place of each id in `sorted_ids`, null where it is not there.

    O(n): of each part of the ids, only the sorted ids within its range are hashed.
    """
    parts = []
    for first in range(0, len(ids), _JOINED_ROWS):
        part = ids.slice(first, _JOINED_ROWS)
        ends = pc.min_max(part).as_py()
        start = bisect_left(sorted_ids, ends["min"], key=lambda scalar: scalar.as_py())
        end = bisect_right(sorted_ids, ends["max"], key=lambda scalar: scalar.as_py())
        place = pc.index_in(
            part, value_set=sorted_ids.slice(start, end - start)
        ).combine_chunks()
        parts.append(pc.add(place, pa.scalar(start, pa.int32())))
    return pa.chunked_array(parts, pa.int32())


def _numbers(table: Any, name: str, kind: type, absent: float) -> np.ndarray:
    """A column, with `absent` in place of null."""
    if name not in table.column_names:
        return np.empty(0, kind)
    return table[name].fill_null(absent).to_numpy().astype(kind, copy=False)


def _coded(table: Any, name: str) -> tuple[Sequence[Any], np.ndarray]:
    """The distinct values of a column, and the index of each row's value: int32 (n,)."""
    if name not in table.column_names:
        return [], np.empty(0, np.int32)
    column = table[name].unify_dictionaries().combine_chunks()
    values = column.dictionary.to_pylist()
    codes = column.indices
    if codes.null_count:
        codes = codes.fill_null(len(values))
        values.append(None)
    return values, codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
