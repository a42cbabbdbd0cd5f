"""Which decisions a request has recorded, and under which ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Field, StrictBool, Tag, WithJsonSchema

from app.api.codecs.carried import Carried
from app.errors import Flaw, Invalid, pointer, reject, sent
from app.usecases.fields import TIME_FORM, Moment, WireModel
from app.usecases.record import Wish

_IDS = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 128}}
_ID = "id"  # the column of ids of an answer


class RecordDocument(WireModel):
    """The ids of the decisions, and whether the instances are recorded with them."""

    ids: Annotated[Any, WithJsonSchema(_IDS)] = Field(
        default=None, description="one for each instance; without them the service makes its own"
    )
    instances: StrictBool = Field(default=False, description="record what was sent of each instance, too")
    at: Moment = Field(
        default=None, description=f"when the decisions were made, where that is not now; {TIME_FORM}", examples=[None]
    )


def _form(value: Any) -> str:
    return "object" if isinstance(value, dict | RecordDocument) else "boolean"


Record = Annotated[
    Annotated[StrictBool, Tag("boolean")] | Annotated[RecordDocument, Tag("object")], Discriminator(_form)
]
RECORD = (
    "store the decisions before they are answered; `ids` of the answer name them for `POST /outcomes`. Without it the"
    " model's default holds"
)


class RecordField(WireModel):
    """The field `record`."""

    record: Record | None = Field(default=None, description=RECORD)

    @property
    def wish(self) -> Wish | None:
        """What is asked about recording; None where the model's default holds."""
        if isinstance(self.record, RecordDocument):
            return Wish(wanted=True, ids=self.record.ids, instances=self.record.instances, at=self.record.at)
        return None if self.record is None else Wish(wanted=self.record)


class RecordingDocument(BaseModel):
    """What is recorded of requests that do not say so themselves."""

    record: bool
    instances: bool

    @classmethod
    def of(cls, default: bool | None) -> RecordingDocument:
        """The default of a model, as `Defaults.of` has it."""
        return cls(record=default is not None, instances=bool(default))


def with_ids_of(wish: Wish, carried: Carried) -> Wish:
    """The wish with the ids that the request has for its own use, where it has any; Invalid where it has both."""
    if carried.id is None:
        return wish
    if wish.ids is not None:
        raise Invalid.at("/record/ids", "the request has ids already; leave out one of the two")
    place = "/ids" if carried.id == _ID else pointer("id")
    values = carried.listed_ids()
    reject(
        Flaw(
            place if place == "/id" else place + pointer(i), f"a decision's id is text or an integer, not {sent(value)}"
        )
        for i, value in enumerate(values)
        if type(value) not in (str, int)
    )
    return replace(wish, ids=list(map(str, values)), place=place)


def carrying(carried: Carried, ids: Sequence[str | None]) -> Carried:
    """What comes back, and the ids of the decisions where the request has none of its own."""
    if carried.id is not None:
        return carried
    if _ID in carried.columns:
        raise Invalid.at("/keep", f"with 'record' no other column can be called {_ID!r}")
    return Carried(_ID, {_ID: list(ids)} | carried.columns, carried.kept)
