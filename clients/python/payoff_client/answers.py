"""What the service answered, in the caller's terms."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from payoff_client.errors import InvalidAnswer, PayoffWarning
from payoff_client.rows import arrow_tools
from payoff_client.shapes import DECIDED, check
from payoff_client.transport import ARROW, Answer, parsed

_COLUMNAR = ("model", "classes", "actions", "decisions", "probabilities", "expected_benefits", "values", "warnings")
_PER_ROW = ("ids", "explanations", "propensities")
_MOST_NOTES = 100


@dataclass(frozen=True)
class Decisions:
    """Decisions for n rows, K classes and A actions.

    `choice` (n,) has positions in `actions`, `probabilities` is (n, K), `expected_benefits` (n, A) or None. A model of
    numbers has `values` (n,) alone. `figures` are the other fields of the answer: `rule`, `threshold`, `limits` with
    shadow prices, `total`. `ids`, `explanations` and `propensities` have an entry a row, where they were asked for.
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

    @property
    def decisions(self) -> np.ndarray:
        """The action for each row."""
        found: np.ndarray = _named(self.actions)[self.choice]
        return found

    def columns(self) -> dict[str, np.ndarray]:
        """`decision`, `p:<class>` and `benefit:<action>`, or `value`; and `id`, `propensity`, parts of explanations."""
        if self.values is not None:
            return {"value": self.values}
        found = {} if self.ids is None else {"id": _named(self.ids)}
        found["decision"] = self.decisions
        found |= {f"p:{name}": self.probabilities[:, k] for k, name in enumerate(self.classes)}
        if self.expected_benefits is not None:
            found |= {f"benefit:{name}": self.expected_benefits[:, a] for a, name in enumerate(self.actions)}
        if self.propensities is not None:
            found["propensity"] = np.array(self.propensities, dtype=np.float64)
        if self.explanations is not None:
            found["runner_up"] = _named([each["runner_up"] for each in self.explanations])
            found["margin"] = np.array([each["margin"] for each in self.explanations], dtype=np.float64)
            parts = [each.get("contributions") or {} for each in self.explanations]
            for name in dict.fromkeys(name for each in parts for name in each):
                found[f"contribution:{name}"] = np.array([each.get(name, np.nan) for each in parts], dtype=np.float64)
        return found


def _named(names: Sequence[Any]) -> np.ndarray:
    """Names as an array of objects, integers as integers."""
    are_whole = bool(names) and all(type(name) is int and abs(name) < 2**63 for name in names)
    return np.array(names, dtype=np.int64 if are_whole else object)


def decisions_of(answer: Answer, rows: int) -> Decisions:
    """The decisions for so many rows in an answer of `/predict`; ValueError for others."""
    is_table = answer.response.headers["Content-Type"].startswith(ARROW)
    found = check(arrow_tools().decided(answer.content) if is_table else parsed(answer.content), DECIDED)
    figures = {name: value for name, value in found.items() if name not in (*_COLUMNAR, *_PER_ROW)}
    if "values" in found:
        nothing, choice, values = np.empty((rows, 0)), np.zeros(rows, np.int64), _numbers(found["values"], (rows,))
        return Decisions(found.get("model"), [], [], choice, nothing, None, values, found["warnings"], figures)
    actions, benefits = found["actions"], found.get("expected_benefits")
    places = {str(name): place for place, name in enumerate(actions)}  # a table has them as text
    per_row = [found.get(name) for name in _PER_ROW]
    if any(each is not None and len(each) != rows for each in (found["decisions"], *per_row)):
        raise ValueError(f"it is not for {rows} rows")
    return Decisions(
        found.get("model"),
        found["classes"],
        actions,
        np.array([places[str(name)] for name in found["decisions"]], dtype=np.int64),
        _numbers(found["probabilities"], (rows, len(found["classes"]))),
        None if benefits is None else _numbers(benefits, (rows, len(actions))),
        None,
        found["warnings"],
        figures,
        *per_row,
    )


def _numbers(sent: Any, shape: tuple[int, ...]) -> np.ndarray:
    found = np.asarray(sent, dtype=np.float64)
    if found.shape != shape and (found.size or 0 not in shape):
        raise ValueError(f"the shape of its numbers is {found.shape}, not {shape}")
    return found.reshape(shape)


def joined(parts: Sequence[Decisions]) -> Decisions:
    """The decisions of one table that was sent in parts, all of them by the same model."""
    first = parts[0]
    if len(parts) == 1:
        return first
    fields = ("choice", "probabilities", "expected_benefits", "values", *_PER_ROW)

    def form(part: Decisions) -> Any:
        return part.model, part.classes, part.actions, [getattr(part, name) is None for name in fields]

    if any(form(part) != form(first) for part in parts):
        raise InvalidAnswer("the parts of the table were answered by different models, or in different forms")
    whole: dict[str, Any] = {}
    for name in fields:
        found = [getattr(part, name) for part in parts]
        if isinstance(found[0], np.ndarray):
            whole[name] = np.concatenate(found)
        elif found[0] is not None:
            whole[name] = [each for part in found for each in part]
    notes = Notes()
    for part in parts:
        notes.add(part.warnings, len(part.choice))
    return replace(first, **whole, warnings=notes.texts())


class Notes:
    """Collects the warnings of parts: of several parts each with the rows of the first one that has it."""

    def __init__(self) -> None:
        self.rows = 0
        self._found: dict[str, str] = {}
        self._is_whole = True

    def add(self, warnings: Sequence[str], rows: int) -> None:
        """The warnings of the next part, which has so many rows; of all parts about a hundred are kept."""
        for text in warnings if len(self._found) < _MOST_NOTES else ():
            self._found.setdefault(text, f"rows {self.rows} to {self.rows + rows - 1}: {text}")
        self._is_whole = not self.rows
        self.rows += rows

    def texts(self) -> list[str]:
        """The warnings so far."""
        return list(self._found if self._is_whole else self._found.values())


def warn(notes: Sequence[str]) -> None:
    """Each warning of an answer as a Python warning."""
    for note in notes:
        warnings.warn(note, PayoffWarning, stacklevel=4)


class Report(dict[str, Any]):
    """A JSON document of the service, with its chart (`svg`) where that was asked for; notebooks draw it."""

    svg: str | None = None

    def _repr_svg_(self) -> str | None:
        return self.svg

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rows of a comparison, or the rules of a benefit report; the best first."""
        found: list[dict[str, Any]] = self.get("table", self.get("rules", []))
        return found
