"""Instances in requests and decisions in answers: JSON, NumPy arrays and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import Response

from app.api.bodies.binary import array_of_npy, json_bytes, npy_response
from app.api.bodies.carried import NOTHING, Carried, without
from app.api.bodies.csv_bodies import Words
from app.api.bodies.json_bodies import Reserve
from app.api.bodies.media_types import JSON, NPY, TABULAR
from app.api.bodies.tables import Sheet, table_response
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.features import Schema
from app.registry.loaded import Loaded
from app.usecases.predict import Answer

if TYPE_CHECKING:  # imported where needed: it takes 40 MB of memory that a service without Arrow clients can spare
    import pyarrow as pa

_BYTES_PER_WORD = 300  # of memory at most: a word that no other row has, and its codes
_FEW_COLUMNS = 16  # of an answer
_MAX_NULLS = 100_000  # rows of columns that have no bytes at all
Rows = tuple[np.ndarray, list[str]]


def rows_of_json(instances: list[Any], schema: Schema, *, booleans_possible: bool, carried: Carried = NOTHING) -> Rows:
    """Instances as parsed, encoded; places below /instances."""
    if carried.columns:
        instances = without(instances, carried, schema.names)
    try:
        return schema.encode(instances, booleans_possible=booleans_possible)
    except Invalid as error:
        raise error.under("/instances") from error


def rows_of_npy(body: bytes | bytearray, schema: Schema, reserve: Reserve) -> Rows:
    """A .npy file of numbers (n, m), rows in feature order, NaN where missing. Never unpickles."""
    if schema.categorical:
        raise Invalid.at(
            "", "the model has categorical features, which an array of numbers cannot contain; send JSON or Arrow"
        )
    X = array_of_npy(body, reserve)
    if X.ndim != 2 or X.shape[1] != len(schema.names):
        raise Invalid.at("", f"the shape of the array is {list(X.shape)}; it must be [n, {len(schema.names)}]")
    return finite(np.ascontiguousarray(X)), []


def rows_of_sheet(sheet: Sheet, schema: Schema) -> tuple[Rows, Carried]:
    """A table with a column for each feature, by name, in any order, null or empty where missing; what comes back."""
    table, carried = sheet.read(numeric_names(schema), schema.names, categories_of(schema))
    return _rows_of_table(table, schema, sheet.reserve), carried


def numeric_names(schema: Schema) -> set[str]:
    """The features that are numbers."""
    return {feature.name for feature in schema.features if feature.type == "numeric"}


def categories_of(schema: Schema) -> Words:
    """The categories of the features that have any."""
    return {feature.name: feature.categories for feature in schema.features if feature.type == "categorical"}


def _rows_of_table(table: pa.Table, schema: Schema, reserve: Reserve) -> Rows:
    import pyarrow as pa  # noqa: PLC0415

    from app.api.bodies.arrow_categories import codes_of  # noqa: PLC0415 - with pyarrow
    from app.data.arrow_text import floats  # noqa: PLC0415 - with pyarrow

    reject(flaws_of_names(Counter(table.column_names), schema.names))
    check_types(table, schema, schema.names)
    reserve(table.num_rows * (8 * len(schema.names) + _BYTES_PER_WORD * bool(schema.categorical)))
    X = np.empty((table.num_rows, len(schema.names)))
    warnings: list[str] = []
    for j, name in enumerate(schema.names):
        column = table.column(name)
        if j in schema.categorical:
            if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
                column = column.cast(pa.string())
            X[:, j], notes = codes_of(column, schema, j)
            warnings += notes
        else:
            X[:, j] = floats(column).to_numpy()
    return finite(X), warnings


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


def finite(X: np.ndarray, under: str = "") -> np.ndarray:
    """`X`; Invalid below `under` at each infinite number."""
    infinite = np.isinf(X)
    if infinite.any():
        message = "infinity is not allowed; use NaN or null for a missing value"
        reject(Flaw(under + pointer(i, j), message) for i, j in np.argwhere(infinite))
    return X


def flaws_of_names(counts: Mapping[str, int], known: Sequence[str], *, complete: bool = True) -> Iterator[Flaw]:
    """What is wrong with the names of columns, of which there are so many; `known` are the features.

    All of them must be there, unless the table need not be `complete`.
    """
    features = set(known)
    for name in counts:
        if name not in features:
            yield Flaw(
                pointer(name), unknown("feature", name, known) + "; `id` and `keep` name columns that only come back"
            )
    for name in known if complete else ():
        if name not in counts:
            yield Flaw("", f"feature {name!r} is missing")
    for name, count in counts.items():
        if count > 1:
            yield Flaw(pointer(name), "the table has this column twice")


def check_types(table: pa.Table, schema: Schema, names: Sequence[str]) -> None:
    """Invalid at the first column that holds neither what it should nor, perhaps, any bytes for its rows."""
    import pyarrow as pa  # noqa: PLC0415

    from app.data.arrow_text import is_number, is_text  # noqa: PLC0415 - with pyarrow

    if table.num_rows > _MAX_NULLS and all(map(pa.types.is_null, table.schema.types)):
        raise Invalid.at(pointer(names[0]), f"{table.num_rows:,} rows hold nothing but nulls")
    numbers = numeric_names(schema)
    for name in names:
        kind = table.column(name).type
        if name not in numbers:
            if not is_text(kind) and not pa.types.is_integer(kind) and not pa.types.is_null(kind):
                raise Invalid.at(pointer(name), f"the type of {name!r} is '{kind}'; it must be strings")
        elif not is_number(kind):
            raise Invalid.at(pointer(name), f"the type of {name!r} is '{kind}'; it must be numbers")
