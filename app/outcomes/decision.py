"""A decision as it is recorded: its id, its terms, and its row.

Rows are encoded where the request is answered and not where it waits for others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from hashlib import blake2b
from time import time
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import orjson

from app.errors import pointer

DAY = 86_400  # seconds; days are UTC
_RANDOM_BITS = 74
_UNITS = 1e6  # of the probabilities in a digest: another machine may differ in the last bits of a float
_FORM = np.dtype("<f8")

Label = int | str


def new_ids(count: int, at: float | None = None) -> list[str]:
    """UUIDv7 of the moment `at`, seconds since 1970, by default now: 48 bits of milliseconds, 74 random bits."""
    milliseconds = int((time() if at is None else at) * 1000)
    high = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | 0x2 << 62
    ids = []
    for _ in range(count):
        drawn = secrets.randbits(_RANDOM_BITS)
        text = f"{high | (drawn >> 62) << 64 | drawn & 0x3FFF_FFFF_FFFF_FFFF:032x}"  # a third of the time of UUID
        ids.append(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")
    return ids


def day_of(at: float) -> int:
    """Days since 1970-01-01, UTC."""
    return int(at // DAY)


def date_of(day: int) -> date:
    """The date of a day of `day_of`."""
    return datetime.fromtimestamp(day * DAY, UTC).date()


def day_of_id(id_: str) -> int | None:
    """The day of an id of `new_ids`; None for all that is no UUIDv7."""
    try:
        parsed = UUID(id_)
    except ValueError:
        return None
    return (parsed.int >> 80) // 1000 // DAY if parsed.version == 7 else None


def id_digest(id_: str) -> str:
    """32 hexadecimal digits, for where the id itself must not be kept."""
    return blake2b(id_.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Terms:
    """The model's version, the rule, and the benefit matrix by which a decision was made.

    `benefits` (K, A) has a row per class and a column per action; None where the request stated none. `priors` are
    those that the request stated. `figures` holds what else the rule used: thresholds, costs, limits, prices, the
    budget.
    """

    verb: str  # predict or acquire
    model: str
    version: int
    rule: str
    classes: tuple[Label, ...]
    actions: tuple[Label, ...]
    benefits: tuple[tuple[float, ...], ...] | None = None
    priors: Mapping[str, float] | None = None
    figures: Mapping[str, Any] | None = None

    @cached_property
    def content(self) -> str:
        """All of it as JSON, the same text for the same terms."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY).decode()

    @cached_property
    def digest(self) -> str:
        """Identity of the content, 32 hexadecimal digits."""
        return blake2b(self.content.encode(), digest_size=16).hexdigest()

    @cached_property
    def matrix(self) -> np.ndarray | None:
        """`benefits` as float64 (K, A)."""
        return None if self.benefits is None else np.array(self.benefits, dtype=np.float64)

    @classmethod
    def read(cls, content: str) -> Terms:
        """The terms of `content`."""
        fields = orjson.loads(content)
        fields |= {"classes": tuple(fields["classes"]), "actions": tuple(fields["actions"])}
        if fields["benefits"] is not None:
            fields["benefits"] = tuple(tuple(row) for row in fields["benefits"])
        return cls(**fields)


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
