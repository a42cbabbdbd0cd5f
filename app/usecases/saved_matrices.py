"""Benefit matrices that are saved for a model, and requests that name one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import orjson
from sqlalchemy import Connection

from app.access.caller import Caller
from app.errors import Conflict, Flaw, Invalid, NotFound
from app.registry.saved_matrices import Saved, unsaved
from app.usecases.matrices import HasMatrix, MatrixFields, check_few_actions, needed_matrix
from app.usecases.ports import Ports

_MOST_BYTES = 256_000  # of a matrix: one of 100 classes and 100 actions with short names

_Sent = TypeVar("_Sent", bound=MatrixFields)


def save(ports: Ports, model: str, matrix: str, sent: HasMatrix, *, by: Caller) -> Saved:
    """Save the matrix as a new version, or the newest one where it is equal.

    NotFound for an unknown model, Invalid with the place where the matrix does not fit the classes of its latest
    version, Conflict where there is no room, or the model has no versions.
    """
    versions = ports.registry.model(model).versions
    if not versions:
        raise Conflict(f"{model!r} has no versions, and so no classes for a matrix")
    card = ports.registry.card(model, versions[0].version)
    if card.classes is None or card.classes == card.labels:
        raise Invalid.at("", f"{model!r} decides by no matrix: it predicts numbers, or several labels")
    content = _content(sent, card.classes)

    def also(connection: Connection, saved: Saved) -> None:
        ports.audit.entry(by, "matrix.save", f"{model}/{matrix}", version=saved.version)(connection)

    return ports.matrices.save(model, matrix, content, by.name, also)


def _content(sent: HasMatrix, classes: Sequence[object]) -> bytes:
    """The matrix as JSON; Invalid with the place where it is larger than a decision needs.

    A request that names it is short, and the answer has each action's name, and its expected benefit for each row.
    """
    words, actions = _in_words(sent, classes)
    check_few_actions(sent, len(next(iter(words.values()))))
    content = orjson.dumps((words, actions))
    if len(content) > _MOST_BYTES:
        what = f"in words the matrix takes {len(content):,} bytes as JSON; a saved one may take {_MOST_BYTES:,}"
        raise Invalid.at(sent.place, f"{what}: shorten the names of its actions, or send it with each request")
    return content


def _in_words(sent: HasMatrix, classes: Sequence[object]) -> tuple[dict[str, dict[str, float]], Sequence[str] | None]:
    """The matrix as `{class: {action: number}}`, the actions in the order of the request, and these where it has them.

    Without them the columns of words have an order only for a version's classes.
    """
    stakes = needed_matrix(sent, classes, named=True)
    names = [str(name) for name in classes]
    columns = list(stakes.actions or names)
    value = sent.benefits if sent.cost_matrix is None else sent.cost_matrix
    order = list(next(iter(value.values()))) if isinstance(value, dict) and sent.actions is None else columns
    rows = [dict(zip(columns, row, strict=True)) for row in stakes.benefits.tolist()]
    words = {name: {action: row[action] for action in order} for name, row in zip(names, rows, strict=True)}
    return words, sent.actions


def newest(ports: Ports, model: str) -> list[tuple[Saved, int]]:
    """The newest version of each matrix, by name, and how many there are."""
    known = ports.matrices.read(model)
    counts = Counter(saved.matrix for reference, saved in known.items() if reference == saved.reference)
    return [(known[name], counts[name]) for name in sorted(counts)]


def describe(ports: Ports, model: str, reference: str) -> tuple[Saved, list[int]]:
    """The matrix that `name` (the newest) or `name:2` means, and the numbers of all its versions; else NotFound."""
    known = ports.matrices.read(model)
    if reference not in known:
        raise NotFound(unsaved(model, reference, known))
    saved = known[reference]
    own = (each for key, each in known.items() if key == each.reference and each.matrix == saved.matrix)
    return saved, [each.version for each in own]


def delete(ports: Ports, model: str, matrix: str, *, by: Caller) -> None:
    """All versions of it; NotFound where there is none."""
    ports.matrices.delete(model, matrix, ports.audit.entry(by, "matrix.delete", f"{model}/{matrix}"))


def meant(ports: Ports, sent: _Sent, model: str, classes: Sequence[object] | None) -> tuple[_Sent, Saved | None]:
    """The request with the matrix that it names by text, and that matrix; the request itself where it names none.

    No input or output. Invalid with the place where there is no such matrix, where it has other `classes` than the
    model's version, and where the request says more about it. Models without `classes` refuse all matrices.
    """
    reference = sent.benefits
    if not isinstance(reference, str) or not classes:
        return sent, None
    if sent.cost_matrix is not None:
        raise Invalid.at("/cost_matrix", "send benefits or cost_matrix, not both")
    if sent.actions is not None:
        raise Invalid.at("/actions", "a saved matrix has its own actions; leave out 'actions'")
    known = ports.matrices.of(model)
    saved = known.get(reference)
    if saved is None:
        raise Invalid.at("/benefits", unsaved(model, reference, known))
    checked, actions = saved.checked
    _check_classes(saved, checked.classes, [str(name) for name in classes])
    return sent.model_copy(update={"benefits": checked, "actions": actions}), saved


def _check_classes(saved: Saved, of: Sequence[str], classes: Sequence[str]) -> None:
    own, saved_for = set(classes), set(of)
    missing = [name for name in classes if name not in saved_for]
    strange = [name for name in of if name not in own]
    if missing or strange:
        what = f"has no class {missing[0]!r}" if missing else f"has the class {strange[0]!r}"
        which = "which this version of the model has" if missing else "which this version of the model does not have"
        fix = f"save the matrix of its classes with PUT /models/{saved.model}/matrices/{saved.matrix}"
        raise Invalid.at("/benefits", f"the saved matrix {saved.reference!r} {what}, {which}; {fix}")


@contextmanager
def as_named(saved: Saved | None) -> Iterator[None]:
    """Errors about parts of the `saved` matrix stand where the request names it."""
    try:
        yield
    except Invalid as error:
        if saved is None:
            raise
        inside, what = ("/benefits/", "/actions"), f"the saved matrix {saved.reference!r}"
        places = [Flaw("/benefits", f"{what}: {f.msg}") if f.loc.startswith(inside) else f for f in error.flaws]
        raise Invalid(error.detail, places) from error
