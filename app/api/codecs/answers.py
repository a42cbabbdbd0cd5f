"""Decisions and predicted numbers in answers: JSON, NumPy arrays and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from fastapi import Response

from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import JSON, NPY, TABULAR
from app.api.codecs.npy import npy_response
from app.api.codecs.rows import NOTHING, Carried
from app.api.codecs.tables import table_response
from app.registry.loaded import Loaded
from app.usecases.rules import Answer

WRITTEN = (JSON, NPY, *TABULAR)
_FEW_COLUMNS = 16  # of an answer


class Words(NamedTuple):
    """One of the `names` for each row (n,): in JSON as text, in an array its position."""

    choice: np.ndarray
    names: Sequence[int | str]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.choice.shape

    def listed(self) -> list[int | str]:
        """The names, row by row."""
        return list(map(self.names.__getitem__, self.choice.tolist()))


class Column(NamedTuple):
    """Values with an entry per row, (n,) or (n, width); in a table called `short`, or that and each label."""

    name: str
    values: np.ndarray | Words
    short: str
    labels: Sequence[int | str] | None = None


class Answered(NamedTuple):
    """Decisions, or numbers (n,) of a model of numbers, and what comes back beside them; of no model where these were
    made by probabilities in the request.
    """

    answer: Answer | np.ndarray
    model: Loaded | None
    warnings: Sequence[str]
    carried: Carried = NOTHING

    def columns(self) -> list[Column]:
        """In tables `decision`, `p:<class>`…, with benefits `benefit:<action>`…, perhaps `propensity`; or `value`."""
        answer = self.answer
        if not isinstance(answer, Answer):
            return [Column("values", np.asarray(answer, dtype=np.float64), "value")]
        columns = [
            Column("decisions", Words(answer.choice, answer.actions), "decision"),
            Column("probabilities", answer.probabilities, "p", answer.classes),
        ]
        if answer.expected_benefits is not None:
            columns.append(Column("expected_benefits", answer.expected_benefits, "benefit", answer.actions))
        if answer.propensities is not None:
            columns.append(Column("propensities", answer.propensities, "propensity"))
        return columns

    def rest(self) -> dict[str, Any]:
        """What is not columnar, but for warnings and explanations."""
        about: dict[str, Any] = {} if self.model is None else {"model": self.model.named}
        if not isinstance(self.answer, Answer):
            return about
        answer = self.answer
        return {**about, "rule": answer.rule, "classes": answer.classes, "actions": answer.actions, **answer.figures}

    def explained(self) -> dict[str, Any]:
        """The explanations, which fit into JSON alone."""
        found = self.answer.explanations if isinstance(self.answer, Answer) else None
        return {} if found is None else {"explanations": found}


def encode(form: str, answered: Answered) -> Response:
    """The answer in a media type.

    JSON has a field for each of `columns`; a table what comes back and a column for each of theirs, the rest in its
    metadata or in the header `Payoff-Answer`; a NumPy array float64 (n, columns), positions for words.
    """
    if form == JSON:
        return Response(json_of(answered), media_type=JSON)
    columns, rest = answered.columns(), {**answered.rest(), "warnings": answered.warnings}
    if form == NPY:
        answered.carried.refuse_numbers_only()
        return npy_response([_array(columns)], rest)
    return table_response(form, answered.carried.before(_table(columns)), rest)


def json_of(answered: Answered) -> bytes:
    """The contract's document."""
    carried = answered.carried.document() if answered.carried.columns else {}
    columns = {
        name: values.listed() if isinstance(values, Words) else values for name, values, *_ in answered.columns()
    }
    more = {**answered.explained(), "warnings": answered.warnings}
    return json_bytes({**answered.rest(), **carried, **columns, **more})


def _array(columns: Sequence[Column]) -> np.ndarray:
    if len(columns) == 1 and isinstance(columns[0].values, np.ndarray):
        return columns[0].values
    parts = [
        np.atleast_2d((each.values.choice if isinstance(each.values, Words) else each.values).T) for each in columns
    ]
    if sum(map(len, parts)) > _FEW_COLUMNS:
        return np.hstack([part.T for part in parts], dtype=np.float64)
    flat = [column for part in parts for column in part]  # one by one, which takes a third of the time
    copied = np.empty((len(flat[0]), len(flat)))
    for j, column in enumerate(flat):
        copied[:, j] = column
    return copied


def _table(columns: Sequence[Column]) -> dict[str, Any]:
    import pyarrow as pa  # noqa: PLC0415

    table: dict[str, Any] = {}
    for _, values, short, labels in columns:
        if isinstance(values, Words):
            words = pa.array([str(word) for word in values.names])
            table[short] = pa.DictionaryArray.from_arrays(pa.array(values.choice, pa.int32()), words)
        else:
            names = [short] if labels is None else [f"{short}:{label}" for label in labels]
            table |= dict(zip(names, map(np.ascontiguousarray, np.atleast_2d(values.T)), strict=True))
    return table
