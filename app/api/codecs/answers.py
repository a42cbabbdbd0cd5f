"""Decisions and predicted numbers in answers, and what comes back with them: JSON, NumPy arrays and
tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from fastapi import Response

from app.answering.decide import Answer
from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import JSON, NPY, TABULAR
from app.api.codecs.npy import npy_response
from app.outcomes.tables import MAX_ID
from app.registry.loaded import Loaded
from app.requests.quantities import Quantities
from payoff.errors import Flaw, Invalid, pointer, reject

WRITTEN = (JSON, NPY, *TABULAR)
_ID = "id"  # the column of ids that came without a name


@dataclass(frozen=True)
class Carried:
    """Columns by name, as lists or Arrow columns; the one called `id` holds the ids."""

    id: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    kept: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        """The fields of a JSON answer."""
        ids = {} if self.id is None else {"ids": _listed(self.columns[self.id])}
        if not self.kept:
            return ids
        return ids | {"kept": {name: _listed(self.columns[name]) for name in self.kept}}

    @property
    def own_ids(self) -> tuple[str, list[Any]] | None:
        """The field that has the ids or names their column, and the ids; None without ids."""
        if self.id is None:
            return None
        return "ids" if self.id == _ID else "id", _listed(self.columns[self.id])

    def with_ids(self, ids: Sequence[str | None]) -> Carried:
        """With the ids of the decisions, where the request has none of its own."""
        if self.id is not None:
            return self
        if _ID in self.columns:
            raise Invalid.at("/keep", f"with 'record' no other column can be called {_ID!r}")
        return Carried(_ID, {_ID: list(ids)} | self.columns, self.kept)

    def before(self, columns: dict[str, Any]) -> dict[str, Any]:
        """These columns, then those of an answer; Invalid at /keep for a name that both have."""
        for name in self.columns.keys() & columns.keys():
            raise Invalid.at(
                "/id" if name == self.id else "/keep",
                f"the answer has a column {name!r} of its own",
            )
        return self.columns | columns

    def refuse_numbers_only(self) -> None:
        """Invalid where any column comes back, for answers that hold numbers alone."""
        if self.columns:
            place = "/keep"
            if self.id is not None:
                place = "/ids" if self.id == _ID else "/id"
            raise Invalid.at(
                place, "an array of numbers has no place for this; ask for JSON or a table"
            )


NOTHING = Carried()


def carried_of_ids(ids: list[Any] | None, instances: Sequence[Any] | np.ndarray) -> Carried:
    """The ids of a JSON body, one for each instance; Invalid at or below /ids."""
    if ids is None:
        return NOTHING
    reject(
        Flaw(pointer("ids", i), f"an id is an integer, or text of at most {MAX_ID} characters")
        for i, id_ in enumerate(ids)
        if type(id_) is not int and not (type(id_) is str and len(id_) <= MAX_ID)
    )
    if len(ids) != len(instances):
        raise Invalid.at("/ids", f"there are {len(ids):,} ids for {len(instances):,} instances")
    return Carried(_ID, {_ID: ids})


def _listed(column: Any) -> list[Any]:
    """Values as JSON has them: dates and decimals are text."""
    if isinstance(column, list):
        return column
    as_text = str(column.type).startswith(("decimal", "date", "timestamp"))
    return list((column.cast("string") if as_text else column).to_pylist())


class NamedChoice(NamedTuple):
    """One of the `names` for each row (n,): in JSON as text, in an array its position."""

    choice: np.ndarray
    names: Sequence[int | str]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.choice.shape

    def listed(self) -> list[int | str]:
        """The names, row by row."""
        return list(map(self.names.__getitem__, self.choice.tolist()))


class AnswerColumn(NamedTuple):
    """Values with an entry per row, (n,) or (n, width), called `name` in JSON.

    A table calls the column `short`, or with labels each column `short:label`.
    """

    name: str
    values: np.ndarray | NamedChoice
    short: str
    labels: Sequence[int | str] | None = None


class Answered(NamedTuple):
    """Decisions or predicted numbers, and the columns of the request that come back with them.

    There is no model where the request has probabilities.
    """

    answer: Answer | Quantities
    model: Loaded | None
    carried: Carried = NOTHING

    def columns(self) -> list[AnswerColumn]:
        """The columns of the answer.

        Their names in tables are `decision`, `p:<class>`…, with benefits `benefit:<action>`…, with
        `explore` `propensity`. For numbers they are `value`, and where the request has the fields
        for them `decision`, `expected_cost`, `low` and `high`.
        """
        answer = self.answer
        candidates: list[tuple[str, Any, str, Sequence[int | str] | None]]
        if isinstance(answer, Quantities):
            candidates = [
                ("decisions", answer.chosen, "decision", None),
                ("expected_costs", answer.expected_costs, "expected_cost", None),
                ("intervals", answer.intervals, "", ("low", "high")),
                ("values", answer.values, "value", None),
            ]
        else:
            candidates = [
                ("decisions", NamedChoice(answer.choice, answer.actions), "decision", None),
                ("probabilities", answer.probabilities, "p", answer.classes),
                ("expected_benefits", answer.expected_benefits, "benefit", answer.actions),
                ("propensities", answer.propensities, "propensity", None),
            ]
        return [AnswerColumn(*column) for column in candidates if column[1] is not None]

    def metadata(self) -> dict[str, Any]:
        """The fields that are no columns, but for warnings and explanations."""
        metadata: dict[str, Any] = {} if self.model is None else {"model": self.model.named}
        answer = self.answer
        if isinstance(answer, Answer):
            metadata["rule"] = answer.rule
            metadata["classes"] = answer.classes
            metadata["actions"] = answer.actions
            if answer.matrix_in_words:
                metadata["matrix_in_words"] = answer.matrix_in_words
        return {**metadata, **answer.figures}

    def explained(self) -> dict[str, Any]:
        """The explanations: a field of JSON documents alone."""
        explanations = self.answer.explanations if isinstance(self.answer, Answer) else None
        return {} if explanations is None else {"explanations": explanations}


def encode(form: str, answered: Answered) -> Response:
    """The answer in a media type.

    JSON has a field for each of `columns`. A table has the carried columns and these, and the
    metadata in its own metadata or in the header `Payoff-Answer`. A NumPy array is float64
    (n, columns), with positions for names.
    """
    if form == JSON:
        return Response(json_of(answered), media_type=JSON)
    columns = answered.columns()
    metadata = {**answered.metadata(), "warnings": answered.answer.warnings}
    if form == NPY:
        answered.carried.refuse_numbers_only()
        return npy_response(_array(columns), metadata)
    from app.api.codecs import arrow  # noqa: PLC0415 - with pyarrow, which takes 40 MB

    table = answered.carried.before(arrow.table_columns(columns))
    return arrow.table_response(form, table, metadata)


def json_of(answered: Answered) -> bytes:
    """The JSON document of an answer."""
    carried = answered.carried.document() if answered.carried.columns else {}
    columns = {
        name: values.listed() if isinstance(values, NamedChoice) else values
        for name, values, *_ in answered.columns()
    }
    explained = answered.explained()
    warnings = {"warnings": answered.answer.warnings}
    return json_bytes({**answered.metadata(), **carried, **columns, **explained, **warnings})


def _array(columns: Sequence[AnswerColumn]) -> np.ndarray:
    if len(columns) == 1 and isinstance(columns[0].values, np.ndarray):
        return columns[0].values
    arrays = [
        column.values.choice if isinstance(column.values, NamedChoice) else column.values
        for column in columns
    ]
    return np.hstack([np.atleast_2d(array.T).T for array in arrays], dtype=np.float64)
