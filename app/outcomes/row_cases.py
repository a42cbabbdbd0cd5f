"""Rows of the database as the columns that `Cases` are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from app.outcomes.cases import UNKNOWN, Cases, cases_of
from app.outcomes.rows import ColumnBatch, read_terms


def cases_of_rows(
    day: int,
    batch: ColumnBatch,
    names: Collection[str],
    contents: Mapping[str, str],
    shadows: Mapping[str, Mapping[str, int]],
) -> Cases:
    """The cases of a batch; `contents` are terms by digest, `shadows` choices by challenger and id."""
    columns = _Rows(batch)
    digests, term = columns.coded("terms")
    chosen = {
        challenger: np.array([of.get(id_, UNKNOWN) for id_ in batch["id"]], dtype=np.int32)
        for challenger, of in shadows.items()
    }
    return cases_of(day, columns, names, [read_terms(contents[digest]) for digest in digests], term, chosen)


class _Rows:
    """See `Columns`."""

    def __init__(self, batch: ColumnBatch) -> None:
        self._batch = batch

    def texts(self, name: str) -> Sequence[Any]:
        return self._batch.get(name, ())

    def floats(self, name: str) -> np.ndarray:
        return np.array(self.texts(name), dtype=np.float64)  # None becomes NaN

    def indices(self, name: str) -> np.ndarray:
        return np.array([UNKNOWN if value is None else value for value in self.texts(name)], dtype=np.int32)

    def coded(self, name: str) -> tuple[Sequence[Any], np.ndarray]:
        known: dict[Any, int] = {}
        values = self.texts(name)
        codes = np.fromiter((known.setdefault(value, len(known)) for value in values), np.int32, count=len(values))
        return list(known), codes

    def probabilities(self) -> np.ndarray:
        blobs = self.texts("probabilities")
        flat = np.frombuffer(b"".join(blobs), dtype="<f8")
        lengths = np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs)) // flat.itemsize
        longest = int(lengths.max(initial=0))
        if len(flat) == len(blobs) * longest:
            return flat.reshape(len(blobs), longest)
        padded = np.full((len(blobs), longest), np.nan)
        padded[np.arange(longest) < lengths[:, None]] = flat
        return padded
