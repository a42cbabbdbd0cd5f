"""Rows that come with a request: probabilities in place of a model, and true labels."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from app.requests.fields import Number
from payoff.decisions.row_weights import flaw_of_weights, normalised
from payoff.errors import Flaw, Invalid, pointer, reject, unknown
from payoff.probabilities import are_shares, clipped

RowWeights = (
    Annotated[
        list[Number],
        Field(
            fail_fast=True,
            description="one positive number for each row: how much it counts, as far as ratios"
            " say so, such as 1 / P(the row was drawn)",
            examples=[None],
        ),
    ]
    | None
)


def checked_weights(weights: Sequence[float] | None, n: int) -> np.ndarray:
    """The weights (n,) of the rows of a request, 1 each without any; Invalid at or below /weights
    where they are no weights of n rows.
    """
    if weights is None:
        return np.ones(n)
    if len(weights) != n:
        raise Invalid.at("/weights", f"{len(weights)} weights for {n} rows")
    values = np.array(weights, dtype=np.float64)
    flaw = flaw_of_weights(values)
    if flaw is not None:
        raise Invalid.at(pointer("weights", int(flaw[0][0])), flaw[1])
    return normalised(values)


def class_codes(
    labels: Sequence[Any],
    classes: Sequence[int | str],
    n: int,
    rows: str = "probabilities",
) -> np.ndarray:
    """The codes (n,) of labels as sent, one for each of n rows; Invalid at or below /labels.

    A label has the type of its class: "1" is not 1.
    """
    if len(labels) != n:
        raise Invalid.at("/labels", f"{len(labels)} labels for {n} rows of {rows}")
    codes = {(type(name), name): code for code, name in enumerate(classes)}
    names = [str(name) for name in classes]
    reject(
        Flaw(pointer("labels", i), _not_a_class(label, names))
        for i, label in enumerate(labels)
        if not isinstance(label, str | int) or (type(label), label) not in codes
    )
    return np.array([codes[type(label), label] for label in labels], dtype=np.intp)


def _not_a_class(label: Any, names: Sequence[str]) -> str:
    if str(label) in names:
        return (
            f"label {label!r} has another type than its class; integer classes are integers,"
            " others are strings"
        )
    return unknown("class", label, names)


def as_probabilities(
    value: list[Any] | np.ndarray, classes: Sequence[int | str]
) -> np.ndarray:
    """Probabilities float64 (n, K) of `classes` that exclude one another.

    Lists, or an array, of numbers of at least 0 whose rows sum to 1, up to a `TOLERANCE`; Invalid
    with the place of each flaw below /classes and /probabilities. O(n K).
    """
    check_class_names(classes)
    P = clipped(_as_array(value, len(classes)))
    with np.errstate(over="ignore"):
        sums = P.sum(axis=1)
    least = P.min(axis=1, initial=0.0)
    reject(_wrong_numbers(P, np.flatnonzero(~(np.isfinite(sums) & (least >= 0)))))
    reject(
        Flaw(
            pointer("probabilities", i),
            f"these sum to {sums[i]:.8g}, and must sum to 1: divide each by the sum",
        )
        for i in np.flatnonzero(~are_shares(P))
    )
    return P


def check_class_names(classes: Sequence[int | str]) -> None:
    """Invalid where two have the same name: 1 and "1" do."""
    if len(set(map(str, classes))) < len(classes):
        raise Invalid.at("/classes", "two classes have the same name")


def _as_array(value: list[Any] | np.ndarray, n_classes: int) -> np.ndarray:
    if isinstance(value, np.ndarray):
        if value.shape[1:] != (n_classes,):
            raise Invalid.at(
                "/probabilities",
                f"the shape is {list(value.shape)}; it must be [n, {n_classes}]",
            )
        return np.ascontiguousarray(value)  # what JSON is written from
    hint = ": [1 - p, p]" if n_classes == 2 else ""
    reject(
        Flaw(
            pointer("probabilities", i),
            f"a row is a list of {n_classes} numbers, one per class{hint}",
        )
        for i, row in enumerate(value)
        if not isinstance(row, list) or len(row) != n_classes
    )
    reject(
        Flaw(pointer("probabilities", i, k), "a probability is a number")
        for i, row in enumerate(value)
        if not {float, int}.issuperset(map(type, row))
        for k, number in enumerate(row)
        if type(number) not in (float, int)
    )
    return np.array(value, dtype=np.float64).reshape(len(value), n_classes)


def _wrong_numbers(P: np.ndarray, rows: np.ndarray) -> Iterator[Flaw]:
    for i in rows:
        for k in np.flatnonzero(~(P[i] >= 0) | np.isinf(P[i])):
            yield Flaw(
                pointer("probabilities", i, k),
                "a probability is a finite number of at least 0",
            )
