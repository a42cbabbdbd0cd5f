"""The benefit matrices that are saved for a model, by name and version."""

from collections.abc import Sequence
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection

from app.access.caller import Caller
from app.errors import Conflict
from app.registry.saved_documents import Kind, Saved, unsaved
from app.requests.matrices import (
    MATRIX_REQUIRED,
    MatrixFields,
    check_few_actions,
    named_matrix,
)
from app.stores import Stores
from payoff.errors import Invalid

# of a saved matrix: 100 classes and 100 actions with short names
_MAX_SAVED_BYTES = 256_000

_Fields = TypeVar("_Fields", bound=MatrixFields)


def with_saved(
    stores: Stores, fields: _Fields, model: str, classes: Sequence[object] | None
) -> _Fields:
    """The fields with the saved matrix in place of its name; the fields themselves without one.

    It reads memory alone. Invalid with the place where there is no such matrix, where it has other
    `classes` than the model's version, and where the request says more about it. Models without
    `classes` refuse all matrices.
    """
    reference = fields.benefits
    if not isinstance(reference, str) or not classes:
        return fields
    if fields.actions is not None:
        raise Invalid.at(
            "/actions", "a saved matrix has its own actions; leave out 'actions'"
        )
    known = stores.documents.of(model, "matrix")
    if reference not in known:
        raise Invalid.at("/benefits", unsaved(model, "matrix", reference, known))
    saved = known[reference]
    words, actions = saved.document
    names = [str(name) for name in classes]
    different = [
        name for name in (*names, *words) if name not in words or name not in names
    ]
    if different:
        raise Invalid.at(
            "/benefits",
            f"the saved matrix {saved.reference!r} and this version of the model differ in the"
            f" class {different[0]!r}; save the matrix of its classes with"
            f" PUT /models/{saved.model}/matrices/{saved.name}",
        )
    stated: dict[str, Any] = {
        "benefits": words,
        "actions": actions,
        "saved": saved.reference,
    }
    if b'"column"' not in saved.content:  # faster than a look at each cell
        stated["case_columns"] = frozenset()
    return fields.model_copy(update=stated)


def save(
    stores: Stores, model: str, matrix: str, fields: MatrixFields, *, by: Caller
) -> Saved:
    """Save the matrix as a new version, or the newest one where it is equal.

    NotFound for an unknown model, Invalid with the place where the matrix does not fit the classes
    of its latest version, Conflict where there is no room, or the model has no versions.
    """
    versions = stores.registry.index.model(model).versions
    if not versions:
        raise Conflict(f"{model!r} has no versions, and so no classes for a matrix")
    card = stores.registry.index.card(model, versions[0].version)
    if card.classes is None or not card.has_classes:
        raise Invalid.at(
            "",
            f"{model!r} decides by no matrix: it predicts numbers, or several labels",
        )
    content = content_of(fields, card.classes)

    return save_document(stores, (model, "matrix", matrix), content, by=by)


def save_document(
    stores: Stores, place: tuple[str, Kind, str], content: bytes, *, by: Caller
) -> Saved:
    """Save a document at its place, the model, kind and name, with an audit entry."""
    model, kind, name = place

    def write_audit(connection: Connection, saved: Saved) -> None:
        write = stores.audit.entry(
            by, f"{kind}.save", f"{model}/{name}", version=saved.version
        )
        write(connection)

    return stores.documents.save(*place, content, key_name=by.name, also=write_audit)


def content_of(fields: MatrixFields, classes: Sequence[object]) -> bytes:
    """The matrix as JSON: `{class: {action: cell}}` in the request's order, and its `actions`.

    The actions are null where the request has none: each version orders the columns by its classes.
    Invalid with the place where it is larger than a decision needs: a request that names it is
    short, but its answer has each action's name, and its expected benefit for each row.
    """
    names = [str(name) for name in classes]
    stakes = named_matrix(fields, names)
    if stakes is None:
        raise Invalid.at("/benefits", MATRIX_REQUIRED)
    columns = list(map(str, stakes.actions))
    check_few_actions(fields, len(columns))
    cells = stakes.benefits.tolist() if stakes.cases is None else stakes.cases.cells()
    by_words = isinstance(fields.matrix, dict) and fields.actions is None
    order = list(next(iter(fields.matrix.values()))) if by_words else columns
    rows = [dict(zip(columns, row, strict=True)) for row in cells]
    words = {
        name: {action: row[action] for action in order}
        for name, row in zip(names, rows, strict=True)
    }
    content = orjson.dumps((words, fields.actions))
    if len(content) > _MAX_SAVED_BYTES:
        raise Invalid.at(
            fields.place,
            f"in words the matrix takes {len(content):,} bytes as JSON; a saved one may take"
            f" {_MAX_SAVED_BYTES:,}: shorten the names of its actions, or send it with each"
            " request",
        )
    return content


def delete(stores: Stores, model: str, kind: Kind, name: str, *, by: Caller) -> None:
    """Delete all versions of a saved document; NotFound where there is none."""
    entry = stores.audit.entry(by, f"{kind}.delete", f"{model}/{name}")
    stores.documents.delete(model, kind, name, entry)
