"""Bodies of `/predict` in all formats, decoded as far as possible without the model."""

from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson
from fastapi import Request

from app.answering.predict import (
    PredictFields,
    PredictQuestion,
    PredictRequest,
    check_source,
)
from app.api.bodies import checked, read_query, refuse_query
from app.api.codecs.json import INLINE_BYTES, document_of, measured, split
from app.api.codecs.media_types import NPY
from app.api.codecs.npy import array_of_npy, rows_of_npy
from app.api.codecs.tables import DIALECT_FIELDS, Sheet, TableFields
from app.api.exchange import charge_of
from app.api.memory import Charge
from app.registry.loaded import Loaded
from app.requests.guarantees import with_guarantee
from app.requests.labelled_rows import as_probabilities
from app.requests.matrices import columns_beside
from app.requests.rows import NOTHING, Carried, Rows, carried_of_ids, encode_instances
from app.requests.saved_matrices import with_saved
from app.requests.strange_values import strange_values
from app.stores import Stores
from payoff.errors import Invalid

_MAX_KEY = 2_000  # bytes of fields that are not checked again
_TEXT_FIELDS = ("model", "rule", "id", "keep", *DIALECT_FIELDS)


class PredictTable(PredictFields, TableFields):
    """The fields of a request beside a table, and how that is to be read."""


class PredictBody(Protocol):
    """The fields of a request, and its rows once the model is there.

    Bodies with the same `key` have the same fields.
    """

    @property
    def fields(self) -> PredictFields: ...

    @property
    def key(self) -> bytes | None: ...

    def rows(self, model: Loaded | None, columns: Collection[str]) -> Rows:
        """The rows for the model of the fields, with those of the columns that are no features."""


class JsonInstances(NamedTuple):
    """Instances as JSON, of which some may be booleans, and their ids."""

    fields: PredictFields
    instances: Any
    has_booleans: bool = True
    carried: Carried = NOTHING
    key: bytes | None = None

    def rows(self, model: Loaded | None, columns: Collection[str]) -> Rows:
        assert model is not None
        rows = encode_instances(
            model,
            self.instances,
            columns,
            has_booleans=self.has_booleans,
            ignored=self.fields.segments,
        )
        return rows if self.carried is NOTHING else rows._replace(carried=self.carried)


class JsonNumbers(NamedTuple):
    """Instances that were read from JSON as numbers (n, m)."""

    fields: PredictFields
    X: np.ndarray
    key: None = None

    def rows(self, model: Loaded | None, columns: Collection[str]) -> Rows:
        assert model is not None
        if not model.schema.categorical and self.X.shape[1] == len(model.schema.names):
            return Rows(self.X, [], root="/instances")
        return encode_instances(model, self.X.tolist(), columns, has_booleans=False)


class NpyInstances(NamedTuple):
    """Instances as a .npy file."""

    fields: PredictFields
    body: bytes
    charge: Charge
    key: None = None

    def rows(self, model: Loaded | None, columns: Collection[str]) -> Rows:
        del columns  # an array has none
        assert model is not None
        return rows_of_npy(self.body, model.schema, self.charge)


class TableInstances(NamedTuple):
    """Instances as a table."""

    fields: PredictTable
    sheet: Sheet
    key: None = None

    def rows(self, model: Loaded | None, columns: Collection[str]) -> Rows:
        assert model is not None
        return self.sheet.rows(model.schema, columns)


class GivenProbabilities(NamedTuple):
    """Probabilities P (n, K) of `fields.classes` in place of a model and instances."""

    fields: PredictFields
    P: np.ndarray
    carried: Carried = NOTHING
    key: None = None

    def rows(self, model: Loaded | None, columns: Collection[str]) -> Rows:
        del model, columns
        return Rows(self.P, [], carried=self.carried)


def key_of(document: dict[str, Any]) -> bytes | None:
    """A key of all fields but `instances`: their JSON, in which 1, 1.0, true and -0.0 differ.

    None where it is long, or has ids or columns: no other request has the same, and they are not to
    be kept in memory.
    """
    if (
        "ids" in document
        or "columns" in document
        or isinstance(document.get("record"), dict)
    ):
        return None
    fields = document.copy()
    del fields["instances"]
    try:
        key = orjson.dumps(fields)
    except orjson.JSONEncodeError:  # nested too deep
        return None
    return key if len(key) <= _MAX_KEY else None


def predict_body(request: Request, text: bytes) -> PredictBody:
    """A JSON body, charged for before it is parsed. O(size)."""
    refuse_query(request)
    measured(text, charge_of(request))
    numbers = _body_of_numbers(text) if len(text) > INLINE_BYTES else None
    return body_of_document(document_of(text), text) if numbers is None else numbers


def body_of_document(document: Any, text: bytes) -> PredictBody:
    """The document of a JSON body, of which `text` is the text; Invalid where it does not fit."""
    instances: Any = document.get("instances") if isinstance(document, dict) else None
    key = key_of(document) if isinstance(instances, list) else None
    has_instances = instances is not None
    fields = (
        _fields_of_key(key)
        if key
        else _checked_fields(document, instances=has_instances)
    )
    if fields.probabilities is not None:
        P = as_probabilities(fields.probabilities, fields.classes or ())
        return GivenProbabilities(fields, P, carried_of_ids(fields.ids, P))
    carried = NOTHING if fields.ids is None else carried_of_ids(fields.ids, instances)
    has_booleans = b"true" in text or b"false" in text
    return JsonInstances(fields, instances, has_booleans, carried, key)


@lru_cache(maxsize=256)
def _fields_of_key(key: bytes) -> PredictRequest:
    """The fields as checked before: but for the instances most requests to a model are the same."""
    return _checked_fields(orjson.loads(key), instances=True)


def _checked_fields(document: Any, *, instances: bool) -> PredictRequest:
    fields = checked(PredictRequest, document)
    check_source(
        fields, probabilities=fields.probabilities is not None, instances=instances
    )
    return fields


def _body_of_numbers(text: bytes) -> JsonNumbers | None:
    """A long JSON body whose instances are numbers; None for all other bodies, and for errors."""
    parts = split(text)
    if parts is None:
        return None
    try:
        fields = _checked_fields(parts.fields, instances=True)
    except Invalid:
        return None
    return None if fields.ids is not None else JsonNumbers(fields, parts.rows)


def body_of_columns(request: Request, kind: str, body: bytes) -> PredictBody:
    """A NumPy array or a table, the other fields being query parameters."""
    charge = charge_of(request)
    if kind != NPY:
        table = read_query(request, PredictTable, _TEXT_FIELDS)
        check_source(table, probabilities=False, instances=True)
        return TableInstances(table, Sheet(kind, body, table, charge))
    fields = read_query(request, PredictFields, _TEXT_FIELDS)
    has_classes = fields.classes is not None
    check_source(fields, probabilities=has_classes, instances=not has_classes)
    if fields.classes is None:
        return NpyInstances(fields, body, charge)
    return GivenProbabilities(
        fields, as_probabilities(array_of_npy(body, charge), fields.classes)
    )


def question_of(
    body: PredictBody, model: Loaded | None, stores: Stores
) -> PredictQuestion:
    """The question of a body: its rows for the model, and the saved matrix that it names."""
    fields = body.fields
    key = body.key
    if model is not None and not model.rewarded:
        if isinstance(fields.benefits, str) and not model.multilabel:
            fields = with_saved(stores, fields, model.name, model.classes)
            if key is not None and fields.saved is not None:
                key += fields.saved.encode()  # a version of a matrix never changes
        if fields.guarantee is not None:
            fields = with_guarantee(stores, fields, model)
            if key is not None and fields.certified is not None:
                key += fields.certified.name.encode()
    rows = body.rows(model, fields.case_columns)
    if fields.columns is not None:
        known = {*rows.columns, *(() if model is None else model.schema.names)}
        beside = columns_beside(fields.columns, len(rows.X), fields.case_columns, known)
        rows = rows._replace(columns={**rows.columns, **beside}, beside=beside)
    if model is not None and not rows.in_bounds:
        rows.warnings.extend(strange_values(model, rows.X))
    return PredictQuestion(fields, rows, key)
