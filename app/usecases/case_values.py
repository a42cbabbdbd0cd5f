"""The values by which the cells of a benefit matrix depend on the case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from app.decisions.case_benefits import CaseBenefits
from app.errors import Flaw, reject, unknown
from app.features import Schema


def case_values(
    cases: CaseBenefits, schema: Schema | None, X: np.ndarray, others: Mapping[str, np.ndarray]
) -> np.ndarray:
    """The values (n, J) of the columns that cells name: features of rows X (n, m), or `others` (n,) by name.

    Invalid at the cell that names no column, or one of text. Without a `schema` the rows have no features.
    """
    features = {} if schema is None else {name: j for j, name in enumerate(schema.names)}
    text = frozenset() if schema is None else frozenset(schema.names[j] for j in schema.categorical)
    reject(_flaws(cases, frozenset(features) | others.keys(), text - others.keys()))
    columns = [others[name] if name in others else X[:, features[name]] for name in cases.columns]
    return np.column_stack(columns)


def _flaws(cases: CaseBenefits, known: frozenset[str], text: frozenset[str]) -> Iterator[Flaw]:
    for name, place in zip(cases.columns, cases.places, strict=True):
        if name not in known:
            yield Flaw(f"{place}/column", unknown("column", name, sorted(known - text)))
        elif name in text:
            yield Flaw(f"{place}/column", f"{name!r} is a category; a benefit depends on numbers")
