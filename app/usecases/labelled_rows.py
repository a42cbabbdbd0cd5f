"""Complete rows with their labels, as a model sees them: from a data set or from a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from app.access.caller import Caller
from app.data.table import Table
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.features import is_float
from app.registry.loaded import Loaded
from app.usecases.datasets import find_named
from app.usecases.ports import Ports

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]


class Labelled(Protocol):
    """Where the rows are, as sent: `dataset`, or `rows` with `labels`."""

    dataset: str | None
    rows: list[Any] | None
    labels: list[Any] | None


def labelled(ports: Ports, model: Loaded, order: Labelled, caller: Caller) -> Rows:
    """Complete rows (n, m) and class codes or numbers (n,) of the model, what is missing (n, m), and warnings."""
    if order.dataset is not None:
        found = find_named(ports, order.dataset, "/dataset", caller).id
        return _from_dataset(ports.datasets.table(found), model)
    assert order.rows is not None
    assert order.labels is not None
    if len(order.rows) != len(order.labels) or not order.rows:
        raise Invalid.at("/labels", f"{len(order.labels)} labels for {len(order.rows)} rows; each row has one")
    try:
        X, warnings = model.schema.encode(order.rows)
    except Invalid as error:
        raise error.under("/rows") from error
    y = _numbers(order.labels) if model.regression else class_codes(order.labels, model.classes)
    missing = np.isnan(X)
    for i, j in zip(*np.nonzero(missing), strict=True):  # a word that training never saw has been bought
        row = order.rows[i]
        missing[i, j] = (row.get(model.schema.names[j]) if isinstance(row, dict) else row[j]) is None
    return X, y, missing, list(warnings)


def _from_dataset(table: Table, model: Loaded) -> Rows:
    there = {feature.name: (j, feature) for j, feature in enumerate(table.schema.features)}
    X = np.empty((len(table.X), len(model.schema.names)))
    missing = np.ones(X.shape, dtype=bool)
    flaws = []
    for j, feature in enumerate(model.schema.features):
        if feature.name not in there or there[feature.name][1].type != feature.type:
            flaws.append(Flaw("/dataset", f"the model needs a {feature.type} feature {feature.name!r}"))
            continue
        place, other = there[feature.name]
        X[:, j] = table.X[:, place]
        missing[:, j] = np.isnan(X[:, j])
        if feature.type == "categorical" and other.categories != feature.categories:
            code = {word: float(i) for i, word in enumerate(feature.categories)}
            codes = np.array([*(code.get(word, np.nan) for word in other.categories), np.nan])
            X[:, j] = codes[np.where(np.isnan(table.X[:, place]), -1, table.X[:, place]).astype(np.intp)]
    y, flaw = _target(table, model)
    flaws += [] if flaw is None else [flaw]
    reject(flaws)
    seen = model.card.data.digest == table.digest  # whoever uploaded it, or sent it with the order
    return X, y, missing, ["most of these rows were fitted: on new ones it will do worse"] if seen else []


def _target(table: Table, model: Loaded) -> tuple[np.ndarray, Flaw | None]:
    """The labels as the model predicts them; or why they are not."""
    classes = table.classes
    if model.regression:
        if table.y.ndim == 1 and not isinstance((classes or (0,))[0], str):
            return table.as_numbers().y, None
        return table.y, Flaw("/dataset", "its labels are not numbers, which this model predicts")
    position = {name: i for i, name in enumerate(model.classes)}
    if classes is None or table.y.ndim != 1 or not set(classes) <= set(position):
        named = ", ".join(map(str, model.classes))
        return table.y, Flaw("/dataset", f"its labels are not the model's classes: {named}")
    return np.array([position[name] for name in classes])[table.y], None


def class_codes(labels: Sequence[Any], classes: Sequence[int | str]) -> np.ndarray:
    """The codes (n,) of labels as sent; Invalid below /labels. A label has the type of its class: "1" is not 1."""
    codes = {(type(name), name): code for code, name in enumerate(classes)}
    names = [str(name) for name in classes]
    reject(
        Flaw(pointer("labels", i), _not_a_class(label, names))
        for i, label in enumerate(labels)
        if not isinstance(label, str | int) or (type(label), label) not in codes
    )
    return np.array([codes[type(label), label] for label in labels], dtype=np.intp)


def _not_a_class(label: Any, names: Sequence[str]) -> str:
    if str(label) in names:
        return f"label {label!r} has another type than its class; integer classes are integers, others are strings"
    return unknown("class", label, names)


def _numbers(labels: Sequence[Any]) -> np.ndarray:
    reject(
        Flaw(pointer("labels", i), "a label is a number here, as this model predicts numbers")
        for i, label in enumerate(labels)
        if isinstance(label, bool) or not isinstance(label, int | float) or not is_float(label)
    )
    return np.array(labels, dtype=np.float64)
