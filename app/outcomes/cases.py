"""Recorded decisions and what became of them, as columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from app.outcomes.rows import ColumnBatch, read_terms
from app.outcomes.terms import Terms

UNKNOWN = -1  # index of a truth, or of an action, that nobody has told
FLOATS = ("at", "expected", "propensity", "benefit", "outcome_at", "received_at")
INDICES = ("choice", "truth", "action")
COLUMNS = (*FLOATS, *INDICES, "probabilities", "terms", "client")  # that cases are made of; others on request


@dataclass(frozen=True)
class Cases:
    """Decisions of one model on one day, n of them, in no particular order.

    `term` (n,) are indices into `terms`, `key` (n,) indices into `keys`, the names of the keys that asked (None without
    one). `choice` (n,) and `action` (n,), the one that was really taken, are indices into the actions of a case's
    terms; `truth` (n,) are indices into its classes; `UNKNOWN` where there is none. `probabilities` (n, K) is padded
    with NaN for terms with fewer classes. Floats that are absent are NaN. Times are seconds since 1970.
    `ids` and `instances` (JSON, None where absent) are there where they were asked for.
    `shadows` has, by challenger (`name:version`), what it would have chosen, (n,) indices into the same actions,
    `UNKNOWN` where it was not asked.
    `lost` counts decisions beside these that no reader understands, as their terms are missing.
    """

    day: int
    terms: Sequence[Terms]
    keys: Sequence[str | None]
    at: np.ndarray
    term: np.ndarray
    key: np.ndarray
    choice: np.ndarray
    expected: np.ndarray
    probabilities: np.ndarray
    propensity: np.ndarray
    truth: np.ndarray
    action: np.ndarray
    benefit: np.ndarray
    outcome_at: np.ndarray
    received_at: np.ndarray
    ids: Sequence[str] | None = None
    instances: Sequence[str | None] | None = None
    shadows: Mapping[str, np.ndarray] = field(default_factory=dict)
    lost: int = 0

    def __len__(self) -> int:
        return len(self.at)

    @property
    def known_at(self) -> np.ndarray:
        """(n,): when the truth was known, as the client says, else when it came."""
        return np.where(np.isnan(self.outcome_at), self.received_at, self.outcome_at)


class Columns(Protocol):
    """Columns of n decisions by name, as rows of the database or a file have them; empty where one was not read."""

    def floats(self, name: str) -> np.ndarray:
        """Float64 (n,), NaN where there is none."""

    def indices(self, name: str) -> np.ndarray:
        """Int32 (n,), `UNKNOWN` where there is none."""

    def coded(self, name: str) -> tuple[Sequence[Any], np.ndarray]:
        """Distinct values, and which of them each is: int32 (n,)."""

    def texts(self, name: str) -> Sequence[Any]:
        """The values, None where there is none."""

    def probabilities(self) -> np.ndarray:
        """Float64 (n, K), each filled up with NaN."""


def cases_of(
    day: int,
    columns: Columns,
    names: Collection[str],
    terms: Sequence[Terms],
    term: np.ndarray,
    shadows: Mapping[str, np.ndarray],
) -> Cases:
    """The cases of columns, with ids and instances where `names` has them; the others as the fields of `Cases`."""
    keys, key = columns.coded("client")
    arrays: dict[str, Any] = {name: columns.floats(name) for name in FLOATS} | {
        name: columns.indices(name) for name in INDICES
    }
    return Cases(
        day=day,
        terms=terms,
        keys=keys,
        term=term,
        key=key,
        probabilities=columns.probabilities(),
        ids=columns.texts("id") if "id" in names else None,
        instances=columns.texts("instance") if "instance" in names else None,
        shadows=shadows,
        **arrays,
    )


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
