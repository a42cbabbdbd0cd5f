"""The cases of a day: its decisions and their outcomes, in files and in the database, joined by id."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection

from app.outcomes import rows
from app.outcomes.cases import FLOATS, INDICES, UNKNOWN, Asked, Cases
from app.outcomes.rows import OF_DECISIONS, OUTCOME, read_terms
from app.outcomes.sealed_files import SHADOW, Files, OpenFile, decision_table, outcome_table

_JOINED = 16_384  # rows that are joined at a time: the table of hashes stays in the processor's cache


class SealedDay:
    """What there is of a day, as of one moment; its files stay open while `opened` does."""

    def __init__(self, opened: ExitStack, files: Files, connection: Connection, asked: Asked, day: int) -> None:
        """Replaced where a file is missing."""
        self._asked, self._day, self._connection = asked, day, connection
        self._decisions = list(dict.fromkeys(["id", *(name for name in asked.names if name in OF_DECISIONS)]))
        self._outcomes = [name for name in asked.names if name in OUTCOME]
        self._erased = pa.array(rows.erased_of(connection, asked.model, day), pa.string())
        self._files: list[OpenFile] = []
        columns = ["id", "revision", *self._outcomes]
        told = [outcome_table(rows.outcomes(connection, asked.model, day)).select(columns)]
        for file in rows.files_of(connection, asked.model, day):
            if file.kind == "decisions":
                self._files.append(opened.enter_context(files.open(file)))
            else:
                with files.open(file) as outcomes:
                    told.append(outcomes.whole(columns))
        self._told = _latest(told)
        self._told_ids = self._told["id"].combine_chunks()

    def in_tables(self) -> Iterator[Cases]:
        """The cases that only the database has, while the connection is open."""
        model, connection = self._asked.model, self._connection
        has_shadows = bool(rows.challengers(connection, model, self._day))
        sealed: Any = None
        for batch in rows.decisions(connection, self._decisions, rows.of_day(model, self._day)):
            if sealed is None:
                ids = [part["id"].combine_chunks() for file in self._files for part in file.parts(["id"])]
                sealed = pa.chunked_array(ids, pa.string()).combine_chunks()
            whole, contents = rows.with_terms(connection, batch)
            shadows = rows.shadows(connection, whole["id"]) if has_shadows else {}
            table = decision_table(whole, contents, shadows)
            lost = len(batch["id"]) - len(table)
            found = self._cases(table.filter(pc.invert(pc.is_in(table["id"], value_set=sealed))))
            if len(found) or lost:
                yield replace(found, lost=lost)

    def in_files(self) -> Iterator[Cases]:
        """The cases that files have."""
        for file in self._files:
            for part in file.parts([*self._decisions, *file.challengers]):
                if len(found := self._cases(part)):
                    yield found

    def _cases(self, table: Any) -> Cases:
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
        arrays: dict[str, Any] = {name: _floats(table, name) for name in FLOATS}
        arrays |= {name: _indices(table, name) for name in INDICES}
        return Cases(
            day=self._day,
            terms=terms,
            keys=keys,
            term=term,
            key=key,
            probabilities=_probabilities(table),
            ids=table["id"].to_pylist() if "id" in asked.names else None,
            instances=table["instance"].to_pylist() if "instance" in asked.names else None,
            shadows={
                name.removeprefix(SHADOW): _indices(table, name)
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
    """Where each id is among the others, null where it is not. O(n), since only those are hashed that it can be."""
    found = []
    for first in range(0, len(ids), _JOINED):
        some = ids.slice(first, _JOINED)
        ends = pc.min_max(some).as_py()
        start = bisect_left(sorted_ids, ends["min"], key=lambda each: each.as_py())
        end = bisect_right(sorted_ids, ends["max"], key=lambda each: each.as_py())
        place = pc.index_in(some, value_set=sorted_ids.slice(start, end - start)).combine_chunks()
        found.append(pc.add(place, pa.scalar(start, pa.int32())))
    return pa.chunked_array(found, pa.int32())


def _floats(table: Any, name: str) -> np.ndarray:
    if name not in table.column_names:
        return np.empty(0)
    found: np.ndarray = table[name].to_numpy()
    return found.astype(np.float64, copy=False)  # null becomes NaN


def _indices(table: Any, name: str) -> np.ndarray:
    if name not in table.column_names:
        return np.empty(0, np.int32)
    found: np.ndarray = table[name].fill_null(UNKNOWN).to_numpy()
    return found.astype(np.int32, copy=False)


def _coded(table: Any, name: str) -> tuple[Sequence[Any], np.ndarray]:
    """Distinct values, and which of them each is: int32 (n,)."""
    if name not in table.column_names:
        return [], np.empty(0, np.int32)
    whole = table[name].unify_dictionaries().combine_chunks()
    values, codes = whole.dictionary.to_pylist(), whole.indices
    if codes.null_count:
        codes, values = codes.fill_null(len(values)), [*values, None]
    return values, codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)


def _probabilities(table: Any) -> np.ndarray:
    """Float64 (n, K), each filled up with NaN."""
    if "probabilities" not in table.column_names:
        return np.empty((0, 0))
    column = table["probabilities"]
    width = column.type.byte_width
    parts = [
        np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, chunk.offset * width)
        for chunk in column.chunks
        if len(chunk)
    ]
    flat = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    return flat.view("<f8").reshape(-1, width // 8)
