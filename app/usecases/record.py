"""Recording of decisions: what of a request and its answer is stored."""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Annotated, Any, NamedTuple

import numpy as np
import orjson
from pydantic import BaseModel, Discriminator, Field, StrictBool, Tag, WithJsonSchema

from app.access.caller import ANYBODY, Caller, Scope
from app.errors import Flaw, Forbidden, Invalid, pointer, reject
from app.errors import sent as shown
from app.features import Schema
from app.outcomes.decision import DAY, Batch, Decided, new_ids, place_of
from app.outcomes.tables import MAX_ID
from app.text import refused_character
from app.usecases.fields import TIME_FORM, Moment, WireModel
from app.usecases.ports import Ports

_IDS = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 128}}
_AN_ID = "a decision's id is text or an integer"
_SKEW_SECONDS = 60.0  # by which the clock of a client may be ahead


class Recording(WireModel):
    """The ids of the decisions, and whether the instances are recorded with them."""

    ids: Annotated[Any, WithJsonSchema(_IDS)] = Field(
        default=None, description="one for each instance; without them the service makes its own"
    )
    instances: StrictBool = Field(default=False, description="record what was sent of each instance, too")
    at: Moment = Field(
        default=None, description=f"when the decisions were made, where that is not now; {TIME_FORM}", examples=[None]
    )


def _form(value: Any) -> str:
    return "object" if isinstance(value, dict | Recording) else "boolean"


class RecordField(WireModel):
    """The field `record`."""

    record: (
        Annotated[Annotated[StrictBool, Tag("boolean")] | Annotated[Recording, Tag("object")], Discriminator(_form)]
        | None
    ) = Field(
        default=None,
        description="store the decisions before they are answered; `ids` of the answer name them for `POST /outcomes`."
        " Without it the model's default holds",
    )


class RecordingDocument(BaseModel):
    """What is recorded of requests that do not say so themselves."""

    record: bool
    instances: bool

    @classmethod
    def of(cls, default: bool | None) -> RecordingDocument:
        """The default of a model, as `Defaults.of` has it."""
        return cls(record=default is not None, instances=bool(default))


class Wish(NamedTuple):
    """What is to be recorded: under which ids (None: ours), which are at `place`, and with or without instances.

    `at`, in seconds since 1970, is when the decisions were made; None for now.
    """

    ids: Any = None
    instances: bool = False
    at: float | None = None
    place: str = "/record/ids"

    def under(self, own: tuple[str, list[Any]] | None) -> Wish:
        """The same with the ids that the request has for its own use, after their field; Invalid where it has both."""
        if own is None:
            return self
        if self.ids is not None:
            raise Invalid.at("/record/ids", "the request has ids already; leave out one of the two")
        field, ids = own
        reject(
            Flaw(pointer(field, i) if field == "ids" else pointer(field), f"{_AN_ID}, not {shown(id_)}")
            for i, id_ in enumerate(ids)
            if type(id_) not in (str, int)
        )
        return self._replace(ids=list(map(str, ids)), place=pointer(field))


def wish_of(sent: bool | Recording | None, default: bool | None) -> Wish | None:
    """What the field `record` says, without it the model's `default` (see `Defaults.of`); None for nothing."""
    if isinstance(sent, Recording):
        return Wish(sent.ids, sent.instances, sent.at)
    if sent is None:
        return None if default is None else Wish(instances=default)
    return Wish() if sent else None


def set_default(ports: Ports, name: str, default: bool | None, *, by: Caller) -> None:
    """Change what is recorded of requests without a wish; NotFound for an unknown model, Invalid for one of numbers."""
    versions = ports.registry.index.model(name).versions
    card = ports.registry.card(name, versions[0].version) if versions else None
    if default is not None and card is not None and (card.classes is None or card.classes == card.labels):
        raise Invalid.at("/record", f"{name!r} has no decisions to record: it predicts numbers, or several labels")
    entry = ports.audit.entry(by, "recording.set", name, record=default is not None, instances=bool(default))
    ports.recorder.defaults.set(name, default, entry)


class Ids(NamedTuple):
    """The checked ids of the decisions, in the order of the instances, and their moment."""

    ids: Sequence[str]
    given: bool
    place: str
    at: float


def ids_of(wish: Wish, n: int) -> Ids:
    """One id for each of n decisions; Invalid where those that were sent are not, or the moment is still to come."""
    now = time()
    at = now if wish.at is None else wish.at
    if not 0 <= at <= now + _SKEW_SECONDS:
        raise Invalid.at("/record/at", "decisions are recorded as of now, or of a moment since 1970 that has passed")
    if wish.ids is None:
        return Ids(new_ids(n, at), given=False, place=wish.place, at=at)
    if not isinstance(wish.ids, list):
        raise Invalid.at(wish.place, "ids are a list of texts")
    if len(wish.ids) != n:
        raise Invalid.at(wish.place, f"there are {len(wish.ids):,} ids for {n:,} instances")
    flaws = ((i, _flaw(id_)) for i, id_ in enumerate(wish.ids))
    reject(Flaw(place_of(wish.place, i), flaw) for i, flaw in flaws if flaw)
    if len(set(wish.ids)) < n:
        seen: set[str] = set()
        twice = next(id_ for id_ in wish.ids if id_ in seen or seen.add(id_))  # type: ignore[func-returns-value]
        raise Invalid.at(wish.place, f"the id {twice!r} is there twice; each decision has its own")
    return Ids(wish.ids, given=True, place=wish.place, at=at)


def check_moment(ports: Ports, caller: Caller, wish: Wish) -> None:
    """Forbidden where a key without the scope `train` dates decisions back: each day costs every report.

    Invalid at a moment that is to be deleted already.
    """
    now = time()
    if wish.at is None or wish.at > now - _SKEW_SECONDS:
        return
    try:
        caller.need(frozenset({Scope.TRAIN}))
    except Forbidden as error:
        raise Forbidden(f"to date decisions back {error.detail}", [Flaw("/record/at", error.detail)]) from None
    keep = ports.recorder.keep_seconds
    if keep is not None and wish.at < now - keep:
        days = keep / DAY
        raise Invalid.at("/record/at", f"decisions are kept for {days:g} days; this moment is before that")


def _flaw(id_: Any) -> str | None:
    if not isinstance(id_, str):
        return f"a decision's id is text, not {shown(id_)}"
    if not 1 <= len(id_) <= MAX_ID:
        return f"a decision's id has 1 to {MAX_ID} characters"
    return refused_character(id_)


def batch(decided: Decided, ids: Ids, caller: Caller) -> Batch:
    rows = decided.rows(ids.ids, ids.at, client_of(caller), given=ids.given)
    return Batch(rows, {terms.digest: terms for terms in decided.terms}, ids.place)


def client_of(caller: Caller) -> str | None:
    """The name of the key that asks; None without one."""
    return None if caller.client is None and caller.name == ANYBODY.name else caller.name


def texts_of_json(instances: Sequence[Any], schema: Schema) -> list[str]:
    """Each instance as JSON by feature name, with the values that were sent."""
    return [_text(schema, schema.in_order(each) or ()) for each in instances]


def texts_of_rows(X: np.ndarray, schema: Schema) -> list[str]:
    """The same of encoded rows: categories never seen in training are missing here."""
    columns: list[list[Any]] = X.T.tolist()
    for j in schema.categorical:
        words = schema.features[j].categories
        columns[j] = [None if code != code else words[int(code)] for code in columns[j]]  # noqa: PLR0124 - NaN
    return [_text(schema, row) for row in zip(*columns, strict=True)]


def _text(schema: Schema, values: Sequence[Any]) -> str:
    return orjson.dumps(dict(zip(schema.names, values, strict=True))).decode()
