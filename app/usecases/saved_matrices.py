"""Benefit matrices that are saved for a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import orjson
from sqlalchemy import Connection

from app.access.caller import Caller
from app.errors import Conflict, Invalid, NotFound
from app.registry.saved_matrices import Saved, unsaved
from app.usecases.matrices import HasMatrix, check_few_actions, needed_matrix
from app.usecases.ports import Ports

_MOST_BYTES = 256_000  # of a matrix: one of 100 classes and 100 actions with short names


def save(ports: Ports, model: str, matrix: str, sent: HasMatrix, *, by: Caller) -> Saved:
    """Save the matrix as a new version, or the newest one where it is equal.

    NotFound for an unknown model, Invalid with the place where the matrix does not fit the classes of its latest
    version, Conflict where there is no room, or the model has no versions.
    """
    versions = ports.registry.index.model(model).versions
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
