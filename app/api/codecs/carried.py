"""What comes back with an answer as it was sent: ids, and columns that the model does not use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from pydantic import BeforeValidator, Field, WithJsonSchema

from app.errors import Flaw, Invalid, pointer, reject
from app.outcomes.tables import MAX_ID
from app.usecases.fields import Names, Text, WireModel

_VALUES = (str, int, float, bool, type(None))
_MAX_KEPT = 100
MAX_CELL = 1000  # characters of a cell that comes back and is no id
_ID = "id"  # the column of ids that came without a name


def _split(sent: Any) -> Any:
    """In a query several names are separated by commas, or they are a list in JSON."""
    if not isinstance(sent, str):
        return sent
    try:
        return orjson.loads(sent) if sent.startswith("[") else sent.split(",")
    except orjson.JSONDecodeError as error:
        raise ValueError("send names separated by commas, or a list of them as JSON") from error


class CarriedFields(WireModel):
    """Names of columns that come back."""

    id: Text | None = Field(
        default=None, description="the column, or the member of the instances, that comes back as `ids`"
    )
    keep: Annotated[Names, Field(max_length=_MAX_KEPT), BeforeValidator(_split)] = Field(
        default=[], description="more of them, which come back under `kept`; in a query separated by commas"
    )

    def refuse_carried(self) -> None:
        """Invalid where a column is named, for bodies of numbers alone."""
        reject(
            Flaw(pointer(name), "arrays and tensors of numbers have no such columns; send JSON or a table")
            for name in ("id", "keep")
            if name in self.model_fields_set
        )

    @property
    def carried_names(self) -> list[str]:
        """All that are named, once each."""
        return list(dict.fromkeys([*([] if self.id is None else [self.id]), *self.keep]))


class CarriedIds(CarriedFields):
    """The same, or the ids themselves."""

    ids: Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": ["string", "integer"]}})] = Field(
        default=None, description="one for each instance, in their order; they come back"
    )

    @property
    def carries(self) -> bool:
        """Whether anything comes back."""
        return bool(self.ids is not None or self.id is not None or self.keep)


@dataclass(frozen=True)
class Carried:
    """Columns by name, as lists or Arrow columns; the one called `id` holds the ids."""

    id: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    kept: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """The fields of a JSON answer."""
        ids = {} if self.id is None else {"ids": _listed(self.columns[self.id])}
        return ids | ({"kept": {name: _listed(self.columns[name]) for name in self.kept}} if self.kept else {})

    def listed_ids(self) -> list[Any]:
        """The ids as JSON has them."""
        return [] if self.id is None else _listed(self.columns[self.id])

    def before(self, columns: dict[str, Any]) -> dict[str, Any]:
        """These columns, then those of an answer; Invalid at /keep for a name that both have."""
        for name in self.columns.keys() & columns.keys():
            raise Invalid.at("/id" if name == self.id else "/keep", f"the answer has a column {name!r} of its own")
        return self.columns | columns

    def refuse_numbers_only(self) -> None:
        """Invalid where there is anything, for answers that hold numbers alone."""
        if self.columns:
            place = "/keep" if self.id is None else "/id" if self.id != _ID else "/ids"
            raise Invalid.at(place, "an array of numbers has no place for this; ask for JSON or a table")


NOTHING = Carried()


def carried_of_json(wire: CarriedIds, instances: Any) -> Carried:
    """What the request wants back; Invalid where it names what the instances do not have."""
    names = wire.carried_names
    if names:
        _check_members(wire, instances, names)
    columns: dict[str, list[Any]] = {name: [each[name] for each in instances] for name in names}
    if wire.ids is not None:
        columns = {_ID: _checked_ids(wire, instances)} | columns
    return Carried(_ID if wire.ids is not None else wire.id, columns, wire.keep)


def without(instances: Any, carried: Carried, features: Collection[str]) -> Any:
    """The instances with those members alone that are features, or not carried."""
    extra = set(carried.columns) - set(features) if carried.columns else ()
    if not extra or not instances or type(instances[0]) is not dict:
        return instances
    return [{name: value for name, value in each.items() if name not in extra} for each in instances]


def _listed(column: Any) -> list[Any]:
    """Values as JSON has them: dates and decimals are text."""
    if isinstance(column, list):
        return column
    as_text = str(column.type).startswith(("decimal", "date", "timestamp"))
    return list((column.cast("string") if as_text else column).to_pylist())


def _check_members(wire: CarriedFields, instances: Any, names: Sequence[str]) -> None:
    place = "/keep" if wire.id is None else "/id"
    if not isinstance(instances, list) or not {dict}.issuperset(map(type, instances)):
        raise Invalid.at(place, "this names a member of the instances; send them as objects, or send 'ids'")
    reject(
        Flaw(pointer("instances", i), f"{name!r} is missing")
        for i, each in enumerate(instances)
        for name in names
        if name not in each
    )
    reject(
        Flaw(pointer("instances", i, name), f"{name!r} comes back; it is a number, text, a boolean or null")
        for name in names
        for i, each in enumerate(instances)
        if not isinstance(each[name], _VALUES)
    )
    reject(
        Flaw(pointer("instances", i, name), f"what comes back as {name!r} has at most {most} characters")
        for name in names
        for most in (MAX_ID if name == wire.id else MAX_CELL,)
        for i, each in enumerate(instances)
        if isinstance(each[name], str) and len(each[name]) > most
    )


def _checked_ids(wire: CarriedIds, instances: Any) -> list[Any]:
    if wire.id is not None:
        raise Invalid.at("/id", "send 'ids' or 'id', not both")
    if type(wire.ids) is not list:
        raise Invalid.at("/ids", "'ids' is a list of texts or integers")
    reject(
        Flaw(pointer("ids", i), f"an id is an integer, or text of at most {MAX_ID} characters")
        for i, each in enumerate(wire.ids)
        if type(each) is not int and not (type(each) is str and len(each) <= MAX_ID)
    )
    if isinstance(instances, list) and len(wire.ids) != len(instances):
        raise Invalid.at("/ids", f"there are {len(wire.ids):,} ids for {len(instances):,} instances")
    if _ID in wire.keep:
        raise Invalid.at("/keep", f"with 'ids' no other column can be called {_ID!r}")
    return wire.ids
