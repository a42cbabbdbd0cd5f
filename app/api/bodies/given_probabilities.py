"""Probabilities of a request's own classes, in place of a model, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from app.api.bodies.carried import Carried
from app.api.bodies.json_bodies import Reserve
from app.api.bodies.tables import Sheet
from app.errors import Flaw, Invalid, pointer, reject, unknown

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_PER_LABEL = 100  # of memory
LABEL = "label"  # the column of the true classes

Classes = Sequence[int | str]


def columns(sheet: Sheet, classes: Classes) -> tuple[np.ndarray, Carried]:
    """A table with a column of numbers for each class, by name, in any order, as (n, K), and what comes back."""
    names = [str(name) for name in classes]
    table, carried = sheet.read(names, names)
    return _columns(table, classes, sheet.reserve), carried


def with_labels(sheet: Sheet, classes: Classes) -> tuple[np.ndarray, list[int | str] | None]:
    """The same, and the classes in the column `label`, where the table has it and no class has this name."""
    names = [str(name) for name in classes]
    table, _ = sheet.read(names, names)
    if LABEL in names or table.column_names.count(LABEL) != 1:
        return _columns(table, classes, sheet.reserve), None
    sheet.reserve(table.num_rows * _BYTES_PER_LABEL)
    labels = _labels(table.column(LABEL).to_pylist(), classes)
    return _columns(table.drop_columns([LABEL]), classes, sheet.reserve), labels


def _labels(column: Sequence[object], classes: Classes) -> list[int | str]:
    known = {str(name): name for name in classes}
    reject(
        Flaw(pointer(LABEL, i), "the label is missing" if name is None else unknown("class", name, known))
        for i, name in enumerate(column)
        if str(name) not in known or name is None
    )
    return [known[str(name)] for name in column]


def _columns(table: pa.Table, classes: Classes, reserve: Reserve) -> np.ndarray:
    import pyarrow as pa  # noqa: PLC0415 - 40 MB of memory that a service without Arrow clients can spare

    from app.data.arrow_text import floats, is_number  # noqa: PLC0415 - with pyarrow

    names = [str(name) for name in classes]
    known = set(names)
    reject(Flaw(pointer(name), unknown("class", name, names)) for name in table.column_names if name not in known)
    reserve(table.num_rows * len(names) * 8)
    counts = Counter(table.column_names)
    P = np.empty((table.num_rows, len(names)))
    for k, name in enumerate(names):
        if counts[name] != 1:
            raise Invalid.at("", f"class {name!r} needs one column; there are {counts[name]}")
        column = table.column(name)
        if not is_number(column.type) or pa.types.is_boolean(column.type):
            raise Invalid.at(pointer(name), f"the type of the column is '{column.type}'; it must be numbers")
        if column.null_count:
            raise Invalid.at(pointer(name), f"the column has {column.null_count} nulls; a probability is a number")
        P[:, k] = floats(column).to_numpy()
    return P
