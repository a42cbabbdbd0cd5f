"""Known values of cases as the rows of a table, and where the cases stand as another. Import it where it is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from app.api.codecs.carried import Carried
from app.api.codecs.columns import check_types, flaws_of_names
from app.api.codecs.rows import categories_of, numeric_names
from app.api.codecs.tables import Sheet
from app.api.gate import VALUE
from app.data.arrow_text import floats
from app.errors import Flaw, pointer, reject
from app.features import Schema
from app.usecases.matrices import Prepared


def cases_of_sheet(sheet: Sheet, schema: Schema) -> tuple[list[dict[str, Any]], Carried]:
    """The values that are not empty, by feature name in the order of the columns; a feature may have no column.

    Raises Invalid at the column, or what `Sheet.read` raises.
    """
    numbers = numeric_names(schema)
    table, carried = sheet.read(numbers, schema.names, categories_of(schema), VALUE)
    present = Counter(table.column_names)
    reject(flaws_of_names(present, schema.names, complete=False))
    check_types(table, schema, table.column_names)
    cases: list[dict[str, Any]] = [{} for _ in range(table.num_rows)]
    for name in table.column_names:
        values = (
            _numbers(table.column(name), name)
            if name in numbers
            else table.column(name).cast(pa.large_string()).to_pylist()
        )
        for case, value in zip(cases, values, strict=True):
            if value is not None:
                case[name] = value
    return cases, carried


def _numbers(column: pa.ChunkedArray, name: str) -> list[Any]:
    values = floats(column).to_numpy()
    message = "infinity is not allowed; leave it empty where the value is not known"
    reject(Flaw(pointer(i, name), message) for i in np.flatnonzero(np.isinf(values)))
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - NaN


def columns_of_states(
    documents: Iterable[Mapping[str, Any]], classes: Iterable[object], stakes: Prepared | None
) -> dict[str, Any]:
    """What `POST /acquire` says about each case, a column for each figure; the frontier is left out."""
    states = list(documents)
    nexts = [state["next"] or {} for state in states]
    columns: dict[str, Any] = {
        name: pa.array([state[name] for state in states], pa.string()) for name in ("status", "reason")
    }
    columns["next"] = pa.array([each.get("feature") for each in nexts], pa.string())
    columns["cost"] = pa.array([each.get("cost") for each in nexts], pa.float64())
    for name in ("spent", "remaining"):
        columns[name] = pa.array([state[name] for state in states], pa.float64())
    for name in ("prediction", "trees", "trees_resolved"):
        columns[name] = pa.array([state[name] for state in states])
    for each in map(str, classes):
        columns[f"p:{each}"] = pa.array([state["probabilities"][each] for state in states], pa.float64())
    if stakes is not None:
        columns["decision"] = pa.array([state["decision"] for state in states])
    if stakes is not None and stakes.stated:
        columns["expected_gain"] = pa.array([state["expected_gain"] for state in states], pa.float64())
        for each in map(str, stakes.actions):
            columns[f"benefit:{each}"] = pa.array([state["expected_benefits"][each] for state in states], pa.float64())
    return columns
