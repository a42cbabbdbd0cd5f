"""Benefit matrices that depend on the case: a cell is a number, or `plus + times * value` of a
column of the case.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from payoff.decisions.benefit import LARGEST, Prepared
from payoff.errors import Flaw, TooLarge, pointer, reject, unknown_at

Columns = Mapping[str, np.ndarray]
"""Values (n,) of cases by the names of columns that are no features, NaN where they are missing."""
NO_COLUMNS: Columns = {}
_MOST_CELLS = 50_000_000  # of matrices of cases: 400 MB


class Schema(Protocol):
    """Names of features, positions of the categorical ones, and columns of numbers that are no
    features.
    """

    names: tuple[str, ...]
    categorical: tuple[int, ...]
    values: Mapping[str, str]


class Term(NamedTuple):
    """What a cell of a matrix adds for a case: `times` the value in the `column`.

    `place` is the JSON pointer of the cell.
    """

    row: int
    action: int
    column: str
    times: float
    place: str


@dataclass(frozen=True)
class CaseBenefits:
    """A benefit matrix, `base` (K, A), with the `terms` of those cells that depend on the case."""

    base: np.ndarray
    terms: Sequence[Term]

    @property
    def columns(self) -> list[str]:
        """The J different columns of the terms."""
        return list(dict.fromkeys(term.column for term in self.terms))

    def values(self, schema: Schema, X: np.ndarray, columns: Columns) -> np.ndarray:
        """The values (n, J) of the terms' columns: of `columns`, or numeric features of rows X
        (n, m). Invalid at a cell whose column is neither.
        """
        features = {
            name: j
            for j, name in enumerate(schema.names)
            if j not in schema.categorical
        }
        known = {**features, **columns}
        reject(
            _unusable(f"{term.place}/column", term.column, schema, known)
            for term in self.terms
            if term.column not in known
        )
        return np.column_stack(
            [
                columns[name] if name in columns else X[:, features[name]]
                for name in self.columns
            ]
        )

    def at(
        self, values: np.ndarray, place: Callable[[int, str], str] | None = pointer
    ) -> np.ndarray:
        """The matrices (n, K, A) of n cases, from the values (n, J) of their columns, equal to the
        last bit to matrices that are written out.

        Raises Invalid at the `place` of each case and column where a value is missing or a benefit
        is too large; without `place`, at the cells, and messages contain no values. Raises TooLarge
        for more than `_MOST_CELLS` cells. O(n K A).
        """
        if len(values) * self.base.size > _MOST_CELLS:
            size = f"{len(values):,} matrices of {self.base.size:,} cells"
            raise TooLarge(f"{size}; at most {_MOST_CELLS:,} in all")
        by_name = dict(zip(self.columns, values.T, strict=True))
        # Cases are the last axis, so that the loop below runs along memory.
        B = np.empty((*self.base.shape, len(values)))
        B[:] = self.base[..., None]
        with np.errstate(over="ignore", invalid="ignore"):
            for term in self.terms:
                B[term.row, term.action] += term.times * by_name[term.column]
        if not (np.abs(B) <= LARGEST).all():  # NaN compares false
            reject(self._flaws(B, by_name, place))
        return B.transpose(2, 0, 1)

    def _flaws(
        self, B: np.ndarray, values: Columns, place: Callable[[int, str], str] | None
    ) -> Iterator[Flaw]:
        """The values that are missing, or make a benefit of B (K, A, n) too large."""
        too_large = f"makes a benefit larger than {LARGEST:g}"
        for name in self.columns:
            terms = [term for term in self.terms if term.column == name]
            cells = np.array([B[term.row, term.action] for term in terms])
            rows = np.flatnonzero(~(np.abs(cells) <= LARGEST).all(axis=0))
            if place is None and rows.size:
                message = f"{name!r} is missing in a row, or {too_large}"
                yield from (Flaw(f"{term.place}/column", message) for term in terms)
            elif place is not None:
                for i in rows:
                    value = values[name][i]
                    if np.isnan(value):
                        message = f"{name!r} is missing, and a benefit depends on it"
                    else:
                        message = f"{name!r} is {value}, and {too_large}"
                    yield Flaw(place(int(i), name), message)

    def cells(self) -> list[list[Any]]:
        """The matrix of benefits in JSON, as nested lists of numbers and terms."""
        matrix: list[list[Any]] = self.base.tolist()
        for row, action, column, times, _ in self.terms:
            matrix[row][action] = {
                "column": column,
                "times": times,
                "plus": matrix[row][action],
            }
        return matrix


def _unusable(loc: str, name: str, schema: Schema, known: Iterable[str]) -> Flaw:
    """The flaw that the column at `loc` is not among those `known`, and where its values belong."""
    if name in schema.names:
        return Flaw(loc, f"{name!r} is text")
    where = "send it in objects, in a column of the table, or in 'columns'"
    if name in schema.values:
        return Flaw(loc, f"{name!r} is absent; {where}")
    names = dict.fromkeys([*known, *schema.values])
    return unknown_at(loc, "column", name, names, f"; or {where}")


def by_case(
    matrix: Prepared,
    schema: Schema,
    X: np.ndarray,
    columns: Columns,
    place: Callable[[int, str], str] | None = pointer,
) -> Prepared:
    """The matrix with benefits for each of n cases; itself where no cell depends on the case.

    Raises the errors of `CaseBenefits.values` and `CaseBenefits.at`.
    """
    if matrix.cases is None:
        return matrix
    values = matrix.cases.values(schema, X, columns)
    return replace(matrix, benefits=matrix.cases.at(values, place), cases=None)
