"""Decisions and predicted numbers in answers: JSON, NumPy arrays and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import Response

from app.api.codecs.carried import NOTHING, Carried
from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import JSON, NPY, TABULAR
from app.api.codecs.npy import npy_response
from app.api.codecs.tables import table_response
from app.registry.loaded import Loaded
from app.usecases.predict import Answer

if TYPE_CHECKING:  # imported where needed: it takes 40 MB of memory that a service without Arrow clients can spare
    import pyarrow as pa

_FEW_COLUMNS = 16  # of an answer


def to_json(answer: Answer, model: Loaded | None, carried: Carried = NOTHING) -> Response:
    """The contract's document; requests of the hot path get the same from `app.usecases.plans.written`."""
    document = {
        **({} if model is None else {"model": model.model}),
        **(carried.document() if carried.columns else {}),
        "rule": answer.rule,
        "classes": answer.classes,
        "actions": answer.actions,
        "decisions": np.array(answer.actions, dtype=object).take(answer.choice).tolist(),
        "probabilities": answer.probabilities,
        **({} if answer.expected_benefits is None else {"expected_benefits": answer.expected_benefits}),
        **answer.figures,
        **({} if answer.propensities is None else {"propensities": answer.propensities}),
        **({} if answer.explanations is None else {"explanations": answer.explanations}),
        "warnings": answer.warnings,
    }
    return Response(json_bytes(document), media_type=JSON)


def to_npy(answer: Answer, model: Loaded | None, carried: Carried = NOTHING) -> Response:
    """A float64 array: the decided action's position, K probabilities and, with benefits, A expected benefits a row.

    What is not columnar stands in the `Payoff-Answer` header as JSON.
    """
    carried.refuse_numbers_only()
    return npy_response([_columns(answer)], _rest(answer, model))


def to_table(form: str, answer: Answer, model: Loaded | None, carried: Carried = NOTHING) -> Response:
    """A table of what is carried, then `decision`, `p:<class>`… and `benefit:<action>`…; the rest is beside it."""
    return table_response(form, carried.before(_named_columns(answer)), _rest(answer, model))


def _named_columns(answer: Answer) -> dict[str, pa.Array]:
    import pyarrow as pa  # noqa: PLC0415

    names = [f"p:{name}" for name in answer.classes]
    if answer.expected_benefits is not None:
        names += [f"benefit:{name}" for name in answer.actions]
    if answer.propensities is not None:
        names.append("propensity")
    numbers = _columns(answer).T[1:]
    words = pa.array([str(name) for name in answer.actions])
    decision = pa.DictionaryArray.from_arrays(pa.array(answer.choice, pa.int32()), words)
    arrays: list[pa.Array] = [decision, *(pa.array(np.ascontiguousarray(column)) for column in numbers)]
    return dict(zip(["decision", *names], arrays, strict=True))


WRITERS: dict[str, Callable[[Answer, Loaded | None, Carried], Response]] = {
    JSON: to_json,
    NPY: to_npy,
    **{form: partial(to_table, form) for form in TABULAR},
}


def _columns(answer: Answer) -> np.ndarray:
    parts = [answer.choice[:, None], answer.probabilities]
    if answer.expected_benefits is not None:
        parts.append(answer.expected_benefits)
    if answer.propensities is not None:
        parts.append(answer.propensities[:, None])
    if sum(part.shape[1] for part in parts) > _FEW_COLUMNS:
        return np.hstack(parts, dtype=np.float64)
    columns = [column for part in parts for column in part.T]  # one by one, which takes a third of the time
    copied = np.empty((len(answer.choice), len(columns)))
    for j, column in enumerate(columns):
        copied[:, j] = column
    return copied


def _rest(answer: Answer, model: Loaded | None) -> dict[str, Any]:
    """What is not columnar."""
    return {
        **({} if model is None else {"model": model.model}),
        "rule": answer.rule,
        "classes": answer.classes,
        "actions": answer.actions,
        **answer.figures,
        "warnings": answer.warnings,
    }


def values_to_json(values: np.ndarray, model: Loaded, warnings: Sequence[str], carried: Carried = NOTHING) -> Response:
    """The contract's document."""
    document = {"model": model.model, **carried.document(), "values": values, "warnings": warnings}
    return Response(json_bytes(document), media_type=JSON)


def values_to_npy(values: np.ndarray, model: Loaded, warnings: Sequence[str], carried: Carried = NOTHING) -> Response:
    """A float64 array (n,)."""
    carried.refuse_numbers_only()
    return npy_response([np.asarray(values, dtype=np.float64)], _rest_of_values(model, warnings))


def values_to_table(
    form: str, values: np.ndarray, model: Loaded, warnings: Sequence[str], carried: Carried = NOTHING
) -> Response:
    """A table of what is carried, and the column `value`."""
    columns = carried.before({"value": np.asarray(values, dtype=np.float64)})
    return table_response(form, columns, _rest_of_values(model, warnings))


def _rest_of_values(model: Loaded, warnings: Sequence[str]) -> dict[str, Any]:
    return {"model": model.model, "warnings": list(warnings)}


VALUES: dict[str, Callable[[np.ndarray, Loaded, Sequence[str], Carried], Response]] = {
    JSON: values_to_json,
    NPY: values_to_npy,
    **{form: partial(values_to_table, form) for form in TABULAR},
}
