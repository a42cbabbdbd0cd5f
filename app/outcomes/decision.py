"""A decision as it is recorded: its id, its terms and its row. `Cases` are recorded decisions with
their outcomes, as columns.

A request encodes its rows itself, so that the thread that stores them has less to do.
"""

import secrets
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from hashlib import blake2b
from time import time
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

import numpy as np
import orjson
from pydantic import TypeAdapter

from app.tables.text import is_number
from payoff.errors import pointer

DAY = 86_400  # seconds; days are UTC
_RANDOM_BITS = 74
# Digests have probabilities in these units: another machine may differ in the last bits of a float.
_UNITS = 1e6
_FLOAT = np.dtype("<f8")

GUARANTEED = "guaranteed"  # the rule of decisions that keep a guarantee
UNIT_COSTS = "unit_costs"  # the rule of quantities
# the rule of models that learned from rewards, and of these alone
EXPECTED_REWARD: Final = "expected_reward"
A_REWARD = "a reward"  # the one class of their decisions
OF_QUANTITY = 3  # numbers that are recorded in the place of probabilities
_LARGEST_TRUTH = 1e50  # reports add up the costs of quantities
UNKNOWN = -1  # the index of a truth, or of an action, that was not reported
FLOATS = (
    "at",
    "expected",
    "propensity",
    "number",
    "benefit",
    "outcome_at",
    "received_at",
)
INDICES = ("choice", "truth", "action")
COLUMNS = (*FLOATS, *INDICES, "probabilities", "terms", "client", "segments")
"""The columns of `Cases`; ids and instances are added on request."""

Label = int | str


def new_ids(count: int, at: float | None = None) -> list[str]:
    """UUIDv7 of the moment `at`, in seconds since 1970, by default now.

    An id has 48 bits of milliseconds and 74 random bits.
    """
    milliseconds = int((time() if at is None else at) * 1000)
    high = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | 0x2 << 62
    ids = []
    for _ in range(count):
        bits = secrets.randbits(_RANDOM_BITS)
        # Formatting the integer takes a third of the time of `UUID`.
        text = f"{high | (bits >> 62) << 64 | bits & 0x3FFF_FFFF_FFFF_FFFF:032x}"
        ids.append(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")
    return ids


def day_of(at: float) -> int:
    """Days since 1970-01-01, UTC."""
    return int(at // DAY)


def date_of(day: int) -> date:
    """The date of a day of `day_of`."""
    return datetime.fromtimestamp(day * DAY, UTC).date()


def day_of_id(id_: str) -> int | None:
    """The day of an id of `new_ids`; None for an id that is no UUIDv7."""
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
    in that of the expected benefit. A decision by rewards has one class, too: the expected rewards
    of all actions, their chances, and these rewards less costs are in the place of the
    probabilities.
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

    def index_of(self, action: str) -> int:
        """The place of an action by its name, UNKNOWN where there is none."""
        names = list(map(str, self.actions))
        return names.index(action) if action in names else UNKNOWN

    @cached_property
    def rewarded(self) -> bool:
        """Whether the outcome is a reward, and no class."""
        return self.rule == EXPECTED_REWARD

    @cached_property
    def width(self) -> int:
        """How many numbers are recorded in the place of probabilities."""
        if self.rewarded:
            return 3 * len(self.actions)
        return OF_QUANTITY if self.rule == UNIT_COSTS else len(self.classes)

    def labelled(self, truth: Label | float) -> tuple[Label | float, float | None]:
        """The class of a truth, and the truth as a number where the classes are bands."""
        bands = (self.figures or {}).get("bands")
        if bands is None or not is_number(str(truth)):
            return truth, None
        number = float(truth)
        if abs(number) > _LARGEST_TRUTH:
            return truth, None
        return self.classes[bisect_right(bands, number)], number

    @cached_property
    def content(self) -> str:
        """The terms as JSON, the same text for the same terms."""
        options = orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY
        return orjson.dumps(asdict(self), option=options).decode()

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
    segments: str | None = None


def place_of(ids: str, position: int) -> str:
    """The place of the id at a position below `ids`: a list of ids has a place for each of them, a
    column that the request names is one place.
    """
    return ids + pointer(position) if ids.endswith("ids") else ids


@dataclass(frozen=True)
class Batch:
    """The decisions of one request, which are stored together or not at all.

    `terms` has the terms by digest. The ids of the request are at `place`, those of the rows at
    `positions` there, by default at all of them.
    """

    rows: Sequence[Row]
    terms: Mapping[str, Terms]
    place: str = ""
    positions: Sequence[int] | None = None

    @property
    def has_ids_of_client(self) -> bool:
        """Whether the ids are the client's: they may be recorded already."""
        return bool(self.rows) and self.rows[0].given


@dataclass(frozen=True)
class Decided:
    """n decisions to be recorded.

    `term` (n,) are indices into `terms`; the other fields are named as the columns.
    """

    terms: Sequence[Terms]
    term: Sequence[int] | np.ndarray
    choice: np.ndarray
    probabilities: np.ndarray
    expected: np.ndarray | None = None
    propensity: np.ndarray | None = None
    details: Sequence[str | None] | None = None
    instances: Sequence[str | None] | None = None
    segments: Sequence[str] | None = None

    def rows(
        self, ids: Sequence[str], at: float, client: str | None, *, ids_of_client: bool
    ) -> list[Row]:
        """A row for each decision. About 5 microseconds a row."""
        n = len(ids)
        absent = [None] * n
        P = np.ascontiguousarray(self.probabilities, dtype=_FLOAT)
        columns = zip(
            ids, np.asarray(self.term).tolist(), self.choice.tolist(),
            absent if self.expected is None else self.expected.tolist(),
            P, np.rint(P * _UNITS) + 0.0,
            absent if self.propensity is None else self.propensity.tolist(),
            self.details or absent, self.instances or absent, self.segments or absent,
            strict=True,
        )  # fmt: skip
        rows = []
        for id_, t, c, e, p, r, q, details, instance, segments in columns:
            terms = self.terms[t]
            # The digest is the same when the request is repeated later: it has no id and no time.
            content = (
                f"{terms.digest} {c} {q} {details} {instance} {segments or ''} ".encode()
                + r.tobytes()
            )
            digest = blake2b(content, digest_size=8).digest()
            rows.append(
                Row(
                    id_, ids_of_client, at, terms.model, terms.version, terms.digest, c, e,
                    p.tobytes(), q, client, details, instance,
                    int.from_bytes(digest, "little", signed=True), segments,
                )
            )  # fmt: skip
        return rows


@dataclass(frozen=True)
class Outcome:
    """What became of a decision, as a client reports it.

    `truth` and `action` are indices into the classes and actions of the decision's terms. Where the
    truth is a number, `truth` is its band.
    """

    truth: int
    action: int | None = None
    benefit: float | None = None
    at: float | None = None  # seconds since 1970
    number: float | None = None

    def joined(self, later: Self) -> Self:
        """An outcome with the fields of this one and those that `later` states."""
        return replace(self, **later.stated)

    def contradicts(self, later: Self) -> bool:
        """Whether `later` states another value of a field that this outcome states, too."""
        stated = self.stated
        return any(
            stated.get(name, value) != value for name, value in later.stated.items()
        )

    @property
    def stated(self) -> dict[str, Any]:
        """The fields that are not None."""
        return {name: value for name, value in vars(self).items() if value is not None}


class CasesQuery(NamedTuple):
    """The cases that `Archive.cases` reads; `names` are columns of decisions and of outcomes.

    `action` is the name of the one that was decided, None for all.
    """

    model: str
    since: float | None
    until: float | None
    versions: Collection[int] | None
    names: Sequence[str]
    action: str | None = None


@dataclass(frozen=True)
class Cases:
    """Decisions of one model on one day, n of them, in no particular order.

    `term` (n,) are indices into `terms`, `key` (n,) indices into `keys`, the names of the API keys
    of the requests (None without one), `segment` (n,) indices into `segments`, the values of
    columns by which reports can be divided (None without any). `choice` (n,) and `action` (n,), the
    action that was really carried out, are indices into the actions of a case's terms; `truth` (n,)
    are indices into its classes; `UNKNOWN` where there is none; `number` (n,) are truths that are
    numbers.
    `probabilities` (n, K) is padded with NaN for terms with fewer classes. Floats that are absent
    are NaN. Times are seconds since 1970. `ids` and `instances` (JSON, None where absent) are None
    unless they were requested. `shadows` has, by challenger (`name:version`), its choices: (n,)
    indices into the same actions, `UNKNOWN` where it did not decide. `scanned` decisions were read
    for these.
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
    segments: Sequence[Mapping[str, str | None] | None]
    segment: np.ndarray
    ids: Sequence[str] | None = None
    instances: Sequence[str | None] | None = None
    shadows: Mapping[str, np.ndarray] = field(default_factory=dict)
    scanned: int = 0

    def __len__(self) -> int:
        return len(self.at)
