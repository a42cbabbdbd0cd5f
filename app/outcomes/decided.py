"""Decisions as rows of the table, encoded where the request is answered and not where it waits for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from app.errors import pointer
from app.outcomes.terms import Terms

_UNITS = 1e6  # of the probabilities in a digest: another machine may differ in the last bits of a float
_FORM = np.dtype("<f8")


class Row(NamedTuple):
    """One row of `decisions`, in the order of its columns."""

    id: str
    given: bool
    at: float
    model: str
    version: int
    terms: str
    choice: int
    expected: float | None
    probabilities: bytes
    propensity: float | None
    client: str | None
    details: str | None
    instance: str | None
    digest: int


def place_of(ids: str, position: int) -> str:
    """The place of one of the ids at `ids`: a list has a place for each, a column that the request names is one."""
    return ids + pointer(position) if ids.endswith("ids") else ids


@dataclass(frozen=True)
class Batch:
    """The decisions of one request, which are stored together or not at all.

    `terms` by digest. The ids of the request stand at `place`, those of the rows at `positions` there, by default all.
    `stored` is called when they are durable.
    """

    rows: Sequence[Row]
    terms: Mapping[str, Terms]
    place: str = ""
    positions: Sequence[int] | None = None
    stored: Callable[[], None] | None = None

    @property
    def given(self) -> bool:
        """Whether the ids are the caller's, and may have come before."""
        return bool(self.rows) and self.rows[0].given


@dataclass(frozen=True)
class Decided:
    """n decisions to be recorded: `term` (n,) are indices into `terms`, all others as the columns are called."""

    terms: Sequence[Terms]
    term: Sequence[int] | np.ndarray
    choice: np.ndarray
    probabilities: np.ndarray
    expected: np.ndarray | None = None
    propensity: np.ndarray | None = None
    details: Sequence[str | None] | None = None
    instances: Sequence[str | None] | None = None

    def rows(self, ids: Sequence[str], at: float, client: str | None, *, given: bool) -> list[Row]:
        """One row for each. About 5 microseconds a row."""
        n = len(ids)
        absent = [None] * n
        P = np.ascontiguousarray(self.probabilities, dtype=_FORM)
        columns = zip(
            ids, np.asarray(self.term).tolist(), self.choice.tolist(),
            absent if self.expected is None else self.expected.tolist(),
            P, np.rint(P * _UNITS) + 0.0,
            absent if self.propensity is None else self.propensity.tolist(),
            self.details or absent, self.instances or absent, strict=True,
        )  # fmt: skip
        return [
            one_row(self.terms[t], id_, given, at, c, e, p.tobytes(), r.tobytes(), q, client, details, instance)
            for id_, t, c, e, p, r, q, details, instance in columns
        ]


def one_row(
    terms: Terms, id_: str, given: bool, at: float, choice: int, expected: float | None, probabilities: bytes,
    rounded: bytes, propensity: float | None, client: str | None, details: str | None, instance: str | None,
) -> Row:  # fmt: skip
    """One row, whose digest is that of all that a repeated request has again; not of its time."""
    content = f"{terms.digest} {choice} {propensity} {details} {instance} "
    hashed = blake2b(content.encode() + rounded, digest_size=8).digest()
    return Row(
        id_, given, at, terms.model, terms.version, terms.digest, choice, expected, probabilities, propensity, client,
        details, instance, int.from_bytes(hashed, "little", signed=True),
    )  # fmt: skip
