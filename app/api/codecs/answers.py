"""Decisions and predicted numbers in answers, and what comes back with them: JSON, NumPy arrays and
tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from fastapi import Response

from app.answering.decide import Answer
from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import JSON, NPY, TABULAR
from app.api.codecs.npy import npy_response
from app.outcomes.decision import EXPECTED_REWARD
from app.registry.loaded import Loaded
from app.requests.quantities import Quantities
from app.requests.rows import NOTHING, Carried

WRITTEN = (JSON, NPY, *TABULAR)


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
        a baseline `uplift:<action>`…, with `explore` `propensity`. For numbers they are `value`,
        and where the request has the fields for them `decision`, `expected_cost`, `low` and `high`.
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
            by_rewards = answer.rule == EXPECTED_REWARD
            candidates = [
                (
                    "decisions",
                    NamedChoice(answer.choice, answer.actions),
                    "decision",
                    None,
                ),
                (
                    "probabilities",
                    None if by_rewards else answer.probabilities,
                    "p",
                    answer.classes,
                ),
                (
                    "expected_benefits",
                    answer.expected_benefits,
                    "benefit",
                    answer.actions,
                ),
                ("uplift", answer.uplift, "uplift", answer.actions),
                ("propensities", answer.propensities, "propensity", None),
            ]
        return [AnswerColumn(*column) for column in candidates if column[1] is not None]

    def metadata(self) -> dict[str, Any]:
        """The fields that are no columns, but for warnings and explanations."""
        metadata: dict[str, Any] = (
            {} if self.model is None else {"model": self.model.named}
        )
        answer = self.answer
        if isinstance(answer, Answer):
            metadata["rule"] = answer.rule
            if answer.rule != EXPECTED_REWARD:
                metadata["classes"] = answer.classes
            metadata["actions"] = answer.actions
            if answer.matrix_in_words:
                metadata["matrix_in_words"] = answer.matrix_in_words
        return {**metadata, **answer.figures}

    def explained(self) -> dict[str, Any]:
        """The explanations: a field of JSON documents alone."""
        explanations = (
            self.answer.explanations if isinstance(self.answer, Answer) else None
        )
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
    return json_bytes(
        {**answered.metadata(), **carried, **columns, **explained, **warnings}
    )


def _array(columns: Sequence[AnswerColumn]) -> np.ndarray:
    if len(columns) == 1 and isinstance(columns[0].values, np.ndarray):
        return columns[0].values
    arrays = [
        column.values.choice
        if isinstance(column.values, NamedChoice)
        else column.values
        for column in columns
    ]
    return np.hstack([np.atleast_2d(array.T).T for array in arrays], dtype=np.float64)
