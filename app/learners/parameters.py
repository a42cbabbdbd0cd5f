"""A learner's parameter: what a request may say, its default, and what it is for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from app.errors import Invalid, pointer
from app.text import MAX_NAME

_PLAIN: dict[str, type] = {"boolean": bool, "learner": dict}
_NUMBERS: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float)}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kind of learner.

    `low` and `high` bound numbers and integers, inclusively, `low` exclusively with `above_low`. `choices` are the
    words of a choice, words that an integer parameter takes besides integers, or the kinds of an inner learner. A label
    is a class, as the training labels write it. An amount is a word among the choices, a fraction above 0 up to 1.0
    (decimal point), or an integer from 1. `optional` admits null.
    `argument` is the estimator's name for it where `name` cannot be one (`lambda`).
    """

    name: str
    type: Literal["number", "integer", "choice", "boolean", "label", "amount", "learner"]
    default: Any
    doc: str
    low: float | None = None
    high: float | None = None
    above_low: bool = False
    choices: tuple[str, ...] = ()
    optional: bool = False
    argument: str = ""

    def check(self, value: Any) -> Any:
        """The value as the estimator takes it; raises Invalid (at `""`) with what is allowed.

        A boolean is no number, and an integer is written without a decimal point. A learner is only checked for
        its form here.
        """
        if (value is None and self.optional) or self._fits(value):
            return float(value) if self.type == "number" and value is not None else value
        null = " or null" if self.optional else ""
        raise Invalid.at("", f"{self.name} takes {self.allowed()}{null}, not {_shown(value)}")

    @property
    def attribute(self) -> str:
        """The estimator's name for the parameter."""
        return self.argument or self.name

    def allowed(self) -> str:
        """What the parameter takes, in words."""
        if self.type == "choice":
            return "one of " + ", ".join(self.choices)
        if self.type == "boolean":
            return "true or false"
        if self.type == "label":
            return "a class, as the labels write it: a string or an integer"
        if self.type == "amount":
            return "one of " + ", ".join(self.choices) + ", a fraction above 0 up to 1.0, or an integer of at least 1"
        if self.type == "learner":
            return f"a learner of kind {' or '.join(self.choices)}"
        limits = [] if self.low is None else [f"{'above' if self.above_low else 'at least'} {self.low:g}"]
        limits += [] if self.high is None else [f"at most {self.high:g}"]
        words = f"{' or '.join(self.choices)} or " if self.choices else ""
        return words + " ".join(["a number" if self.type == "number" else "an integer", " and ".join(limits)]).strip()

    def describe(self) -> dict[str, Any]:
        """The parameter for the API's users, ready for JSON."""
        return {
            "name": self.name,
            "type": self.type,
            "default": self.default,
            "allowed": self.allowed() + (" or null" if self.optional else ""),
            "description": self.doc,
        }

    def _fits(self, value: Any) -> bool:
        if self.type in _PLAIN:
            return isinstance(value, _PLAIN[self.type])
        if self.type == "label":
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, str) and len(value) <= MAX_NAME
            )
        if isinstance(value, str):
            return value in self.choices
        if self.type == "amount":
            return _is_amount(value)
        number: Any = _NUMBERS.get(self.type, ())
        return isinstance(value, number) and not isinstance(value, bool) and self._within(value)

    def _within(self, value: float) -> bool:
        try:
            finite = math.isfinite(value)
        except OverflowError:  # an integer beyond the floats
            return False
        above = self.low is None or value > self.low or (value == self.low and not self.above_low)
        return finite and above and (self.high is None or value <= self.high)


def check_arguments(estimator: Any, parameters: Iterable[Parameter]) -> None:
    """Raise Invalid at the first parameter whose value in the estimator is not allowed; NumPy scalars count as numbers.

    Classes and inner learners are the estimator's own to check.
    """
    for parameter in parameters:
        value = getattr(estimator, parameter.attribute)
        if parameter.type not in ("label", "learner"):
            try:
                parameter.check(value.item() if isinstance(value, np.generic) else value)
            except Invalid as error:
                raise error.under(pointer(parameter.name)) from None


CALIBRATION = Parameter(
    "calibration",
    "choice",
    "auto",
    "How probabilities are calibrated on cross-fitted predictions: step curves (isotonic), a logistic curve (sigmoid),"
    " or not at all (none). auto chooses by the log loss of rows that the calibration did not see.",
    choices=("auto", "isotonic", "sigmoid", "none"),
)
STRENGTH = Parameter(
    "C",
    "number",
    1.0,
    "Inverse strength of the L2 penalty on the coefficients: smaller values keep them smaller.",
    low=1e-10,
    high=1e10,
)
MAJORITY = Parameter(
    "majority",
    "label",
    None,
    "The majority class, to which the other classes are compared; null is the most common class.",
    optional=True,
)


def _is_amount(value: Any) -> bool:
    if isinstance(value, float):
        return 0 < value <= 1
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _shown(value: Any) -> str:
    """A value, short enough for a message."""
    try:
        text = repr(value)
    except RecursionError:
        return "something nested too deeply"
    return text if len(text) <= 40 else text[:37] + "…"
