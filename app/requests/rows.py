"""Rows of a request: instances as a model's schema encodes them, and the columns beside them."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import gt, lt
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.outcomes.tables import MAX_ID
from app.registry.loaded import Loaded
from app.tables.features import Schema
from payoff.decisions.case_benefits import NO_COLUMNS, Columns
from payoff.errors import Flaw, Invalid, below, pointer, reject

_ID = "id"  # the column of ids that came without a name
_INSTANCES = "/instances"
_MAX_PACKED_ROWS = 16  # with more rows, encoding them as an array is faster
_MAX_PACKED_VALUE = 1e100  # sums and products of smaller values stay far from overflow


@dataclass(frozen=True)
class Carried:
    """Columns by name, as lists or Arrow columns; the one called `id` holds the ids."""

    id: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    kept: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """The fields of a JSON answer."""
        ids = {} if self.id is None else {"ids": _listed(self.columns[self.id])}
        if not self.kept:
            return ids
        return ids | {"kept": {name: _listed(self.columns[name]) for name in self.kept}}

    @property
    def request_ids(self) -> tuple[str, list[Any]] | None:
        """The field that has the ids or names their column, and the ids; None without ids."""
        if self.id is None:
            return None
        return "ids" if self.id == _ID else "id", _listed(self.columns[self.id])

    def with_ids(self, ids: Sequence[str | None]) -> Carried:
        """With the ids of the decisions, where the request has none of its own."""
        if self.id is not None:
            return self
        if _ID in self.columns:
            raise Invalid.at(
                "/keep", f"with 'record' no other column can be called {_ID!r}"
            )
        return Carried(_ID, {_ID: list(ids)} | self.columns, self.kept)

    def before(self, columns: dict[str, Any]) -> dict[str, Any]:
        """These columns, then those of an answer; Invalid at /keep for a name that both have."""
        for name in self.columns.keys() & columns.keys():
            raise Invalid.at(
                "/id" if name == self.id else "/keep",
                f"the answer has a column {name!r} of its own",
            )
        return self.columns | columns

    def refuse_numbers_only(self) -> None:
        """Invalid where any column comes back, for answers that hold numbers alone."""
        if self.columns:
            place = "/keep"
            if self.id is not None:
                place = "/ids" if self.id == _ID else "/id"
            raise Invalid.at(
                place,
                "an array of numbers has no place for this; ask for JSON or a table",
            )


NOTHING = Carried()


def carried_of_ids(
    ids: list[Any] | None, instances: Sequence[Any] | np.ndarray
) -> Carried:
    """The ids of a JSON body, one for each instance; Invalid at or below /ids."""
    if ids is None:
        return NOTHING
    reject(
        Flaw(
            pointer("ids", i),
            f"an id is an integer, or text of at most {MAX_ID} characters",
        )
        for i, id_ in enumerate(ids)
        if type(id_) is not int and not (type(id_) is str and len(id_) <= MAX_ID)
    )
    if len(ids) != len(instances):
        raise Invalid.at(
            "/ids", f"there are {len(ids):,} ids for {len(instances):,} instances"
        )
    return Carried(_ID, {_ID: ids})


def _listed(column: Any) -> list[Any]:
    """Values as JSON has them: dates and decimals are text."""
    if isinstance(column, list):
        return column
    as_text = str(column.type).startswith(("decimal", "date", "timestamp"))
    return list((column.cast("string") if as_text else column).to_pylist())


class Rows(NamedTuple):
    """Instances as the model's schema encodes them, X (n, m), or probabilities (n, K) in their
    place, and the columns that come back with the answer (`carried`).

    Rows that are `in_bounds` lack no value, and have none far outside of its range in training.
    Cells of the matrix read the `columns`, which are no features; those `beside` the instances have
    a field of their own. JSON `instances` are kept as they were sent. The place of a value begins
    with `root`.
    """

    X: np.ndarray
    warnings: list[str]
    instances: Sequence[Any] | None = None
    in_bounds: bool = False
    columns: Columns = NO_COLUMNS
    beside: Collection[str] = ()
    root: str = ""
    carried: Carried = NOTHING

    def apart(self, names: Sequence[str]) -> Rows:
        """These rows with the last columns of X, which have these names, as `columns`."""
        if not names:
            return self
        m = self.X.shape[1] - len(names)
        columns = dict(zip(names, self.X[:, m:].T, strict=True))
        return self._replace(X=np.ascontiguousarray(self.X[:, :m]), columns=columns)

    def place(self, schema: Schema, i: int, name: str) -> str:
        """The place of the value that instance i has in a column."""
        if name in self.beside:
            return pointer("columns", name, i)
        by_position = name in schema.names and (
            self.instances is None or type(self.instances[i]) is list
        )
        return self.root + pointer(i, schema.names.index(name) if by_position else name)

    def texts(self, schema: Schema) -> list[str]:
        """Each instance as JSON, by feature name."""
        if self.instances is None:
            return texts_of_rows(self.X, schema, self.columns)
        return texts_of_json(self.instances, schema, self.columns)


def texts_of_json(
    instances: Sequence[Any], schema: Schema, more: Columns = NO_COLUMNS
) -> list[str]:
    """Each instance as JSON by feature name, with the values that were sent, and `more` columns."""
    names = schema.names
    return _texts(
        [
            [instance[name] for name in names] if type(instance) is dict else instance
            for instance in instances
        ],
        schema,
        more,
    )


def texts_of_rows(
    X: np.ndarray, schema: Schema, more: Columns = NO_COLUMNS
) -> list[str]:
    """Each encoded row as JSON by feature name, without categories that were not in training."""
    columns: list[list[Any]] = X.T.tolist()
    for j in schema.categorical:
        words = schema.features[j].categories
        columns[j] = [
            None if math.isnan(code) else words[int(code)] for code in columns[j]
        ]
    return _texts(list(zip(*columns, strict=True)), schema, more)


def _texts(rows: Sequence[Sequence[Any]], schema: Schema, more: Columns) -> list[str]:
    names = (*schema.names, *more)
    extra = np.empty((len(rows), 0)) if not more else np.column_stack([*more.values()])
    both = zip(rows, extra.tolist(), strict=True)
    return [
        orjson.dumps(dict(zip(names, (*row, *values), strict=True))).decode()
        for row, values in both
    ]


class RowPacker:
    """Packs a few instances of one model whose numbers are within the bounds of those in training.

    Use `Loaded.once(RowPacker)`.
    """

    def __init__(self, model: Loaded) -> None:
        self._schema = model.schema
        self._bounds: tuple[list[float], list[float]] | None = None
        is_numeric = (
            not model.schema.categorical and bool(model.classes) and model.inline
        )
        if is_numeric and np.abs(model.bounds).max() < _MAX_PACKED_VALUE:
            self._bounds = (model.bounds[0].tolist(), model.bounds[1].tolist())
            # Packing takes half the time of `np.array`.
            self._pack = struct.Struct(f"{len(model.schema.names)}d").pack_into
            self.posterior = getattr(
                model.estimator, "plain_posterior", model.estimator.posterior
            )

    def rows(self, instances: Sequence[Any]) -> np.ndarray | None:
        """Instances without booleans as rows (n, m) for `posterior`.

        None where a value is outside of the bounds, missing or no number, or where there are many.
        """
        if self._bounds is None or not 1 <= len(instances) <= _MAX_PACKED_ROWS:
            return None
        if len(instances) > 1 and len(set(map(type, instances))) > 1:
            return None
        least, greatest = self._bounds
        width = 8 * len(least)
        packed = bytearray(width * len(instances))
        for i, instance in enumerate(instances):
            values = (
                instance if type(instance) is list else self._schema.in_order(instance)
            )
            if values is None:
                return None
            try:
                if any(map(gt, least, values)) or any(map(lt, greatest, values)):
                    return None
                self._pack(packed, width * i, *values)
            # There is a null, text, a list, a huge integer, or a value too many or too few.
            except (TypeError, struct.error, OverflowError):
                return None
        return np.ndarray((len(instances), len(least)), buffer=packed)


def encode_instances(
    model: Loaded,
    instances: Any,
    columns: Collection[str],
    *,
    has_booleans: bool,
    ignored: Collection[str] = (),
) -> Rows:
    """The rows of instances, of which some may be booleans, with those of the columns that are no
    features. Objects may have the `ignored` members. Invalid below /instances.
    """
    packed = None if has_booleans else model.once(RowPacker).rows(instances)
    if packed is not None:
        return Rows(packed, [], instances, in_bounds=True, root=_INSTANCES)
    first_names = (
        instances[0] if columns and instances and type(instances[0]) is dict else ()
    )
    extra = [
        name
        for name in columns
        if name in first_names and name not in model.schema.names
    ]
    schema = model.schema.with_numbers(extra).with_ignored(ignored)
    with below(_INSTANCES):
        X, warnings = schema.encode(instances, booleans_possible=has_booleans)
    return Rows(X, warnings, instances, root=_INSTANCES).apart(extra)
