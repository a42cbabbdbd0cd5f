"""Instances in requests and decisions in answers: JSON, NumPy arrays, Arrow streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import Response

from app.api.bodies.arrow_categories import codes_of
from app.api.bodies.binary import (
    ARROW,
    NPY,
    array_of_npy,
    arrow_response,
    json_bytes,
    npy_response,
    table_of_arrow,
)
from app.api.bodies.csv_bodies import CSV, Dialect, csv_response, table_of_csv
from app.api.bodies.documents import JSON
from app.api.bodies.json_bodies import Reserve, free
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.features import Schema
from app.registry.loaded import Loaded
from app.usecases.predict import Answer

if TYPE_CHECKING:  # imported where needed: it takes 40 MB of memory that a service without Arrow clients can spare
    import pyarrow as pa

_BYTES_PER_WORD = 300  # of memory at most: a word that no other row has, and its codes
Rows = tuple[np.ndarray, list[str]]


def rows_of_json(instances: list[Any], schema: Schema, *, booleans_possible: bool) -> Rows:
    """Instances as parsed, encoded; places below /instances."""
    try:
        return schema.encode(instances, booleans_possible=booleans_possible)
    except Invalid as error:
        raise error.under("/instances") from error


def rows_of_npy(body: bytes, schema: Schema, reserve: Reserve = free) -> Rows:
    """A .npy file of numbers (n, m), rows in feature order, NaN where missing. Never unpickles."""
    if schema.categorical:
        raise Invalid.at(
            "", "the model has categorical features, which an array of numbers cannot contain; send JSON or Arrow"
        )
    X = array_of_npy(body, reserve)
    if X.ndim != 2 or X.shape[1] != len(schema.names):
        raise Invalid.at("", f"the shape of the array is {list(X.shape)}; it must be [n, {len(schema.names)}]")
    return _finite(np.ascontiguousarray(X)), []


def rows_of_arrow(body: bytes, schema: Schema, reserve: Reserve = free) -> Rows:
    """An Arrow IPC stream with a column for each feature, by name, in any order; null where missing."""
    return _rows_of_table(table_of_arrow(body), schema, reserve)


def rows_of_csv(body: bytes, dialect: Dialect, schema: Schema, reserve: Reserve = free) -> Rows:
    """A CSV file with a column for each feature, by name, in any order; empty where missing."""
    words = {schema.names[j] for j in schema.categorical}
    return _rows_of_table(table_of_csv(body, words, dialect, reserve), schema, reserve)


def _rows_of_table(table: pa.Table, schema: Schema, reserve: Reserve) -> Rows:
    import pyarrow as pa  # noqa: PLC0415

    reject(_flaws_of_names(Counter(table.column_names), schema.names))
    _check_types(table, schema)
    reserve(table.num_rows * (8 * len(schema.names) + _BYTES_PER_WORD * bool(schema.categorical)))
    X = np.empty((table.num_rows, len(schema.names)))
    warnings: list[str] = []
    for j, name in enumerate(schema.names):
        column = table.column(name)
        if j in schema.categorical:
            X[:, j], notes = codes_of(column, schema, j)
            warnings += notes
        else:
            X[:, j] = column.cast(pa.float64(), safe=False).to_numpy()
    return _finite(X), warnings


READERS: dict[str, Callable[[bytes, Schema, Reserve], Rows]] = {NPY: rows_of_npy, ARROW: rows_of_arrow}


def to_json(answer: Answer, model: Loaded | None) -> Response:
    """The contract's document."""
    document = {
        **({} if model is None else {"model": model.model}),
        "rule": answer.rule,
        "classes": answer.classes,
        "actions": answer.actions,
        "decisions": list(map(answer.actions.__getitem__, answer.choice.tolist())),
        "probabilities": answer.probabilities,
        **({} if answer.expected_benefits is None else {"expected_benefits": answer.expected_benefits}),
        **answer.figures,
        **({} if answer.explanations is None else {"explanations": answer.explanations}),
        "warnings": answer.warnings,
    }
    return Response(json_bytes(document), media_type=JSON)


def to_npy(answer: Answer, model: Loaded | None) -> Response:
    """A float64 array: the decided action's position, K probabilities and, with benefits, A expected benefits a row.

    What is not columnar stands in the `Payoff-Answer` header as JSON.
    """
    return npy_response([_columns(answer)], _rest(answer, model))


def to_arrow(answer: Answer, model: Loaded | None) -> Response:
    """A stream with columns `decision`, `p:<class>`… and `benefit:<action>`…; the rest is JSON in its metadata."""
    return arrow_response(_named_columns(answer), _rest(answer, model))


def to_csv(answer: Answer, model: Loaded | None) -> Response:
    """The columns of `to_arrow` as CSV; the rest is JSON in the `Payoff-Answer` header."""
    columns = _named_columns(answer)
    return csv_response(columns | {"decision": columns["decision"].dictionary_decode()}, _rest(answer, model))


def _named_columns(answer: Answer) -> dict[str, pa.Array]:
    import pyarrow as pa  # noqa: PLC0415

    names = [f"p:{name}" for name in answer.classes]
    if answer.expected_benefits is not None:
        names += [f"benefit:{name}" for name in answer.actions]
    numbers = _columns(answer).T[1:]
    words = pa.array([str(name) for name in answer.actions])
    decision = pa.DictionaryArray.from_arrays(pa.array(answer.choice, pa.int32()), words)
    arrays: list[pa.Array] = [decision, *(pa.array(np.ascontiguousarray(column)) for column in numbers)]
    return dict(zip(["decision", *names], arrays, strict=True))


WRITERS: dict[str, Callable[[Answer, Loaded | None], Response]] = {
    JSON: to_json,
    NPY: to_npy,
    ARROW: to_arrow,
    CSV: to_csv,
}


def _columns(answer: Answer) -> np.ndarray:
    parts = [answer.choice[:, None], answer.probabilities]
    if answer.expected_benefits is not None:
        parts.append(answer.expected_benefits)
    return np.hstack(parts, dtype=np.float64)


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


def _finite(X: np.ndarray) -> np.ndarray:
    infinite = np.isinf(X)
    if infinite.any():
        message = "infinity is not allowed; use NaN or null for a missing value"
        reject(Flaw(pointer(i, j), message) for i, j in np.argwhere(infinite))
    return X


def _flaws_of_names(counts: Mapping[str, int], known: Sequence[str]) -> Iterator[Flaw]:
    """What is wrong with the names of columns, of which there are so many; `known` are the features."""
    features = set(known)
    for name in counts:
        if name not in features:
            yield Flaw(pointer(name), unknown("feature", name, known))
    for name in known:
        if name not in counts:
            yield Flaw("", f"feature {name!r} is missing")
    for name, count in counts.items():
        if count > 1:
            yield Flaw(pointer(name), "the stream has this column twice")


def _check_types(table: pa.Table, schema: Schema) -> None:
    """Invalid at the first column that holds neither what it should nor, perhaps, any bytes for its rows."""
    import pyarrow as pa  # noqa: PLC0415

    for j, name in enumerate(schema.names):
        kind = table.column(name).type
        if j in schema.categorical:
            if not _is_text(kind):
                raise Invalid.at(pointer(name), f"the type of {name!r} is '{kind}'; it must be strings")
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise Invalid.at(pointer(name), f"the type of {name!r} is '{kind}'; it must be numbers")


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
