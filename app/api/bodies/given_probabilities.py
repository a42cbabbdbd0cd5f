"""Probabilities of a request's own classes, in place of a model, as a NumPy array or an Arrow stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from app.api.bodies.binary import ARROW, NPY, array_of_npy, table_of_arrow
from app.api.bodies.csv_bodies import Dialect, table_of_csv
from app.api.bodies.json_bodies import Reserve, free
from app.errors import Flaw, Invalid, pointer, reject, unknown

if TYPE_CHECKING:
    import pyarrow as pa

Classes = Sequence[int | str]


def array(body: bytes, _classes: Classes, reserve: Reserve = free) -> np.ndarray:
    """A .npy file (n, K), its columns in the order of the classes."""
    return array_of_npy(body, reserve)


def columns(body: bytes, classes: Classes, reserve: Reserve = free) -> np.ndarray:
    """An Arrow IPC stream with a column of numbers for each class, by name, in any order, as (n, K)."""
    return _columns(table_of_arrow(body), classes, reserve)


def columns_of_csv(body: bytes, dialect: Dialect, classes: Classes, reserve: Reserve = free) -> np.ndarray:
    """The same as a CSV file."""
    return _columns(table_of_csv(body, (), dialect, reserve), classes, reserve)


def _columns(table: pa.Table, classes: Classes, reserve: Reserve) -> np.ndarray:
    import pyarrow as pa  # noqa: PLC0415 - 40 MB of memory that a service without Arrow clients can spare
    from pyarrow import types  # noqa: PLC0415

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
        if not any(of_type(column.type) for of_type in (types.is_floating, types.is_integer, types.is_decimal)):
            raise Invalid.at(pointer(name), f"the type of the column is '{column.type}'; it must be numbers")
        if column.null_count:
            raise Invalid.at(pointer(name), f"the column has {column.null_count} nulls; a probability is a number")
        P[:, k] = column.cast(pa.float64(), safe=False).to_numpy()
    return P


READERS: dict[str, Callable[[bytes, Classes, Reserve], np.ndarray]] = {NPY: array, ARROW: columns}
