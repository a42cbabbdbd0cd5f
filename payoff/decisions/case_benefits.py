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
    """What a cell of a matrix adds for a case: `times` the value in the `column`; `place` is where
    that is said.
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
        """Those of the terms, J, once each."""
        return list(dict.fromkeys(term.column for term in self.terms))

    def values(self, schema: Schema, X: np.ndarray, others: Columns) -> np.ndarray:
        """The values (n, J) of the columns: numeric features of rows X (n, m), or `others`; Invalid
        at a cell.
        """
        features = {name: j for j, name in enumerate(schema.names) if j not in schema.categorical}
        known = {**features, **others}
        reject(
            _unusable(f"{term.place}/column", name, schema, known)
            for term in self.terms
            if (name := term.column) not in known
        )
        return np.column_stack(
            [others[name] if name in others else X[:, features[name]] for name in self.columns]
        )

    def at(
        self, values: np.ndarray, place: Callable[[int, str], str] | None = pointer
    ) -> np.ndarray:
        """The matrices (n, K, A) of n cases, by the values (n, J) of their columns; to the last bit
        as written out.

        Raises Invalid at the `place` of each case and column, where a value is missing or a benefit
        too large; without one, at the cells, and no value is told. TooLarge for too many cells. O(n
        K A).
        """
        if len(values) * self.base.size > _MOST_CELLS:
            raise TooLarge(
                f"{len(values):,} matrices of {self.base.size:,} cells; at most {_MOST_CELLS:,} in all"
            )
        by_name = dict(zip(self.columns, values.T, strict=True))
        B = np.empty(
            (*self.base.shape, len(values))
        )  # cases last: what is computed of them goes along memory
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
        for name in self.columns:
            cells = np.array(
                [B[term.row, term.action] for term in self.terms if term.column == name]
            )
            rows = np.flatnonzero(~(np.abs(cells) <= LARGEST).all(axis=0))
            if place is None:
                message = (
                    f"{name!r} is missing in a row, or makes a benefit larger than {LARGEST:g}"
                )
                yield from (
                    Flaw(f"{term.place}/column", message)
                    for term in self.terms
                    if rows.size and term.column == name
                )
                continue
            for i in rows:
                value = values[name][i]
                effect = (
                    "a benefit depends on it"
                    if np.isnan(value)
                    else f"makes a benefit larger than {LARGEST:g}"
                )
                yield Flaw(
                    place(int(i), name),
                    f"{name!r} is {'missing' if np.isnan(value) else value}, and {effect}",
                )

    def cells(self) -> list[list[Any]]:
        """The matrix of benefits as a request states it, by position."""
        matrix: list[list[Any]] = self.base.tolist()
        for row, action, column, times, _ in self.terms:
            matrix[row][action] = {"column": column, "times": times, "plus": matrix[row][action]}
        return matrix


def _unusable(loc: str, name: str, schema: Schema, known: Iterable[str]) -> Flaw:
    """Why the column at `loc` is not among those `known`, and where its values belong."""
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
    others: Columns,
    place: Callable[[int, str], str] | None = pointer,
) -> Prepared:
    """The same with a matrix for each of n cases; itself where no cell depends on them. Raises what
    `values` and `at` raise.
    """
    if (cases := matrix.cases) is None:
        return matrix
    return replace(matrix, benefits=cases.at(cases.values(schema, X, others), place), cases=None)
