"""A data set as arrays, ready for a learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.features import Schema


@dataclass(frozen=True, eq=False)
class Table:
    """A data set in memory.

    `X` is float64 (n, m), C-contiguous, NaN where a value is missing; a category is its position in its feature's
    `categories`. `y` is, with one label, int64 (n,) of positions in `classes`, or float64 (n,) where `classes` is
    None (a number to regress on); with several labels it is uint8 (n, L) of 0 and 1, and `classes` are their names.
    """

    schema: Schema
    X: np.ndarray
    y: np.ndarray
    classes: tuple[int | str, ...] | None
    labels: tuple[str, ...]
    digest: str

    def as_numbers(self) -> Table:
        """The same with one label as numbers to regress on: integers that are classes become the numbers they are."""
        if self.classes is None:
            return self
        return replace(self, y=np.array(self.classes, dtype=np.float64)[self.y], classes=None)

    def with_classes(self, order: Sequence[int | str]) -> Table:
        """The same with its classes in this order, for one label of classes."""
        assert self.classes is not None
        codes = np.array([order.index(name) for name in self.classes])
        return replace(self, y=codes[self.y], classes=tuple(order))
