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

Classes = Sequence[int | str]


def columns(sheet: Sheet, classes: Classes) -> tuple[np.ndarray, Carried]:
    """A table with a column of numbers for each class, by name, in any order, as (n, K), and what comes back."""
    names = [str(name) for name in classes]
    table, carried = sheet.read(names, names)
    return _columns(table, classes, sheet.reserve), carried


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
