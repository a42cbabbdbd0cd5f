"""Rows of a data set as the input that an imported model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from app.errors import Invalid
from app.features import Schema
from app.text import some_of

_SHOWN = 5


@dataclass(frozen=True)
class Columns:
    """The model's columns: `order` (w,) are their positions in the rows, `words` the categories of each, or None for
    numbers. A missing category becomes `absent`, NaN or None, whichever the model's encoders know.
    """

    order: np.ndarray
    words: tuple[np.ndarray | None, ...]
    absent: float | None = np.nan
    named: bool = True

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str] | None, count: int | None, absent: float | None = np.nan) -> Self:
        """The columns of a model that knows their `names`, or only their number; Invalid where the data set differs."""
        _check(schema.names, names, count)
        position = {name: j for j, name in enumerate(schema.names)}
        order = [position[name] for name in names] if names else list(range(len(schema.names)))
        found = [schema.features[j] for j in order]
        words = [
            np.array([*one.categories, absent], dtype=object) if one.type == "categorical" else None for one in found
        ]
        return cls(np.array(order, dtype=np.intp), tuple(words), absent, bool(names))

    def of_rows(self, X: np.ndarray) -> np.ndarray:
        """Rows X (n, m) as float64 (n, w), or as objects where a column has categories."""
        ordered = X.take(self.order, axis=1)
        if all(words is None for words in self.words):
            return ordered
        mixed = ordered.astype(object)
        for j, words in enumerate(self.words):
            if words is not None:
                mixed[:, j] = words[np.where(np.isnan(ordered[:, j]), -1, ordered[:, j]).astype(np.intp)]
        return mixed


def _check(there: Sequence[str], names: Sequence[str] | None, count: int | None) -> None:
    if names is None:
        if count is not None and count != len(there):
            raise Invalid.at("/dataset", f"the model takes {count} columns, and the data set has {len(there)} features")
        return
    absent, extra = [name for name in names if name not in there], [name for name in there if name not in names]
    parts = []
    if absent:
        parts.append(f"the data set lacks {some_of([repr(name) for name in absent], _SHOWN)}")
    if extra:
        parts.append(f"the model does not take {some_of([repr(name) for name in extra], _SHOWN)}")
    if parts:
        raise Invalid.at("/dataset", f"the columns of model and data set differ: {', and '.join(parts)}")
