"""A decision as it is recorded: its id, its terms, its row; and recorded ones with what became of
them, as columns.

Rows are encoded where the request is answered and not where it waits for others.
"""

import secrets
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from hashlib import blake2b
from time import time
from typing import Any, NamedTuple, Self
from uuid import UUID

import numpy as np
import orjson
from pydantic import TypeAdapter

from app.tables.text import is_number
from payoff.errors import pointer

DAY = 86_400  # seconds; days are UTC
_RANDOM_BITS = 74
_UNITS = (
    1e6  # of the probabilities in a digest: another machine may differ in the last bits of a float
)
_FORM = np.dtype("<f8")

UNIT_COSTS = "unit_costs"  # the rule of quantities
OF_QUANTITY = 3  # numbers that are recorded in the place of probabilities
_LARGEST = 1e50  # truth: reports add up what quantities cost
UNKNOWN = -1  # index of a truth, or of an action, that nobody has told
FLOATS = ("at", "expected", "propensity", "number", "benefit", "outcome_at", "received_at")
INDICES = ("choice", "truth", "action")
COLUMNS = (
    *FLOATS,
    *INDICES,
    "probabilities",
    "terms",
    "client",
)  # that cases are made of; others on request

Label = int | str


def new_ids(count: int, at: float | None = None) -> list[str]:
    """UUIDv7 of the moment `at`, seconds since 1970, by default now: 48 bits of milliseconds, 74
    random bits.
    """
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

    `benefits` (K, A) has a row per class and a column per action; None where the request stated
    none. `priors` are those that the request stated. `figures` holds what else the rule used:
    thresholds, costs, limits, prices, the budget, and where the `bands` of numbers begin that are
    the classes.

    A quantity (the rule `UNIT_COSTS`) has one class of all numbers, and one action. The quantity
    and the ends of its interval are in the place of the probabilities, and minus its expected cost
    in that of the expected benefit.
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

    def labelled(self, truth: Label | float) -> tuple[Label | float, float | None]:
        """The class of a truth, and the number that it is where the classes are bands of numbers."""
        bands = (self.figures or {}).get("bands")
        if bands is None or not is_number(str(truth)) or abs(number := float(truth)) > _LARGEST:
            return truth, None
        return self.classes[bisect_right(bands, number)], number

    @cached_property
    def content(self) -> str:
        """All of it as JSON, the same text for the same terms."""
        return orjson.dumps(
            asdict(self), option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY
        ).decode()

    @cached_property
    def digest(self) -> str:
        """Identity of the content, 32 hexadecimal digits."""
        return blake2b(self.content.encode(), digest_size=16).hexdigest()


TERMS_JSON: TypeAdapter[Terms] = TypeAdapter(Terms)
"""Reads `content`."""


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
    """The place of one of the ids at `ids`: a list has a place for each, a column that the request
    names is one.
    """
    return ids + pointer(position) if ids.endswith("ids") else ids


@dataclass(frozen=True)
class Batch:
    """The decisions of one request, which are stored together or not at all.

    `terms` by digest. The ids of the request stand at `place`, those of the rows at `positions`
    there, by default all. `stored` is called when they are durable.
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
    """n decisions to be recorded: `term` (n,) are indices into `terms`, all others as the columns
    are called.
    """

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
        found = []
        for id_, t, c, e, p, r, q, details, instance in columns:
            terms = self.terms[t]
            content = f"{terms.digest} {c} {q} {details} {instance} ".encode() + r.tobytes()
            digest = blake2b(
                content, digest_size=8
            ).digest()  # the same when the request is repeated later
            found.append(
                Row(
                    id_, given, at, terms.model, terms.version, terms.digest, c, e, p.tobytes(), q, client, details,
                    instance, int.from_bytes(digest, "little", signed=True),
                )
            )  # fmt: skip
        return found


@dataclass(frozen=True)
class Outcome:
    """What became of a decision, as a client says: indices into the classes and actions of its
    terms.

    Where the truth is a number, `truth` is its band.
    """

    truth: int
    action: int | None = None
    benefit: float | None = None
    at: float | None = None  # seconds since 1970
    number: float | None = None

    def joined(self, later: Self) -> Self:
        """An outcome with all that `later` states, too."""
        return replace(self, **later.stated)

    def contradicts(self, later: Self) -> bool:
        """Whether `later` states something else than this does; what only one of them states is no
        contradiction.
        """
        mine = self.stated
        return any(mine.get(name, value) != value for name, value in later.stated.items())

    @property
    def stated(self) -> dict[str, Any]:
        """The fields that are not None."""
        return {name: value for name, value in vars(self).items() if value is not None}


class CasesQuery(NamedTuple):
    """What `Archive.cases` was asked for; `names` are columns of decisions and of outcomes."""

    model: str
    since: float | None
    until: float | None
    versions: Collection[int] | None
    names: Sequence[str]


@dataclass(frozen=True)
class Cases:
    """Decisions of one model on one day, n of them, in no particular order.

    `term` (n,) are indices into `terms`, `key` (n,) indices into `keys`, the names of the keys that
    asked (None without one). `choice` (n,) and `action` (n,), the one that was really taken, are
    indices into the actions of a case's terms; `truth` (n,) are indices into its classes; `UNKNOWN`
    where there is none; `number` (n,) are truths that are numbers. `probabilities` (n, K) is padded
    with NaN for terms with fewer classes. Floats that are absent are NaN. Times are seconds since
    1970. `ids` and `instances` (JSON, None where absent) are there where they were asked for.
    `shadows` has, by challenger (`name:version`), what it would have chosen, (n,) indices into the
    same actions, `UNKNOWN` where it was not asked.
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
    number: np.ndarray
    benefit: np.ndarray
    outcome_at: np.ndarray
    received_at: np.ndarray
    ids: Sequence[str] | None = None
    instances: Sequence[str | None] | None = None
    shadows: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.at)
