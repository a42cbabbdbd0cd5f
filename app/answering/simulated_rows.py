"""Rows with labels on which questions are simulated: those of a request, or of a data set."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from app.registry.loaded import Loaded
from app.requests.labelled_rows import class_codes
from app.tables.dataset import Table
from app.tables.features import is_float
from payoff.decisions.case_benefits import Columns
from payoff.errors import Flaw, Invalid, below, pointer, reject


class SimulatedRows(NamedTuple):
    """Rows X (n, m), class codes or numbers y (n,), and `missing` (n, m): what cannot be had."""

    X: np.ndarray
    y: np.ndarray
    missing: np.ndarray


def rows_of_request(
    model: Loaded, instances: Sequence[Any], labels: Sequence[Any]
) -> tuple[SimulatedRows, list[str]]:
    """Complete rows with their labels, and warnings; Invalid below /rows and /labels."""
    n = len(instances)
    if n != len(labels) or not n:
        raise Invalid.at(
            "/labels", f"{len(labels)} labels for {n} rows; each row has one"
        )
    with below("/rows"):
        X, warnings = model.schema.encode(instances)
    y = (
        _labels_of_numbers(labels)
        if model.regression
        else class_codes(labels, model.classes, n)
    )
    missing = np.isnan(X)
    # A category that is unknown to the model is NaN, too, but its value has been bought.
    for i, j in zip(*np.nonzero(missing), strict=True):
        row = instances[i]
        value = row.get(model.schema.names[j]) if isinstance(row, dict) else row[j]
        missing[i, j] = value is None
    return SimulatedRows(X, y, missing), list(warnings)


def rows_of_dataset(
    table: Table, model: Loaded
) -> tuple[SimulatedRows, Columns, list[str]]:
    """Rows of a data set for the model, its values that are no features, and warnings; Invalid at
    /dataset where it lacks a feature, or has other labels.
    """
    position = {feature.name: j for j, feature in enumerate(table.schema.features)}
    X = np.empty((len(table.X), len(model.schema.names)))
    missing = np.ones(X.shape, dtype=bool)
    flaws = []
    for j, feature in enumerate(model.schema.features):
        place = position.get(feature.name)
        if place is None or table.schema.features[place].type != feature.type:
            flaws.append(
                Flaw(
                    "/dataset",
                    f"the model needs a {feature.type} feature {feature.name!r}",
                )
            )
            continue
        column = table.X[:, place]
        missing[:, j] = np.isnan(column)
        if feature.type == "categorical":
            categories = table.schema.features[place].categories
            column = _recoded(column, categories, feature.categories)
        X[:, j] = column
    y, flaw = _target(table, model)
    flaws += [] if flaw is None else [flaw]
    reject(flaws)
    # Whoever uploaded the data set, or sent it with the training request.
    was_fitted = model.card.data.digest == table.digest
    warnings = []
    if was_fitted:
        warnings.append("most of these rows were fitted: on new ones it will do worse")
    return SimulatedRows(X, y, missing), table.values, warnings


def _recoded(
    column: np.ndarray, categories: Sequence[str], model_categories: Sequence[str]
) -> np.ndarray:
    """The codes of a column (n,) in the model's categories; NaN where one is missing or unknown."""
    if categories == model_categories:
        return column
    code = {word: float(i) for i, word in enumerate(model_categories)}
    codes = np.array([*(code.get(word, np.nan) for word in categories), np.nan])
    recoded: np.ndarray = codes[np.where(np.isnan(column), -1, column).astype(np.intp)]
    return recoded


def _target(table: Table, model: Loaded) -> tuple[np.ndarray, Flaw | None]:
    """The labels as the model predicts them; or a flaw."""
    classes = table.classes
    if model.regression:
        if table.y.ndim == 1 and not isinstance((classes or (0,))[0], str):
            return table.as_numbers().y, None
        return table.y, Flaw(
            "/dataset", "its labels are not numbers, which this model predicts"
        )
    position = {name: i for i, name in enumerate(model.classes)}
    if classes is None or table.y.ndim != 1 or not set(classes) <= set(position):
        named = ", ".join(map(str, model.classes))
        return table.y, Flaw(
            "/dataset", f"its labels are not the model's classes: {named}"
        )
    return np.array([position[name] for name in classes])[table.y], None


def _labels_of_numbers(labels: Sequence[Any]) -> np.ndarray:
    reject(
        Flaw(
            pointer("labels", i),
            "a label is a number here, as this model predicts numbers",
        )
        for i, label in enumerate(labels)
        if isinstance(label, bool)
        or not isinstance(label, int | float)
        or not is_float(label)
    )
    return np.array(labels, dtype=np.float64)
