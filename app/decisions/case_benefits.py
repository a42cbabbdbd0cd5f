"""Benefit matrices that depend on the case: a cell is a number, or `plus + times * value` of a column of the case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.decisions.benefit import LARGEST
from app.errors import Flaw, pointer, reject


@dataclass(frozen=True)
class CaseBenefits:
    """A benefit matrix of which C cells name one of J `columns`; `places` say where each was named first.

    `base` (K, A) has the numbers, and `plus` of the other cells. These are at `rows` (C,) and `actions` (C,), and add
    `times` (C,) the value of the column number `which` (C,).
    """

    base: np.ndarray
    columns: tuple[str, ...]
    places: tuple[str, ...]
    rows: np.ndarray
    actions: np.ndarray
    which: np.ndarray
    times: np.ndarray

    def at(self, values: np.ndarray, place: Callable[[int, str], str] = pointer) -> np.ndarray:
        """The matrices (n, K, A) of n cases, by the values (n, J) of their columns; to the last bit as written out.

        Raises Invalid at the `place` of each case and column, where a value is missing or a benefit too large.

        O(n K A).
        """
        B = np.repeat(self.base[None], len(values), axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            cells = self.base[self.rows, self.actions] + self.times * values[:, self.which]
            fine = np.abs(cells) <= LARGEST  # NaN compares false
        if not fine.all():
            reject(self._flaws(values, ~fine, place))
        B[:, self.rows, self.actions] = cells
        return B

    def mean(self, values: np.ndarray) -> np.ndarray:
        """The mean (K, A) of the matrices of cases with these values (n, J)."""
        mean: np.ndarray = self.at(values.mean(axis=0, keepdims=True))[0]
        return mean

    def negated(self) -> CaseBenefits:
        """Costs for benefits, or the reverse."""
        return CaseBenefits(
            0.0 - self.base, self.columns, self.places, self.rows, self.actions, self.which, 0.0 - self.times
        )

    def cells(self) -> list[list[Any]]:
        """The matrix as a request states it, by position."""
        matrix: list[list[Any]] = self.base.tolist()
        for row, action, j, times in zip(self.rows, self.actions, self.which, self.times.tolist(), strict=True):
            matrix[row][action] = {"column": self.columns[j], "times": times, "plus": matrix[row][action]}
        return matrix

    def _flaws(self, values: np.ndarray, wrong: np.ndarray, place: Callable[[int, str], str]) -> Iterator[Flaw]:
        for i, c in np.argwhere(wrong).tolist():
            name, value = self.columns[self.which[c]], float(values[i, self.which[c]])
            if np.isfinite(value):
                message = f"by this value ({value:g}) a benefit is of a magnitude above {LARGEST:g}"
            else:
                message = f"{name!r} is {'infinite' if np.isinf(value) else 'missing'}, and a benefit depends on it"
            yield Flaw(place(i, name), message)
