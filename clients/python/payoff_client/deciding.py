"""Decisions for rows, sent as JSON, a NumPy array or an Arrow stream, in one or more requests."""

import io
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Self
from uuid import UUID

import httpx
import numpy as np

from payoff_client.documents import Decided, adapter
from payoff_client.rows import (
    CATEGORICAL,
    NOTATION,
    NUMERIC,
    Table,
    arrow_tools,
    has_pyarrow,
    integral,
    plain,
)
from payoff_client.showing import html_of
from payoff_client.transport import ARROW, JSON, NPY, Call, post, query

SHOWN_ROWS = 10  # in notebooks
# values of a table: JSON of fewer is as fast as the formats for large tables
SMALL = 2_000
# Of the numbers of one request; the service takes bodies up to 64 MB unless it is set otherwise.
PART_BYTES = 8 * 2**20
PART_VALUES = 200_000  # of one request in JSON; the service takes 1,000,000
RECORDED_AT_ONCE = 50_000  # decisions that one request records, at most
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
        "uplift",
        "warnings",
    )
) | frozenset(("values", "expected_costs", "intervals", *_PER_ROW))
_MOST_NOTES = 100


@dataclass(frozen=True)
class Decisions:
    """Decisions for n rows, K classes and A actions.

    `choice` (n,) has positions in `actions`, `probabilities` is (n, K), `expected_benefits` (n, A)
    or None; with a baseline `uplift` is (n, A). A model that learned from rewards has no classes. A
    model of numbers has `values` (n,), and `quantities` by the names of their `columns`
    (n,). `figures` are the other fields of the answer: `rule`, `threshold`, `limits` with shadow
    prices, `total`. `ids`, `explanations` and `propensities` have an entry for each row where the
    request has them.
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
    uplift: np.ndarray | None = None

    def _repr_html_(self) -> str:
        columns = {
            name: column[:SHOWN_ROWS].tolist()
            for name, column in self.columns().items()
        }
        rows = [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
        document = {**self.figures, "warnings": self.warnings, "rows": rows}
        return html_of(f"{len(self.choice):,} decisions", document)

    @property
    def decisions(self) -> np.ndarray:
        """The action for each row; of a model of numbers the quantity.

        ValueError for a model of numbers without `unit_costs` and `bands`.
        """
        if "decision" in self.quantities:
            return self.quantities["decision"]
        if self.values is not None:
            raise ValueError(
                "a model of numbers decides with unit_costs or bands; see `values`"
            )
        decisions: np.ndarray = _array_of(self.actions)[self.choice]
        return decisions

    def columns(self) -> dict[str, np.ndarray]:
        """The columns of a frame: `decision`, `p:<class>` and `benefit:<action>`, for example.

        A model of numbers has `decision`, `expected_cost`, `low`, `high` and `value`. Further
        columns are `id`, `propensity` and those of explanations.
        """
        columns = {} if self.ids is None else {"id": _array_of(self.ids)}
        if self.values is not None:
            return {**columns, **self.quantities, "value": self.values}
        columns["decision"] = self.decisions
        columns |= {
            f"p:{name}": self.probabilities[:, k] for k, name in enumerate(self.classes)
        }
        by_action = {"benefit": self.expected_benefits, "uplift": self.uplift}
        for short, amounts in by_action.items():
            if amounts is not None:
                for name, column in zip(self.actions, amounts.T, strict=True):
                    columns[f"{short}:{name}"] = column
        if self.propensities is not None:
            columns["propensity"] = np.array(self.propensities, dtype=np.float64)
        if self.explanations is not None:
            columns |= _explained(self.explanations)
        return columns


def _explained(explanations: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The columns of explanations: `runner_up`, `margin`, `contribution:<feature>`, and `reason:1`…
    where there are reasons: the text of each, or else its feature.
    """
    margins = [explanation["margin"] for explanation in explanations]
    columns = {
        "runner_up": _array_of(
            [explanation["runner_up"] for explanation in explanations]
        ),
        "margin": np.array(margins, dtype=np.float64),
    }
    contributions = [
        explanation.get("contributions") or {} for explanation in explanations
    ]
    for name in dict.fromkeys(name for row in contributions for name in row):
        values = [row.get(name, np.nan) for row in contributions]
        columns[f"contribution:{name}"] = np.array(values, dtype=np.float64)
    texts = [
        [reason["text"] or reason["feature"] for reason in row.get("reasons") or ()]
        for row in explanations
    ]
    for rank, column in enumerate(zip_longest(*texts), 1):
        columns[f"reason:{rank}"] = _array_of(column)
    return columns


def _array_of(names: Sequence[Any]) -> np.ndarray:
    """Names as an array of objects, integers as integers."""
    are_integers = bool(names) and all(
        type(name) is int and abs(name) < 2**63 for name in names
    )
    return np.array(names, dtype=np.int64 if are_integers else object)


def decisions_of(answer: httpx.Response, rows: int) -> Decisions:
    """The decisions for so many rows in an answer of `/predict`; ValueError for other answers."""
    is_table = answer.headers["Content-Type"].startswith(ARROW)
    text, columns = (
        arrow_tools().decided(answer.content) if is_table else (answer.content, {})
    )
    document = adapter(Decided).validate_json(text) | columns
    classes, actions = document.get("classes") or [], document.get("actions") or []
    values, benefits = document.get("values"), document.get("expected_benefits")
    if values is not None:
        choice = [0] * rows
    elif is_table:
        choice = document.get("decisions", ())
    else:
        places = {str(name): place for place, name in enumerate(actions)}
        choice = [places[str(name)] for name in document.get("decisions", ())]
    per_row = {name: document.get(name) for name in _PER_ROW}
    columns_of_rows = (choice, *per_row.values())
    if any(column is not None and len(column) != rows for column in columns_of_rows):
        raise ValueError(f"it is not for {rows} rows")
    probabilities = document.get("probabilities") if classes else []
    uplift = document.get("uplift")
    return Decisions(
        model=document.get("model"),
        classes=classes,
        actions=actions,
        choice=np.asarray(choice, dtype=np.int64),
        probabilities=_floats(probabilities, (rows, len(classes))),
        expected_benefits=None
        if benefits is None
        else _floats(benefits, (rows, len(actions))),
        uplift=None if uplift is None else _floats(uplift, (rows, len(actions))),
        values=None if values is None else _floats(values, (rows,)),
        warnings=document.get("warnings") or [],
        figures={
            name: value for name, value in document.items() if name not in _NOT_FIGURES
        },
        quantities={} if values is None else _quantities(document, rows),
        **per_row,
    )


def _quantities(document: Mapping[str, Any], rows: int) -> dict[str, np.ndarray]:
    """The columns of an answer other than the numbers of the model, by their names."""
    fields = {"decision": "decisions", "expected_cost": "expected_costs"}
    columns = {name: document.get(field) for name, field in fields.items()}
    ends = document.get("intervals")
    if ends is not None:
        columns["low"], columns["high"] = _floats(ends, (rows, 2)).T
    return {
        name: _floats(column, (rows,))
        for name, column in columns.items()
        if column is not None
    }


def _floats(numbers: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(numbers, dtype=np.float64).reshape(shape)


def joined(parts: Sequence[Decisions]) -> Decisions:
    """The decisions for one table from its parts, all of them by the same model."""
    first = parts[0]
    if len(parts) == 1:
        return first
    columns: dict[str, Any] = {}
    arrays = ("choice", "probabilities", "expected_benefits", "uplift", "values")
    for name in (*arrays, *_PER_ROW):
        pieces = [getattr(part, name) for part in parts]
        if isinstance(pieces[0], np.ndarray):
            columns[name] = np.concatenate(pieces)
        elif pieces[0] is not None:
            columns[name] = [entry for piece in pieces for entry in piece]
    quantities = {
        name: np.concatenate([part.quantities[name] for part in parts])
        for name in first.quantities
    }
    notes = notes_of(part.warnings for part in parts)
    return replace(first, **columns, quantities=quantities, warnings=notes)


def notes_of(parts: Iterable[Sequence[str]]) -> list[str]:
    """The distinct warnings of parts, at most `_MOST_NOTES`."""
    return list(dict.fromkeys(text for warnings in parts for text in warnings))[
        :_MOST_NOTES
    ]


@dataclass(frozen=True)
class Features:
    """The features of a version: names in its order, and the `kinds` of values (see `as_feature`).

    `classes` are None for a model of numbers; `values` are the kinds of columns of the case that
    are no features.
    """

    model: str
    names: tuple[str, ...]
    kinds: Mapping[str, str]
    classes: tuple[Any, ...] | None
    values: Mapping[str, str]

    @classmethod
    def of(cls, card: Mapping[str, Any]) -> Self:
        """The features in the card of a version."""
        features = card["features"]
        names = tuple(feature["name"] for feature in features)
        kinds = {
            feature["name"]: NOTATION if feature.get("form") else feature["type"]
            for feature in features
        }
        classes = None if card.get("classes") is None else tuple(card["classes"])
        values = {
            name: NOTATION if notation else NUMERIC
            for name, notation in card.get("values", {}).items()
        }
        return cls(f"{card['name']}:{card['version']}", names, kinds, classes, values)

    def beside(
        self, table: Table, columns: Sequence[str], segments: Sequence[str] = ()
    ) -> Self:
        """These features, `columns` of a table that cells of the matrix name, and `segments`."""
        names = [
            name
            for name in dict.fromkeys((*columns, *segments))
            if name in (table.names or ()) and name not in self.names
        ]
        kinds = {
            name: self.values.get(name, NUMERIC) if name in columns else CATEGORICAL
            for name in names
        }
        return replace(self, names=(*self.names, *names), kinds={**self.kinds, **kinds})

    def kept(
        self, table: Table, extra: Iterable[str], *, keep_all: bool = False
    ) -> list[str]:
        """The columns of the table in the result: those that the model does not use, or all.

        `extra` are columns of the result other than the decisions; a name that ends with a colon is
        the beginning of names. ValueError where the result has a column of the same name.
        """
        results = {*extra}
        if self.classes is None:
            results.add("value")
        else:
            results.update(
                ("decision", "benefit:"), (f"p:{name}" for name in self.classes)
            )
        kept = [
            name for name in table.names or () if keep_all or name not in self.names
        ]
        for name in kept:
            if not results.isdisjoint((name, "".join(name.partition(":")[:2]))):
                raise ValueError(
                    f"the result has a column {name!r} of its own; rename that of the frame"
                )
        return kept


def case_columns(fields: Mapping[str, Any]) -> list[str]:
    """The columns that cells of a matrix, or costs of actions, name, once each."""
    matrix = fields.get("benefits") or fields.get("cost_matrix")
    cells = [cell for row in _items(matrix) for cell in _items(row)]
    cells += _items(fields.get("costs"))
    names = (cell.get("column") for cell in cells if isinstance(cell, dict))
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def segments_of(fields: Mapping[str, Any]) -> list[str]:
    """The columns whose values are recorded with the decisions."""
    record = fields.get("record")
    return record.get("segments", []) if isinstance(record, dict) else []


def _items(container: Any) -> Iterable[Any]:
    """The values of an object, or the items of a list; none of a name."""
    if isinstance(container, dict):
        return container.values()
    return container if isinstance(container, list) else ()


def stated(**fields: Any) -> dict[str, Any]:
    """The fields that are not None as JSON: frames become objects, arrays lists."""
    return {name: _stated(value) for name, value in fields.items() if value is not None}


def _stated(value: Any) -> Any:
    # Of a frame of pandas the index has the classes, the columns are the actions.
    if hasattr(value, "to_dict") and hasattr(value, "index"):
        value = value.to_dict("index")
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _stated(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_stated(item) for item in value]
    return plain(value)


def named(kind: str | Mapping[str, Any], field: str) -> dict[str, Any]:
    """A name as the object that has it: a kind of learner, a loss."""
    return {field: kind} if isinstance(kind, str) else dict(kind)


def recorded(table: Table, record: Any) -> bool | dict[str, Any]:
    """The field `record`, always with ids, so that a repeated request records nothing twice."""
    if record is False:
        return False
    options = dict(record) if isinstance(record, Mapping) else {}
    ids = table.column(record) if isinstance(record, str) else options.get("ids")
    if ids is None:
        ids = [_new_id() for _ in range(len(table))]
    ids = [integral(plain(value)) for value in ids]
    return {
        **options,
        "ids": [str(value) if type(value) is int else value for value in ids],
    }


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
    if isinstance(first, dict):
        return True
    return isinstance(first, list) and bool(first) and isinstance(first[0], list)


def media_type_of(
    table: Table, features: Features | None, fields: Mapping[str, Any]
) -> str:
    """The media type of the rows: JSON where they are few, or where a field needs it."""
    width = len(features.names) if features else table.data.shape[1]
    if not fields.keys().isdisjoint(_JSON_ONLY) or len(table) * width <= SMALL:
        return JSON
    if any(_is_per_row(fields.get(name)) for name in _MATRICES):
        return JSON
    if features is None:
        return NPY if table.data.dtype.kind in "iufb" else JSON
    return ARROW if table.is_frame and has_pyarrow() else JSON


def rows_at_once(
    table: Table, width: int, fields: Mapping[str, Any], media_type: str
) -> int:
    """The number of rows of one request."""
    if are_together(fields):
        return max(len(table), 1)
    if media_type != JSON:
        return max(PART_BYTES // (8 * max(width, 1)), 1)
    matrices = [fields[name][0] for name in _MATRICES if _is_per_row(fields.get(name))]
    # The values of a row beside its features and results, at most.
    extra = len(json.dumps(matrices)) // 2 + len(fields.get("columns", ()))
    return min(max(PART_VALUES // (2 * width + 2 + extra), 1), RECORDED_AT_ONCE)


def fields_of_part(fields: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """The fields of a request for the rows from `start` to `stop`."""
    part = {
        name: value[start:stop] if name in _MATRICES and _is_per_row(value) else value
        for name, value in fields.items()
    }
    if "columns" in part:
        part["columns"] = {
            name: values[start:stop] for name, values in part["columns"].items()
        }
    if isinstance(part.get("record"), dict):
        part["record"] = {**part["record"], "ids": part["record"]["ids"][start:stop]}
    return part


def call_for(
    path: str,
    table: Table,
    features: Features | None,
    fields: Mapping[str, Any],
    media_type: str = JSON,
) -> Call:
    """The request for the rows.

    Invalid where a value does not fit its feature, ValueError where a number is infinite.
    """
    if media_type == NPY:
        return of_array(path, table.data, fields, ARROW if has_pyarrow() else JSON)
    names, kinds = (
        (features.names, features.kinds) if features is not None else ((), {})
    )
    if media_type == ARROW:
        content = arrow_tools().stream(table, names, kinds)
        return Call(
            "POST",
            path,
            query(fields),
            content,
            {"Content-Type": ARROW, "Accept": ARROW},
        )
    return post(path, {**fields, "instances": table.instances(names, kinds)})


def of_array(
    path: str, numbers: np.ndarray, fields: Mapping[str, Any], accept: str = JSON
) -> Call:
    """The request for numbers as a .npy file."""
    sink = io.BytesIO()
    np.save(sink, np.asarray(numbers, dtype=np.float64), allow_pickle=False)
    headers = {"Content-Type": NPY, "Accept": accept}
    return Call("POST", path, query(fields), sink.getvalue(), headers)
