"""Rows that come with a request or a data set: probabilities in place of a model, and labels that tell the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from app.access.caller import Caller
from app.data.dataset import Table
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
    labels, n = order.labels, len(order.rows)
    y = _labels_of_numbers(labels) if model.regression else class_codes(labels, model.classes, n)
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


def class_codes(labels: Sequence[Any], classes: Sequence[int | str], n: int, rows: str = "probabilities") -> np.ndarray:
    """The codes (n,) of labels as sent, one for each of n rows; Invalid at or below /labels.

    A label has the type of its class: "1" is not 1.
    """
    if len(labels) != n:
        raise Invalid.at("/labels", f"{len(labels)} labels for {n} rows of {rows}")
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


def _labels_of_numbers(labels: Sequence[Any]) -> np.ndarray:
    reject(
        Flaw(pointer("labels", i), "a label is a number here, as this model predicts numbers")
        for i, label in enumerate(labels)
        if isinstance(label, bool) or not isinstance(label, int | float) or not is_float(label)
    )
    return np.array(labels, dtype=np.float64)


TOLERANCE = 1e-6  # of a sum: probabilities of 32 bits, of many classes, stay within


def as_probabilities(value: Any, classes: Sequence[int | str], *, normalize: bool = False) -> np.ndarray:
    """Probabilities float64 (n, K) of `classes` that exclude one another.

    Lists, or an array, of numbers of at least 0 whose rows sum to 1, or, with `normalize`, to anything more than 0;
    Invalid with the place of each flaw below /classes and /probabilities. O(n K).
    """
    check_class_names(classes)
    P = _as_array(value, len(classes))
    if P.shape[1:] != (len(classes),):
        raise Invalid.at("/probabilities", f"each row has {P.shape[1]} numbers, and there are {len(classes)} classes")
    with np.errstate(over="ignore"):
        sums = P.sum(axis=1)
    least = P.min(axis=1, initial=0.0)
    reject(_wrong_numbers(P, np.flatnonzero(~(np.isfinite(sums) & (least >= 0)))))
    if normalize:
        reject(_wrong_sums(sums, ~((sums > 0) & np.isfinite(sums)), "cannot be normalized"))
        return np.asarray(P / sums[:, None])
    reject(_wrong_sums(sums, np.abs(sums - 1) > TOLERANCE, "must sum to 1; or send 'normalize': true"))
    return P


def check_class_names(classes: Sequence[int | str]) -> None:
    """Invalid where two have the same name: 1 and "1" do."""
    if len(set(map(str, classes))) < len(classes):
        raise Invalid.at("/classes", "two classes have the same name")


def _as_array(value: Any, n_classes: int) -> np.ndarray:
    if isinstance(value, np.ndarray):
        if value.ndim != 2:
            raise Invalid.at("/probabilities", f"the shape is {list(value.shape)}; it must be [n, {n_classes}]")
        return np.ascontiguousarray(value)  # what JSON is written from
    if not isinstance(value, list):
        raise Invalid.at("/probabilities", "probabilities are a list of rows, one per instance")
    hint = ": [1 - p, p]" if n_classes == 2 else ""
    reject(
        Flaw(pointer("probabilities", i), f"a row is a list of {n_classes} numbers, one per class{hint}")
        for i, row in enumerate(value)
        if not isinstance(row, list) or len(row) != n_classes
    )
    reject(
        Flaw(pointer("probabilities", i, k), "a probability is a number")
        for i, row in enumerate(value)
        if not {float, int}.issuperset(map(type, row))
        for k, number in enumerate(row)
        if type(number) not in (float, int)
    )
    return np.array(value, dtype=np.float64).reshape(len(value), n_classes)


def _wrong_numbers(P: np.ndarray, rows: np.ndarray) -> Iterator[Flaw]:
    for i in rows:
        for k in np.flatnonzero(~(P[i] >= 0) | np.isinf(P[i])):
            yield Flaw(pointer("probabilities", i, k), "a probability is a finite number of at least 0")


def _wrong_sums(sums: np.ndarray, wrong: np.ndarray, rest: str) -> Iterator[Flaw]:
    for i in np.flatnonzero(wrong):
        yield Flaw(pointer("probabilities", i), f"these sum to {sums[i]:.6g}, and {rest}")
