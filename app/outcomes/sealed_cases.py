"""Cases of a sealed day: what its file holds, with the outcomes that came later."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.outcomes.cases import UNKNOWN, Cases, cases_of
from app.outcomes.identity import DAY
from app.outcomes.rows import ColumnBatch, chosen, read_terms
from app.outcomes.sealed_files import SHADOW, SealedFile, told_later


def cases_of_file(
    day: int,
    file: SealedFile,
    outcomes: Any,
    names: Sequence[str],
    *,
    since: float | None,
    until: float | None,
    versions: Collection[int] | None,
) -> Iterator[Cases]:
    """The cases of a file in parts, of `names` and what challengers chose."""
    wanted = [*names, *(f"{SHADOW}{name}" for name in file.challengers)]
    if len(outcomes):
        wanted = list(dict.fromkeys([*wanted, "id"]))
    for part in file.parts(wanted):
        table = _within(told_later(part, outcomes), day, since, until)
        if len(found := _cases(day, table, names, versions)):
            yield found


def without(batch: ColumnBatch, ids: Any) -> ColumnBatch:
    """Those rows of a batch whose ids are not among these."""
    return chosen(batch, pc.invert(pc.is_in(pa.array(batch["id"], pa.string()), value_set=ids)).to_pylist())


def _within(table: Any, day: int, since: float | None, until: float | None) -> Any:
    if since is not None and since > day * DAY:
        table = table.filter(pc.greater_equal(table["at"], since))
    if until is not None and until < (day + 1) * DAY:
        table = table.filter(pc.less(table["at"], until))
    return table


def _cases(day: int, table: Any, names: Collection[str], versions: Collection[int] | None) -> Cases:
    contents, term = _Table(table).coded("terms")
    terms = [read_terms(content) for content in contents]
    if versions is not None:
        is_wanted = np.array([one.version in versions for one in terms], dtype=bool)[term]
        table, term = table.filter(pa.array(is_wanted)), term[is_wanted]
    columns = _Table(table)
    challengers = [name for name in table.column_names if name.startswith(SHADOW)]
    shadows = {name.removeprefix(SHADOW): columns.indices(name) for name in challengers}
    return cases_of(day, columns, names, terms, term, shadows)


class _Table:
    """See `Columns`."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._names = frozenset(table.column_names)

    def texts(self, name: str) -> Sequence[Any]:
        found: list[Any] = self._table[name].to_pylist()
        return found

    def floats(self, name: str) -> np.ndarray:
        if name not in self._names:
            return np.empty(0)
        found: np.ndarray = self._table[name].to_numpy()
        return found.astype(np.float64, copy=False)  # null becomes NaN

    def indices(self, name: str) -> np.ndarray:
        if name not in self._names:
            return np.empty(0, np.int32)
        found: np.ndarray = self._table[name].fill_null(UNKNOWN).to_numpy()
        return found.astype(np.int32, copy=False)

    def coded(self, name: str) -> tuple[Sequence[Any], np.ndarray]:
        if name not in self._names:
            return [], np.empty(0, np.int32)
        whole = self._table[name].unify_dictionaries().combine_chunks()
        values, codes = whole.dictionary.to_pylist(), whole.indices
        if codes.null_count:
            codes, values = codes.fill_null(len(values)), [*values, None]
        return values, codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)

    def probabilities(self) -> np.ndarray:
        if "probabilities" not in self._names:
            return np.empty((0, 0))
        column = self._table["probabilities"]
        width = column.type.byte_width
        parts = [
            np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, chunk.offset * width)
            for chunk in column.chunks
            if len(chunk)
        ]
        flat = np.concatenate(parts) if parts else np.empty(0, np.uint8)
        return flat.view("<f8").reshape(-1, width // 8)
