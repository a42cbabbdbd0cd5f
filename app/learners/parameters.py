"""A learner's parameters, declared once: annotations of its estimator, such as
`n_estimators: Annotated[int, Range(1, 10_000), "Number of trees."] = 100`.

What requests may say, the OpenAPI document, the checks of `fit` and the card follow from them. Parameters without such
an annotation are not for requests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from app.errors import Invalid, below, pointer
from app.text import MAX_NAME


@dataclass(frozen=True)
class Range:
    """The least and the largest number, inclusively; the least exclusively with `above`."""

    low: float | None = None
    high: float | None = None
    above: bool = False


@dataclass(frozen=True)
class Called:
    """The parameter's name in requests, where Python has that word for itself."""

    name: str


@dataclass(frozen=True)
class Inner:
    """The parameter is a learner of one of these kinds, by default of the first."""

    kinds: tuple[str, ...]


Calibration = Annotated[
    Literal["auto", "isotonic", "sigmoid", "none"],
    "Calibration of cross-fitted probabilities: step curves (isotonic), a logistic curve (sigmoid), none, or by the log"
    " loss of rows that it did not see (auto).",
]
Strength = Annotated[
    float,
    Range(1e-10, 1e10),
    "Inverse strength of the L2 penalty: smaller values keep coefficients smaller.",
]
Majority = Annotated[
    int | str | None,
    "The majority class, to which the other classes are compared; null is the most common class.",
]
Amount = int | float | Literal["sqrt", "log2"] | None
"""Of features: a number, a fraction, or the root or logarithm of all; None is all."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kind of learner.

    `low` and `high` bound numbers and integers, inclusively, `low` exclusively with `above_low`. `choices` are the
    words of a choice, words that an integer parameter takes besides integers, or the kinds of an inner learner. A label
    is a class, as the training labels write it. An amount is a word among the choices, a fraction above 0 up to 1.0
    (decimal point), or an integer from 1. `optional` admits null. `attribute` is the estimator's name for it.
    """

    name: str
    attribute: str
    type: Literal["number", "integer", "choice", "boolean", "label", "amount", "learner"]
    default: Any
    doc: str
    low: float | None = None
    high: float | None = None
    above_low: bool = False
    choices: tuple[str, ...] = ()
    optional: bool = False

    def check(self, value: Any) -> Any:
        """The value as the estimator takes it; raises Invalid (at `""`) with what is allowed.

        A boolean is no number, and an integer is written without a decimal point. A learner is only checked for
        its form here.
        """
        if (value is None and self.optional) or self._fits(value):
            return float(value) if self.type == "number" and value is not None else value
        null = " or null" if self.optional else ""
        raise Invalid.at("", f"{self.name} takes {self.allowed()}{null}, not {_shown(value)}")

    def allowed(self) -> str:
        """What the parameter takes, in words."""
        words = " or ".join(self.choices)
        limits = [] if self.low is None else [f"{'above' if self.above_low else 'at least'} {self.low:g}"]
        limits += [] if self.high is None else [f"at most {self.high:g}"]
        number = "a number" if self.type == "number" else "an integer"
        return {
            "choice": "one of " + ", ".join(self.choices),
            "boolean": "true or false",
            "label": "a class, as the labels write it: a string or an integer",
            "amount": f"{words}, a fraction above 0 up to 1.0, or an integer of at least 1",
            "learner": f"a learner of kind {words}",
        }.get(self.type, f"{words} or " * bool(words) + " ".join([number, " and ".join(limits)]).strip())

    def _fits(self, value: Any) -> bool:
        if self.type in ("boolean", "learner"):
            return isinstance(value, bool if self.type == "boolean" else dict)
        if isinstance(value, str):
            return len(value) <= MAX_NAME if self.type == "label" else value in self.choices
        if self.type == "choice" or isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if self.type == "amount":
            return value >= 1 if isinstance(value, int) else 0 < value <= 1
        return (isinstance(value, int) or self.type == "number") and self._within(value)

    def _within(self, value: float) -> bool:
        try:
            finite = math.isfinite(value)
        except OverflowError:  # an integer beyond the floats
            return False
        above = self.low is None or value > self.low or (value == self.low and not self.above_low)
        return finite and above and (self.high is None or value <= self.high)


def parameters_of(estimator: Any) -> tuple[Parameter, ...]:
    """The parameters of an estimator's class that requests may set, in the order of its fields."""
    hints = get_type_hints(estimator, include_extras=True)
    return tuple(
        _parameter(field.name, field.default, hints[field.name])
        for field in fields(estimator)
        if field.init and get_origin(hints[field.name]) is Annotated
    )


def _parameter(attribute: str, default: Any, hint: Any) -> Parameter:
    kind, *extras = get_args(hint)
    parts = set(get_args(kind) or (kind,)) if get_origin(kind) is not Literal else {kind}
    words = next((get_args(part) for part in parts if get_origin(part) is Literal), ())
    notes = {type(extra): extra for extra in extras}
    types: dict[frozenset[type], Any] = {
        frozenset({int, float}): "amount", frozenset({int, str}): "label", frozenset({int}): "integer",
        frozenset({float}): "number", frozenset({bool}): "boolean",
    }  # fmt: skip
    bounds, inner = notes.get(Range, Range()), notes.get(Inner)
    plain = frozenset(part for part in parts if part is not NoneType and get_origin(part) is not Literal)
    return Parameter(
        notes[Called].name if Called in notes else attribute, attribute,
        "learner" if inner else types.get(plain, "choice"), {"kind": inner.kinds[0]} if inner else default, notes[str],
        bounds.low, bounds.high, bounds.above, inner.kinds if inner else words, NoneType in parts and not inner,
    )  # fmt: skip


def check_arguments(estimator: Any) -> None:
    """Raise Invalid at the first parameter whose value in the estimator is not allowed; NumPy scalars count as numbers.

    Classes and inner learners are the estimator's own to check.
    """
    for parameter in parameters_of(type(estimator)):
        value = getattr(estimator, parameter.attribute)
        if parameter.type not in ("label", "learner"):
            with below(pointer(parameter.name)):
                parameter.check(value.item() if isinstance(value, np.generic) else value)


def _shown(value: Any) -> str:
    """A value, short enough for a message."""
    try:
        text = repr(value)
    except RecursionError:
        return "something nested too deeply"
    return text if len(text) <= 40 else text[:37] + "…"
