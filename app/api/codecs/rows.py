"""Rows of features in requests, as the matrix that a model takes: from JSON, NumPy arrays and tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.api.codecs.carried import NOTHING, Carried, without
from app.api.codecs.npy import array_of_npy
from app.api.codecs.tables import Sheet, Words
from app.api.gate import Reserve
from app.errors import Flaw, Invalid, pointer, reject
from app.features import Schema
from app.registry.loaded import Loaded
from app.usecases.predict import Rows, Usual


def rows_of_json(instances: list[Any], model: Loaded, *, booleans_possible: bool, carried: Carried = NOTHING) -> Rows:
    """Instances as parsed, encoded; places below /instances."""
    if carried.columns:
        instances = without(instances, carried, model.schema.names)
    if not booleans_possible and (usual := model.once(Usual).rows(instances)) is not None:
        return Rows(usual, [], instances, usual=True)
    try:
        return Rows(*model.schema.encode(instances, booleans_possible=booleans_possible), instances)
    except Invalid as error:
        raise error.under("/instances") from error


def rows_of_npy(body: bytes | bytearray, schema: Schema, reserve: Reserve) -> Rows:
    """A .npy file of numbers (n, m), rows in feature order, NaN where missing. Never unpickles."""
    if schema.categorical:
        raise Invalid.at(
            "", "the model has categorical features, which an array of numbers cannot contain; send JSON or Arrow"
        )
    X = array_of_npy(body, reserve)
    if X.ndim != 2 or X.shape[1] != len(schema.names):
        raise Invalid.at("", f"the shape of the array is {list(X.shape)}; it must be [n, {len(schema.names)}]")
    return Rows(finite(np.ascontiguousarray(X)), [])


def rows_of_sheet(sheet: Sheet, schema: Schema) -> tuple[Rows, Carried]:
    """A table with a column for each feature, by name, in any order, null or empty where missing; what comes back."""
    from app.api.codecs.columns import rows_of_table  # noqa: PLC0415 - with pyarrow

    table, carried = sheet.read(numeric_names(schema), schema.names, categories_of(schema))
    return rows_of_table(table, schema), carried


def numeric_names(schema: Schema) -> set[str]:
    """The features that are numbers."""
    return {feature.name for feature in schema.features if feature.type == "numeric"}


def categories_of(schema: Schema) -> Words:
    """The categories of the features that have any."""
    return {feature.name: feature.categories for feature in schema.features if feature.type == "categorical"}


def finite(X: np.ndarray, under: str = "") -> np.ndarray:
    """`X`; Invalid below `under` at each infinite number."""
    infinite = np.isinf(X)
    if infinite.any():
        message = "infinity is not allowed; use NaN or null for a missing value"
        reject(Flaw(under + pointer(i, j), message) for i, j in np.argwhere(infinite))
    return X
