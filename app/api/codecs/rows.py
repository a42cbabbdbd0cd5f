"""Rows of features in requests, as the matrix that a model takes; and what of a request comes back with its answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.api.codecs.npy import array_of_npy
from app.api.memory import Charge
from app.errors import Flaw, Invalid, pointer, reject
from app.features import Schema
from app.outcomes.tables import MAX_ID
from app.usecases.fields import CarriedFields, CarriedIds
from app.usecases.predict import Rows

_VALUES = (str, int, float, bool, type(None))
MAX_CELL = 1000  # characters of a cell that comes back and is no id
_ID = "id"  # the column of ids that came without a name


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

    @property
    def own_ids(self) -> tuple[str, list[Any]] | None:
        """The field that has the ids or names their column, and the ids as JSON has them; None without any."""
        return None if self.id is None else ("ids" if self.id == _ID else "id", _listed(self.columns[self.id]))

    def with_ids(self, ids: Sequence[str | None]) -> Carried:
        """With the ids of the decisions, where the request has none of its own."""
        if self.id is not None:
            return self
        if _ID in self.columns:
            raise Invalid.at("/keep", f"with 'record' no other column can be called {_ID!r}")
        return Carried(_ID, {_ID: list(ids)} | self.columns, self.kept)

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


def rows_of_npy(body: bytes | bytearray, schema: Schema, charge: Charge) -> Rows:
    """A .npy file of numbers (n, m), rows in feature order, NaN where missing. Never unpickles."""
    if schema.categorical:
        raise Invalid.at(
            "", "the model has categorical features, which an array of numbers cannot contain; send JSON or Arrow"
        )
    X = array_of_npy(body, charge)
    if X.ndim != 2 or X.shape[1] != len(schema.names):
        raise Invalid.at("", f"the shape of the array is {list(X.shape)}; it must be [n, {len(schema.names)}]")
    return Rows(finite(np.ascontiguousarray(X)), [])


def finite(X: np.ndarray, under: str = "") -> np.ndarray:
    """`X`; Invalid below `under` at each infinite number."""
    infinite = np.isinf(X)
    if infinite.any():
        message = "infinity is not allowed; use NaN or null for a missing value"
        reject(Flaw(under + pointer(i, j), message) for i, j in np.argwhere(infinite))
    return X
