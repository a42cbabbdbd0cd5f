"""Benefit matrices that depend on the case: a cell is a number, or `plus + times * value` of a column of the case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.decisions.benefit import LARGEST, Prepared
from app.errors import Flaw, pointer, reject, unknown
from app.features import Schema

Columns = Mapping[str, np.ndarray]
"""Values (n,) of cases by the names of columns that are no features, NaN where they are missing."""
NO_COLUMNS: Columns = {}


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

    def values(self, schema: Schema, X: np.ndarray, others: Columns) -> np.ndarray:
        """The values (n, J) of the columns: numeric features of rows X (n, m), or `others`; Invalid at a cell."""
        features = {name: j for j, name in enumerate(schema.names) if j not in schema.categorical}
        known = [*others, *features]
        reject(
            Flaw(f"{place}/column", f"{name!r} is text" if name in schema.names else unknown("column", name, known))
            for name, place in zip(self.columns, self.places, strict=True)
            if name not in known
        )
        return np.column_stack([others[name] if name in others else X[:, features[name]] for name in self.columns])

    def at(self, values: np.ndarray, place: Callable[[int, str], str] = pointer) -> np.ndarray:
        """The matrices (n, K, A) of n cases, by the values (n, J) of their columns; to the last bit as written out.

        Raises Invalid at the `place` of each case and column, where a value is missing or a benefit too large.
        O(n K A).
        """
        with np.errstate(over="ignore", invalid="ignore"):
            cells = self.base[self.rows, self.actions, None] + self.times[:, None] * values.T[self.which]
            wrong = ~(np.abs(cells) <= LARGEST)  # NaN compares false
        reject(self._flaws(values, wrong, place))
        B = np.empty((*self.base.shape, len(values)))  # cases last: what is computed of them goes along memory
        B[:] = self.base[..., None]
        B[self.rows, self.actions] = cells
        return B.transpose(2, 0, 1)

    def cells(self) -> list[list[Any]]:
        """The matrix of benefits as a request states it, by position."""
        matrix: list[list[Any]] = self.base.tolist()
        for row, action, j, times in zip(self.rows, self.actions, self.which, self.times.tolist(), strict=True):
            matrix[row][action] = {"column": self.columns[j], "times": times, "plus": matrix[row][action]}
        return matrix

    def _flaws(self, values: np.ndarray, wrong: np.ndarray, place: Callable[[int, str], str]) -> Iterator[Flaw]:
        rows, cells = np.nonzero(wrong.T)
        for i, j in dict.fromkeys(zip(rows.tolist(), self.which[cells].tolist(), strict=True)):
            name, value = self.columns[j], values[i, j]
            what = "missing" if np.isnan(value) else f"{value:g}"
            yield Flaw(place(i, name), f"{name!r} is {what}; with it each benefit must be within ±{LARGEST:g}")


def by_case(
    matrix: Prepared, schema: Schema, X: np.ndarray, others: Columns, place: Callable[[int, str], str] = pointer
) -> Prepared:
    """The same with a matrix for each of n cases; itself where no cell depends on them. Raises what `values` and `at`
    raise.
    """
    if (cases := matrix.cases) is None:
        return matrix
    return replace(matrix, benefits=cases.at(cases.values(schema, X, others), place), cases=None)
