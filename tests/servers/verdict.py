"""What must be true of every answer, whatever was asked."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pydantic import BaseModel, TypeAdapter, ValidationError

from tests.servers.direct import Answer
from tests.servers.fuzzing import ARROW, JSON, NPY, Sent

PROBLEM = "application/problem+json"
_UNDOCUMENTED = ("/openapi.json", "/docs")
_UNROUTED = {403, 404, 405, 413, 415, 422, 503}


def flaws_of(answer: Answer, sent: Sent, content: bytes, document: Mapping[str, Any]) -> list[str]:
    """What is wrong with the answer; `content` is the body that was sent, `document` the OpenAPI document."""
    found = []
    if answer.status not in _documented(answer, sent, document):
        found.append(f"the status {answer.status} is not documented")
    if answer.status >= 500 and (answer.status != 503 or "retry-after" not in answer.headers):
        found.append("a server error")
    return found + (_about_problem(answer, sent, content) if answer.status >= 400 else _about_content(answer))


def _documented(answer: Answer, sent: Sent, document: Mapping[str, Any]) -> set[int]:
    path = getattr(answer.route, "path", sent.path)  # the entrance answers plain requests before they are routed
    operation = document["paths"].get(path, {}).get(sent.method.lower())
    if operation is None:
        return _UNROUTED | ({200} if path in _UNDOCUMENTED else set())
    return {405, *map(int, operation["responses"])}


def _about_problem(answer: Answer, sent: Sent, content: bytes) -> list[str]:
    if answer.headers.get("content-type") != PROBLEM:
        return [f"an error comes as {answer.headers.get('content-type')}"]
    problem = orjson.loads(answer.body)
    if problem.keys() - {"errors"} != {"type", "title", "status", "detail"} or problem["status"] != answer.status:
        return ["this is no problem document"]
    given = _given(answer, sent, content)
    flaws = problem.get("errors", [])
    lost = [flaw["loc"] for flaw in flaws if not any(resolves(flaw["loc"], one) for one in given)]
    found = [f"{loc!r} leads nowhere in what was sent" for loc in lost]
    if answer.status == 422 and not flaws:
        found.append("a 422 names no place")
    return found


def _given(answer: Answer, sent: Sent, content: bytes) -> list[Any]:
    """What a place can be a place in: a JSON body; the parameters of the query and the path, by name; `headers`; and of
    an array or a table its rows, as the field that they stand for, and its columns by name.
    """
    query = {name: _json_or_text(text) for name, text in sent.query.items()}
    fields = {**dict.fromkeys(_names(answer)), **query, "headers": dict.fromkeys(_names(answer)) | dict(sent.headers)}
    repeated = {name: [text] for name, text in sent.query.items()}
    if isinstance(sent.body, bytes):
        rows = _rows(content)
        table = {**fields, **_columns(content), "instances": rows, "probabilities": rows}
        return [table, rows, repeated, {"file": {}, "label": [None]}]  # of an upload: `/file/column`, `/label/0`
    try:
        return [json.loads(content, parse_constant=_no_constant), fields, repeated]
    except (ValueError, RecursionError):
        return [fields, repeated]


def _names(answer: Answer) -> set[str]:
    """Of all parameters that the route documents."""
    dependant = getattr(answer.route, "dependant", None)
    kinds = ("path_params", "query_params", "header_params")
    return {field.alias for kind in kinds for field in getattr(dependant, kind, [])}


def _no_constant(text: str) -> float:
    raise ValueError(text)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _table(content: bytes) -> pa.Table | None:
    try:
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)  # reading values of a damaged one may end the process
    except Exception:  # noqa: BLE001 - whatever a broken stream brings up
        return None
    return table


def _columns(content: bytes) -> dict[str, Any]:
    table = _table(content)
    return {} if table is None else {name: table.column(name).to_pylist() for name in set(table.column_names)}


def _rows(content: bytes) -> Any:
    table = _table(content)
    if table is not None:
        columns = [column.to_pylist() for column in table.columns]
        return columns[0] if len(columns) == 1 else list(map(list, zip(*columns, strict=True)))
    try:
        return np.load(io.BytesIO(content)).tolist()
    except Exception:  # noqa: BLE001 - whatever a broken file brings up
        return None


def resolves(loc: str, sent: Any) -> bool:
    """Whether the JSON pointer leads somewhere in what was sent, or to an absent member of an object that is there."""
    if not loc:
        return True
    first, *steps = (step.replace("~1", "/").replace("~0", "~") for step in loc.split("/"))
    if first:
        return False
    for number, step in enumerate(steps):
        if isinstance(sent, dict):
            if step not in sent:
                return number == len(steps) - 1
            sent = sent[step]
        elif isinstance(sent, list) and step.isdigit() and int(step) < len(sent):
            sent = sent[int(step)]
        else:
            return False
    return True


def _about_content(answer: Answer) -> list[str]:
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind == JSON:
        return _about_json(answer) if answer.status != 204 else []
    if kind == NPY:
        file, found = io.BytesIO(answer.body), []
        while file.tell() < len(answer.body):
            found.append(np.load(file))
        return [] if all(np.isfinite(array).all() for array in found) else ["a number that is not finite"]
    if kind == ARROW:
        return [] if _is_finite(pa.ipc.open_stream(answer.body).read_all()) else ["a number that is not finite"]
    return []


def _about_json(answer: Answer) -> list[str]:
    try:
        document = orjson.loads(answer.body)  # strict: neither NaN nor Infinity
    except orjson.JSONDecodeError as error:
        return [f"no JSON: {error}"]
    form = getattr(answer.route, "response_model", None)
    if form is not None and (answer.status in (200, 201, 202)):
        try:  # where a number is due, null would be a NaN
            _adapter(form).validate_json(answer.body.replace(b'"from":', b'"lineage":'))  # it is read by another name
        except ValidationError as error:
            return [f"not as documented: {error}"]
    return _about_figures(document) if isinstance(document, dict) else []


@lru_cache(maxsize=256)
def _adapter(form: type[BaseModel]) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def _about_figures(document: dict[str, Any]) -> list[str]:
    rows = [row for row in document.get("probabilities") or [] if isinstance(row, list)]
    wrong = [row for row in rows if not (min(row) >= 0 and math.isclose(sum(row), 1, abs_tol=1e-6))]
    found = [f"probabilities that do not sum to 1: {row}" for row in wrong]
    for chosen in document.get("sets") or []:
        rates = chosen["expected_precision"], chosen["expected_recall"]
        if not all(-1e-9 <= rate <= 1 + 1e-9 for rate in rates) or len(set(chosen["selected"])) != chosen["k"]:
            found.append(f"not a set with its rates: {chosen}")
    return found


def _is_finite(table: pa.Table) -> bool:
    numbers = [c for c in table.columns if pa.types.is_floating(c.type) or pa.types.is_list(c.type)]
    flat = [c.combine_chunks().flatten() if pa.types.is_list(c.type) else c for c in numbers]
    return all(not c.null_count and np.isfinite(c.to_numpy().astype(float)).all() for c in flat)
