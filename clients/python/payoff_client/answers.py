"""What the service answered, in the caller's terms."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from payoff_client.errors import InvalidAnswer, PayoffWarning
from payoff_client.notes import Notes
from payoff_client.reading import Answer, parsed
from payoff_client.shapes import DECIDED, PER_ROW, check
from payoff_client.wording import in_python

_COLUMNAR = ("model", "classes", "actions", "decisions", "probabilities", "expected_benefits", "values", "warnings")
_PER_ROW = ("ids", "explanations", "propensities")


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
        found: np.ndarray = named(self.actions)[self.choice]
        return found

    def columns(self) -> dict[str, np.ndarray]:
        """`decision`, `p:<class>` and `benefit:<action>`, or `value`; and `id`, `propensity`, parts of explanations."""
        if self.values is not None:
            return {"value": self.values}
        found = {} if self.ids is None else {"id": named(self.ids)}
        found["decision"] = self.decisions
        found |= {f"p:{name}": self.probabilities[:, k] for k, name in enumerate(self.classes)}
        if self.expected_benefits is not None:
            found |= {f"benefit:{name}": self.expected_benefits[:, a] for a, name in enumerate(self.actions)}
        if self.propensities is not None:
            found["propensity"] = np.array(self.propensities, dtype=np.float64)
        return found | (explained(self.explanations) if self.explanations is not None else {})


def explained(explanations: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """`runner_up`, `margin` and, where there are any, `contribution:<feature>`."""
    found = {
        "runner_up": named([each["runner_up"] for each in explanations]),
        "margin": np.array([each["margin"] for each in explanations], dtype=np.float64),
    }
    parts = [each.get("contributions") or {} for each in explanations]
    for name in dict.fromkeys(name for each in parts for name in each):
        found[f"contribution:{name}"] = np.array([each.get(name, np.nan) for each in parts], dtype=np.float64)
    return found


def named(names: Sequence[Any]) -> np.ndarray:
    """Names as an array of objects, integers as integers."""
    whole = bool(names) and all(type(name) is int and abs(name) < 2**63 for name in names)
    return np.array(names, dtype=np.int64 if whole else object)


def decisions_of(answer: Answer, rows: int) -> Decisions:
    """The decisions for so many rows in an answer of `/predict`, JSON or a NumPy array; ValueError for others."""
    if answer.headers["Content-Type"].startswith("application/x-npy"):
        rest = check(parsed(answer.headers["Payoff-Answer"].encode()), DECIDED)
        return _of_array(_array(answer.content), rest, rows)
    found = check(parsed(answer.content), {**DECIDED, **PER_ROW})
    figures = {name: value for name, value in found.items() if name not in (*_COLUMNAR, *_PER_ROW)}
    if "values" in found:
        return _of_numbers(_numbers(found["values"], (rows,)), found, figures)
    actions, benefits = found["actions"], found.get("expected_benefits")
    places = {name: place for place, name in enumerate(actions)}
    per_row = [found.get(name) for name in _PER_ROW]
    if any(each is not None and len(each) != rows for each in (found["decisions"], *per_row)):
        raise ValueError(f"it is not for {rows} rows")
    return Decisions(
        found.get("model"),
        found["classes"],
        actions,
        np.array([places[name] for name in found["decisions"]], dtype=np.int64),
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


def _array(content: bytes) -> np.ndarray:
    """The numbers of a .npy file, all of which are there, whatever its header promises."""
    file = io.BytesIO(content)
    major, _ = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, by_columns, kind = read(file)
    found = np.frombuffer(bytearray(content), kind, offset=file.tell())
    return found.reshape(shape, order="F" if by_columns else "C").astype(np.float64, copy=False)


def _of_array(found: np.ndarray, rest: dict[str, Any], rows: int) -> Decisions:
    figures = {name: value for name, value in rest.items() if name not in _COLUMNAR}
    if "classes" not in rest:
        return _of_numbers(_numbers(found, (rows,)), rest, figures)
    k, actions = len(rest["classes"]), rest["actions"]
    width = found.shape[1]
    _numbers(found, (rows, 1 + k if width == 1 + k else 1 + k + len(actions)))
    benefits = found[:, 1 + k :] if width > 1 + k else None
    choice, P, notes = found[:, 0], found[:, 1 : 1 + k], rest["warnings"]
    if rows and not (choice.min() >= 0 and choice.max() < len(actions)):
        raise ValueError("a decision is none of the actions")
    chosen = choice.astype(np.int64)
    return Decisions(rest.get("model"), rest["classes"], actions, chosen, P, benefits, None, notes, figures)


def _of_numbers(values: np.ndarray, answer: dict[str, Any], figures: dict[str, Any]) -> Decisions:
    nothing = np.empty((len(values), 0))
    choice = np.zeros(len(values), dtype=np.int64)
    return Decisions(answer.get("model"), [], [], choice, nothing, None, values, answer["warnings"], figures)


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

    def all_of(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        if found[0] is None:
            return None
        return np.concatenate(found) if isinstance(found[0], np.ndarray) else [each for part in found for each in part]

    notes = Notes()
    for part in parts:
        notes.add(part.warnings, len(part.choice))
    return replace(first, **{name: all_of(name) for name in fields}, warnings=notes.texts())


def warn(notes: Sequence[str]) -> None:
    """Each warning of an answer as a Python warning."""
    for note in notes:
        warnings.warn(in_python(note), PayoffWarning, stacklevel=4)


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
