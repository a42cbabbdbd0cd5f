"""Decisions for rows: sent as JSON, a NumPy array or an Arrow stream, in one request or several to one version."""

import io
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from uuid import UUID

import httpx
import numpy as np

from payoff_client.documents import Decided, adapter
from payoff_client.rows import FORM, NUMERIC, Table, arrow_tools, has_pyarrow, plain, whole
from payoff_client.showing import html_of
from payoff_client.transport import ARROW, JSON, NPY, Call, post, query

SHOWN = 10  # rows in notebooks
SMALL = 2_000  # values: JSON of fewer is as fast as the formats for many
PART_BYTES = (
    8 * 2**20
)  # of a part's numbers; the service takes bodies up to 64 MB unless it is set otherwise
PART_VALUES = 200_000  # of a part in JSON, of which the service takes 1,000,000
RECORDED_AT_ONCE = 50_000  # decisions, at most
_JSON_ONLY = frozenset({"explain", "record", "columns"})
_MATRICES = ("benefits", "cost_matrix")
_PER_ROW = ("ids", "explanations", "propensities")
_NOT_FIGURES = frozenset(
    (
        "model",
        "classes",
        "actions",
        "decisions",
        "probabilities",
        "expected_benefits",
        "warnings",
        *_PER_ROW,
    )
) | frozenset(("values", "expected_costs", "intervals"))
_MOST_NOTES = 100


@dataclass(frozen=True)
class Decisions:
    """Decisions for n rows, K classes and A actions.

    `choice` (n,) has positions in `actions`, `probabilities` is (n, K), `expected_benefits` (n, A) or None. A model of
    numbers has `values` (n,), and `quantities` by the names of their `columns` (n,). `figures` are the other fields of
    the answer: `rule`, `threshold`, `limits` with shadow prices, `total`. `ids`, `explanations` and `propensities` have
    an entry a row, where they were asked for.
    """

    model: dict[str, Any] | None
    classes: list[Any]
    actions: list[Any]
    choice: np.ndarray
    probabilities: np.ndarray
    expected_benefits: np.ndarray | None
    values: np.ndarray | None
    warnings: list[str]
    figures: dict[str, Any] = field(default_factory=dict)
    ids: list[Any] | None = None
    explanations: list[dict[str, Any]] | None = None
    propensities: list[float] | None = None
    quantities: dict[str, np.ndarray] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        columns = {name: column[:SHOWN].tolist() for name, column in self.columns().items()}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return html_of(
            f"{len(self.choice):,} decisions",
            {**self.figures, "warnings": self.warnings, "rows": rows},
        )

    @property
    def decisions(self) -> np.ndarray:
        """The action for each row, of a model of numbers with `unit_costs` the quantity; ValueError without them."""
        if "decision" in self.quantities:
            return self.quantities["decision"]
        if self.values is not None:
            raise ValueError("a model of numbers decides with unit_costs or bands; see `values`")
        found: np.ndarray = _named(self.actions)[self.choice]
        return found

    def columns(self) -> dict[str, np.ndarray]:
        """`decision`, `p:<class>` and `benefit:<action>`, or of numbers `decision`, `expected_cost`, `low`, `high` and
        `value`; and `id`, `propensity`, parts of explanations.
        """
        found = {} if self.ids is None else {"id": _named(self.ids)}
        if self.values is not None:
            return {**found, **self.quantities, "value": self.values}
        found["decision"] = self.decisions
        found |= {f"p:{name}": self.probabilities[:, k] for k, name in enumerate(self.classes)}
        if self.expected_benefits is not None:
            found |= {
                f"benefit:{name}": self.expected_benefits[:, a]
                for a, name in enumerate(self.actions)
            }
        if self.propensities is not None:
            found["propensity"] = np.array(self.propensities, dtype=np.float64)
        if self.explanations is not None:
            found["runner_up"] = _named([each["runner_up"] for each in self.explanations])
            found["margin"] = np.array(
                [each["margin"] for each in self.explanations], dtype=np.float64
            )
            parts = [each.get("contributions") or {} for each in self.explanations]
            for name in dict.fromkeys(name for each in parts for name in each):
                found[f"contribution:{name}"] = np.array(
                    [each.get(name, np.nan) for each in parts], dtype=np.float64
                )
        return found


def _named(names: Sequence[Any]) -> np.ndarray:
    """Names as an array of objects, integers as integers."""
    are_whole = bool(names) and all(type(name) is int and abs(name) < 2**63 for name in names)
    return np.array(names, dtype=np.int64 if are_whole else object)


def decisions_of(answer: httpx.Response, rows: int) -> Decisions:
    """The decisions for so many rows in an answer of `/predict`; ValueError for others."""
    is_table = answer.headers["Content-Type"].startswith(ARROW)
    text, columns = arrow_tools().decided(answer.content) if is_table else (answer.content, {})
    found = adapter(Decided).validate_json(text) | columns
    figures = {name: value for name, value in found.items() if name not in _NOT_FIGURES}
    classes, actions = found.get("classes") or [], found.get("actions") or []
    values, probabilities, benefits = (
        found.get(name) for name in ("values", "probabilities", "expected_benefits")
    )
    places = {str(name): place for place, name in enumerate(actions)}
    chosen = found.get("decisions", ()) if values is None else [0] * rows
    if not (is_table or values is not None):
        chosen = [places[str(name)] for name in chosen]
    per_row = [found.get(name) for name in _PER_ROW]
    if any(each is not None and len(each) != rows for each in (chosen, *per_row)):
        raise ValueError(f"it is not for {rows} rows")
    return Decisions(
        found.get("model"),
        classes,
        actions,
        np.asarray(chosen, dtype=np.int64),
        _numbers([] if values is not None else probabilities, (rows, len(classes))),
        None if benefits is None else _numbers(benefits, (rows, len(actions))),
        None if values is None else _numbers(values, (rows,)),
        found.get("warnings") or [],
        figures,
        **dict(zip(_PER_ROW, per_row, strict=True)),
        quantities={} if values is None else _quantities(found, rows),
    )


def _quantities(found: Mapping[str, Any], rows: int) -> dict[str, np.ndarray]:
    """What an answer has beside the numbers of a model, by the names of columns."""
    ends = found.get("intervals")
    low, high = (None, None) if ends is None else _numbers(ends, (rows, 2)).T
    columns = {"decision": found.get("decisions"), "expected_cost": found.get("expected_costs")}
    columns |= {"low": low, "high": high}
    return {name: _numbers(each, (rows,)) for name, each in columns.items() if each is not None}


def _numbers(sent: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(sent, dtype=np.float64).reshape(shape)


def joined(parts: Sequence[Decisions]) -> Decisions:
    """The decisions of one table that was sent in parts, all of them by the same model."""
    first = parts[0]
    if len(parts) == 1:
        return first
    fields = ("choice", "probabilities", "expected_benefits", "values", *_PER_ROW)
    whole: dict[str, Any] = {}
    for name in fields:
        found = [getattr(part, name) for part in parts]
        if isinstance(found[0], np.ndarray):
            whole[name] = np.concatenate(found)
        elif found[0] is not None:
            whole[name] = [each for part in found for each in part]
    quantities = {
        name: np.concatenate([part.quantities[name] for part in parts]) for name in first.quantities
    }
    return replace(
        first, **whole, quantities=quantities, warnings=notes_of(part.warnings for part in parts)
    )


def notes_of(parts: Iterable[Sequence[str]]) -> list[str]:
    """The different warnings of parts, about a hundred at most."""
    return list(dict.fromkeys(text for warnings in parts for text in warnings))[:_MOST_NOTES]


@dataclass(frozen=True)
class Features:
    """The features of a version: names in its order, what each takes (see `of_feature`), as `values` beside them do;
    its classes, if any.
    """

    model: str
    names: tuple[str, ...]
    kinds: Mapping[str, str]
    classes: tuple[Any, ...] | None
    values: Mapping[str, str]

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> Self:
        names = tuple(feature["name"] for feature in card["features"])
        kinds = {
            each["name"]: FORM if each.get("form") else each["type"] for each in card["features"]
        }
        classes = None if card.get("classes") is None else tuple(card["classes"])
        values = {name: FORM if form else NUMERIC for name, form in card.get("values", {}).items()}
        return cls(f"{card['name']}:{card['version']}", names, kinds, classes, values)

    def beside(self, table: Table, columns: Sequence[str]) -> Self:
        """With those columns of a table that cells of the matrix name, which are sent like features."""
        names = [name for name in columns if name in (table.names or ()) and name not in self.names]
        kinds = {name: self.values.get(name, NUMERIC) for name in names}
        return replace(self, names=(*self.names, *names), kinds={**self.kinds, **kinds})

    def kept(self, table: Table, others: Iterable[str], *, whole: bool = False) -> list[str]:
        """The columns that come back, those that the model does not use or the `whole` table; ValueError where one has
        a name of the result.

        `others` are names that the result has beside the usual ones; one that ends with a colon begins names.
        """
        usual = (
            ["value"]
            if self.classes is None
            else ["decision", "benefit:", *(f"p:{one}" for one in self.classes)]
        )
        own = {*usual, *others}
        kept = [name for name in table.names or () if whole or name not in self.names]
        for name in kept:
            if not own.isdisjoint((name, "".join(name.partition(":")[:2]))):
                raise ValueError(
                    f"the result has a column {name!r} of its own; rename that of the frame"
                )
        return kept


def case_columns(fields: Mapping[str, Any]) -> list[str]:
    """The columns that cells of a matrix name, once each."""
    matrix = fields.get("benefits") or fields.get("cost_matrix")
    rows = (
        matrix.values() if isinstance(matrix, dict) else matrix if isinstance(matrix, list) else ()
    )
    cells = [cell for row in rows for cell in (row.values() if isinstance(row, dict) else row)]
    found = (cell.get("column") for cell in cells if isinstance(cell, dict))
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))


def stated(**fields: Any) -> dict[str, Any]:
    """The fields that were given, as JSON has them: frames and arrays of benefits as objects and lists."""
    return {name: _stated(value) for name, value in fields.items() if value is not None}


def _stated(value: Any) -> Any:
    if hasattr(value, "to_dict") and hasattr(
        value, "index"
    ):  # pandas: classes are its index, actions its columns
        value = value.to_dict("index")
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _stated(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_stated(each) for each in value]
    return plain(value)


def named(kind: str | Mapping[str, Any], field: str) -> dict[str, Any]:
    """A name as the object that has it: a kind of learner, a loss."""
    return {field: kind} if isinstance(kind, str) else dict(kind)


def recorded(table: Table, record: Any) -> bool | dict[str, Any]:
    """The field `record`, always with ids: a request that is repeated under its own ids records nothing twice."""
    if record is False:
        return False
    sent = dict(record) if isinstance(record, Mapping) else {}
    ids = table.column(record) if isinstance(record, str) else sent.get("ids")
    if ids is None:
        ids = [_new_id() for _ in range(len(table))]
    found = [whole(plain(value)) for value in ids]
    return {**sent, "ids": [str(value) if type(value) is int else value for value in found]}


def _new_id() -> str:
    """A UUID whose order is that of time (RFC 9562, version 7)."""
    number = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    return str(UUID(int=number & ~(0xF << 76 | 3 << 62) | 7 << 76 | 2 << 62))


def are_together(fields: Mapping[str, Any]) -> bool:
    """Whether the decisions depend on all rows together."""
    return not fields.keys().isdisjoint(("limits", "resources", "sum_at_most"))


def _is_per_row(benefits: Any) -> bool:
    """Whether these are matrices, one for each row."""
    if not isinstance(benefits, list) or not benefits:
        return False
    first = benefits[0]
    return isinstance(first, dict) or (
        isinstance(first, list) and bool(first) and isinstance(first[0], list)
    )


def form_of(table: Table, features: Features | None, fields: Mapping[str, Any]) -> str:
    """The media type of the rows: JSON where they are few, or such as nothing else can carry."""
    width = len(features.names) if features else table.data.shape[1]
    has_other = not fields.keys().isdisjoint(_JSON_ONLY) or any(
        _is_per_row(fields.get(name)) for name in _MATRICES
    )
    if has_other or len(table) * width <= SMALL:
        return JSON
    if features is None:
        return NPY if table.data.dtype.kind in "iufb" else JSON
    return ARROW if table.is_frame and has_pyarrow() else JSON


def rows_at_once(table: Table, width: int, fields: Mapping[str, Any], form: str) -> int:
    """How many rows go into one request."""
    if are_together(fields):
        return max(len(table), 1)
    if form != JSON:
        return max(PART_BYTES // (8 * max(width, 1)), 1)
    matrices = [fields[name][0] for name in _MATRICES if _is_per_row(fields.get(name))]
    extra = len(json.dumps(matrices)) // 2 + len(fields.get("columns", ()))  # values, at most
    return min(max(PART_VALUES // (2 * width + 2 + extra), 1), RECORDED_AT_ONCE)


def of_part(fields: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """The fields for some of the rows."""
    sent = {
        name: value[start:stop] if name in _MATRICES and _is_per_row(value) else value
        for name, value in fields.items()
    }
    if "columns" in sent:
        sent["columns"] = {name: values[start:stop] for name, values in sent["columns"].items()}
    if isinstance(sent.get("record"), dict):
        sent["record"] = {**sent["record"], "ids": sent["record"]["ids"][start:stop]}
    return sent


def call_for(
    path: str, table: Table, features: Features | None, fields: Mapping[str, Any], form: str = JSON
) -> Call:
    """The request for the rows; Invalid where a value is none of its feature, ValueError where a number is infinite."""
    if form == NPY:
        return of_array(path, table.data, fields, ARROW if has_pyarrow() else JSON)
    names, kinds = (features.names, features.kinds) if features is not None else ((), {})
    if form == ARROW:
        content = arrow_tools().stream(table, names, kinds)
        return Call("POST", path, query(fields), content, {"Content-Type": ARROW, "Accept": ARROW})
    return post(path, {**fields, "instances": table.instances(names, kinds)})


def of_array(path: str, numbers: np.ndarray, fields: Mapping[str, Any], accept: str = JSON) -> Call:
    """The request for numbers as a .npy file."""
    sink = io.BytesIO()
    np.save(sink, np.asarray(numbers, dtype=np.float64), allow_pickle=False)
    return Call(
        "POST", path, query(fields), sink.getvalue(), {"Content-Type": NPY, "Accept": accept}
    )
