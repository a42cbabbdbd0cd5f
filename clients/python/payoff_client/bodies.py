"""Requests for predictions: the rows as JSON, a NumPy array or an Arrow stream, by size and type."""

from __future__ import annotations

import io
import json
import math
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from uuid import UUID

import numpy as np

from payoff_client.errors import Flaw, Invalid
from payoff_client.tables import Rows, instances_of, rows_of
from payoff_client.values import MAX_FLAWS, Table, plain, whole
from payoff_client.wire import Call, Content, post

NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
SMALL = 2_000  # values: JSON of fewer is as fast as the formats for many
PART_BYTES = 8 * 2**20  # of a part's numbers; the service takes bodies up to 64 MB unless it is set otherwise
RECORDED_AT_ONCE = 50_000  # decisions, at most
PART_VALUES = 200_000  # of a part in JSON, of which the service takes 1,000,000
_BLOCK = 2**20
_TEXT_FIELDS = frozenset(
    {"model", "rule", "setting", "method", "delimiter", "decimal", "encoding", "id"}
)  # that a query has as they are, others as JSON
_JSON_ONLY = frozenset({"explain", "record", "ids"})
_MATRICES = ("benefits", "cost_matrix")
_BATCH_FIELDS = frozenset({"limits", "resources"})  # they hold for all rows together


@dataclass(frozen=True)
class Features:
    """The features of a version: names in its order, and those of them that are categories; its classes, if any."""

    model: str
    names: tuple[str, ...]
    categorical: frozenset[str]
    classes: tuple[Any, ...] | None

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> Features:
        names = tuple(feature["name"] for feature in card["features"])
        texts = frozenset(feature["name"] for feature in card["features"] if feature["type"] != "numeric")
        classes = card.get("classes")
        return cls(f"{card['name']}:{card['version']}", names, texts, None if classes is None else tuple(classes))

    def check(self, table: Table, own: Collection[str] | None = None) -> None:
        """Invalid where a frame lacks a feature, or has it twice; the service checks objects, each by itself.

        A column that resembles a feature which is missing is named. ValueError where the result is a table and has such
        a column: `own` are names beside those of each result, or how they begin, up to a colon.
        """
        if table.names is None:
            return
        found, kept = Counter(table.names), self.kept(table)
        flaws = []
        for name in self.names:
            alike = get_close_matches(name, kept, 1) if found[name] == 0 else []
            if alike:
                flaws.append(Flaw("", f"no feature of {self.model}; did you mean {name!r}?", column=alike[0]))
            elif found[name] != 1 and not isinstance(table, Rows):
                msg = "the frame has this column twice" if found[name] else "this feature is missing"
                flaws.append(Flaw("", msg, column=name))
        if flaws:
            raise Invalid(flaws[0].msg, status=422, title="Invalid request", errors=flaws)
        if own is None:
            return
        decided = {"value"} if self.classes is None else {"decision", "benefit:", *(f"p:{one}" for one in self.classes)}
        for name in self.kept(table):
            if not decided.union(own).isdisjoint((name, "".join(name.partition(":")[:2]))):
                raise ValueError(f"the result has a column {name!r} of its own; rename that of the frame")

    def kept(self, table: Table) -> list[str]:
        """The columns that the model does not use: they come back."""
        return [name for name in table.names or () if name not in self.names]


def stated(**fields: Any) -> dict[str, Any]:
    """The fields that were given, as JSON has them: frames and arrays of benefits as objects and lists."""
    return {name: _stated(value) for name, value in fields.items() if value is not None}


def _stated(value: Any) -> Any:
    if hasattr(value, "to_dict") and hasattr(value, "index"):  # pandas: classes are its index, actions its columns
        value = value.to_dict("index")
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _stated(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_stated(each) for each in value]
    return value if isinstance(value, bool) else plain(value)


def is_per_row(benefits: Any) -> bool:
    """Whether these are matrices, one for each row."""
    if not isinstance(benefits, list) or not benefits:
        return False
    first = benefits[0]
    return isinstance(first, dict) or (isinstance(first, list) and bool(first) and isinstance(first[0], list))


def recorded(table: Table, record: Any) -> bool | dict[str, Any]:
    """The field `record`, always with ids: a request that is repeated under its own ids records nothing twice."""
    if record is False:
        return False
    if isinstance(record, str):
        if record not in (table.names or ()):
            raise ValueError(f"no column {record!r}, which was to have the ids")
        return {"ids": _ids(table, table.column(record), record)}
    sent = dict(record) if isinstance(record, Mapping) else {}
    ids = sent.get("ids")
    return {**sent, "ids": new_ids(len(table)) if ids is None else _ids(table, ids, None)}


def _ids(table: Table, values: Iterable[Any], column: str | None) -> list[str]:
    """Ids as text; Invalid at the rows where they are missing, or neither text nor integers."""
    found = [whole(plain(value)) for value in values]
    flaws = [
        Flaw("" if column else f"/record/ids/{i}", _no_id(value), table.label(i) if i < len(table) else None, column)
        for i, value in enumerate(found)
        if type(value) not in (str, int)
    ]
    if flaws:
        raise Invalid(flaws[0].msg, status=422, title="Invalid request", errors=flaws[:MAX_FLAWS])
    return list(map(str, found))


def _no_id(value: Any) -> str:
    return "the id is missing" if value is None else f"an id is text or an integer, not {value!r}"


def new_ids(count: int) -> list[str]:
    """Ids for decisions."""
    return [_new_id() for _ in range(count)]


def _new_id() -> str:
    """A UUID whose order is that of time (RFC 9562, version 7)."""
    number = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    return str(UUID(int=number & ~(0xF << 76 | 3 << 62) | 7 << 76 | 2 << 62))


def of_batch(fields: Mapping[str, Any]) -> bool:
    """Whether the decisions depend on all rows together."""
    return isinstance(fields.get("priors"), str) or not fields.keys().isdisjoint(_BATCH_FIELDS)


def part_rows(table: Table, features: Features | None, fields: Mapping[str, Any], *, as_json: bool) -> int:
    """How many rows go into one request."""
    if of_batch(fields):
        return max(len(table), 1)
    width = max(len(features.names) if features else 0, 1)
    if not as_json:
        return max(PART_BYTES // (8 * width), 1)
    extra = sum(_values(fields[name][0]) for name in _MATRICES if is_per_row(fields.get(name)))
    return min(max(PART_VALUES // (2 * width + 2 + extra), 1), RECORDED_AT_ONCE)


def is_json(table: Table, features: Features | None, fields: Mapping[str, Any]) -> bool:
    """Whether the rows go as JSON: few rows, or such as nothing else can carry."""
    if not fields.keys().isdisjoint(_JSON_ONLY) or any(is_per_row(fields.get(name)) for name in _MATRICES):
        return True
    names = list(features.names) if features else []
    first = table.part(0, 1)
    width = len(names) or len(rows_of(first, None)[0]) if len(table) else 0
    if len(table) * width <= SMALL:
        return True
    return _matrix(first, features) is None and (table.names is None or table.part(0, 0).arrow(names) is None)


def _matrix(table: Table, features: Features | None) -> np.ndarray | None:
    """The rows as numbers in feature order; None where the model or the rows have others."""
    if features is not None and features.categorical:
        return None
    return table.matrix(list(features.names) if features else [])


def of_part(fields: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """The fields for some of the rows."""
    sent = dict(fields)
    for name in _MATRICES:
        if is_per_row(sent.get(name)):
            sent[name] = sent[name][start:stop]
    if "ids" in sent:
        sent["ids"] = sent["ids"][start:stop]
    if isinstance(sent.get("record"), dict) and "ids" in sent["record"]:
        sent["record"] = {**sent["record"], "ids": sent["record"]["ids"][start:stop]}
    return sent


def predict_call(
    path: str, table: Table, features: Features | None, fields: Mapping[str, Any], *, as_json: bool, accept: str = NPY
) -> tuple[Call, bool]:
    """The request for the rows of one part, and whether its body is a table; Invalid where a number is infinite."""
    names = list(features.names) if features is not None and table.names is not None else []
    if not as_json:
        X = _matrix(table, features)
        if X is not None:
            return of_array(path, X, accept, fields), True
        stream = table.arrow(names, features.categorical if features else ()) if table.names is not None else None
        if stream is not None:
            return Call("POST", path, query(fields), stream, {"Content-Type": ARROW, "Accept": accept}), True
    if features is None or table.names is None:
        rows = rows_of(table, table.names)
    else:
        rows = instances_of(table, names, features.categorical)
    try:
        return post(path, {**fields, "instances": rows}), False
    except ValueError as error:
        raise _infinite(rows) or error from error


def of_array(path: str, X: np.ndarray, accept: str, fields: Mapping[str, Any]) -> Call:
    content, length = npy(X)
    headers = {"Content-Type": NPY, "Accept": accept, "Content-Length": str(length)}
    return Call("POST", path, query(fields), content, headers)


def query(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as query parameters: each as JSON."""
    return {name: value if name in _TEXT_FIELDS else json.dumps(value) for name, value in fields.items()}


def npy(X: np.ndarray) -> tuple[Content, int]:
    """The array as a .npy file, in blocks that copy little of it; and its length."""
    header = io.BytesIO()
    X = np.ascontiguousarray(X)
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(X))
    numbers = memoryview(X.reshape(-1).view(np.uint8).data)

    def blocks() -> Iterator[bytes]:
        yield header.getvalue()
        for start in range(0, len(numbers), _BLOCK):
            yield bytes(numbers[start : start + _BLOCK])

    return blocks, len(header.getvalue()) + len(numbers)


def _infinite(rows: Sequence[Any]) -> Invalid | None:
    found = [
        Flaw(f"/instances/{i}/{name}", "infinity is not allowed; use NaN or null for a missing value")
        for i, row in enumerate(rows)
        for name, value in (row.items() if isinstance(row, dict) else enumerate(row))
        if isinstance(value, float) and math.isinf(value)
    ]
    return Invalid(found[0].msg, status=422, title="Invalid request", errors=found[:MAX_FLAWS]) if found else None


def _values(sent: Any) -> int:
    """How many values a value counts for."""
    if isinstance(sent, dict):
        return 2 + sum(1 + _values(each) for each in sent.values())
    return 1 + sum(map(_values, sent)) if isinstance(sent, list) else 1
