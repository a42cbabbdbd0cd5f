"""Sets of items: their probabilities in requests, and those that were chosen in answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from fastapi import Response

from app.api.charts import retrieval_chart, svg
from app.api.codecs.json import json_bytes
from app.api.codecs.media_types import JSON, SVG
from app.api.codecs.npy import array_of_npy
from app.api.memory import Charge
from app.registry.loaded import Loaded
from app.requests.losses import RANGE, SAMPLED, RetrieveFields, Sets, check_extent
from payoff.errors import Flaw, Invalid, pointer

if TYPE_CHECKING:  # the module loads the compiler, which takes 60 MB of memory
    from app.answering.retrieve import Retrieved


FIELD = "probabilities"
_NUMBERS = {int, float}
_A_PROBABILITY = f"a probability {RANGE}"
_DUMP = orjson.OPT_SERIALIZE_NUMPY
_PART = 1000  # sets written at a time: the interpreter's lock is held for a millisecond
_MAX_ITEMS_OF_PART = 50_000  # with more, each set of a part is written by itself
_SHORT = 100  # items of a set, on average: shorter sets are written faster as lists
_FORMS = "a list of numbers (one set) or a list of such lists (a set each)"


def sets_of_list(value: list[Any]) -> Sets:
    """Probabilities as parsed: numbers, or lists of numbers; Invalid below /probabilities. `[]` is
    one empty set.
    """
    kinds = set(map(type, value))
    try:
        if kinds <= _NUMBERS:
            check_extent(1, len(value))
            return Sets(np.array(value, dtype=np.float64))
        if kinds == {list} and set(map(type, chain.from_iterable(value))) <= _NUMBERS:
            ends = np.cumsum([0, *map(len, value)])
            check_extent(len(value), int(ends[-1]))
            return Sets(
                np.array(list(chain.from_iterable(value)), dtype=np.float64), ends
            )
    except OverflowError as error:
        raise Invalid.at(
            pointer(FIELD), "a value is outside the range of a 64-bit float"
        ) from error
    raise Invalid.of(_flaws(value))


def sets_of_npy(body: bytes, charge: Charge) -> Sets:
    """A .npy file: one dimension is one set, two are a set per row."""
    array = array_of_npy(body, charge)
    if array.ndim not in (1, 2):
        raise Invalid.at(
            pointer(FIELD),
            f"the array has {array.ndim} dimensions; it must have one (one set) or two (a set per"
            " row)",
        )
    # A few bytes could state a million sets without items.
    if not array.size and array.ndim == 2 and len(array):
        words = (
            f"the shape of the array is {list(array.shape)}; each set must have an item"
        )
        raise Invalid.at(pointer(FIELD), words)
    check_extent(1 if array.ndim == 1 else len(array), array.size)
    offsets = None if array.ndim == 1 else np.arange(len(array) + 1) * array.shape[1]
    return Sets(np.ascontiguousarray(array).ravel(), offsets)


def _flaws(value: list[Any]) -> Iterator[Flaw]:
    """Slow path: build detailed errors."""
    nested = isinstance(value[0], list)
    for i, item in enumerate(value):
        if isinstance(item, list) and nested:
            bad = [j for j, number in enumerate(item) if type(number) not in _NUMBERS]
            yield from (Flaw(pointer(FIELD, i, j), _A_PROBABILITY) for j in bad)
        elif nested or isinstance(item, list):
            yield Flaw(
                pointer(FIELD, i),
                f"the first value is {'a list' if nested else 'a number'}; send {_FORMS}",
            )
        elif type(item) not in _NUMBERS:
            yield Flaw(pointer(FIELD, i), _A_PROBABILITY)


def to_json(answer: Retrieved, shared_fields: dict[str, Any]) -> Response:
    """The JSON document: one set after the other, and their common fields."""
    sets = b",".join(_sets(answer))
    return Response(
        b'{"sets":[' + sets + b"]," + orjson.dumps(shared_fields)[1:], media_type=JSON
    )


def to_svg(answer: Retrieved, shared_fields: dict[str, Any]) -> Response:
    """The curve of each set with the number of items that was chosen."""
    choice = answer.choice
    assert choice.curves is not None
    curves = _pieces(choice.curves, _offsets(choice.lengths).tolist())
    curves_with_k = list(zip(curves, choice.k.tolist(), strict=True))
    return svg(retrieval_chart(shared_fields["loss"]["name"], curves_with_k))


WRITERS: dict[str, Callable[[Retrieved, dict[str, Any]], Response]]
WRITERS = {JSON: to_json, SVG: to_svg}


def common(
    answer: Retrieved, fields: RetrieveFields, model: Loaded | None
) -> dict[str, Any]:
    """The common fields of the sets; with `average` each label or class has one, in their order."""
    shared_fields = {
        "setting": fields.setting,
        "method": fields.method,
        "loss": fields.terms.loss.as_json(),
        "correction": answer.correction,
        "positive": answer.positive,
        "average": fields.average,
        "labels": model.classes
        if fields.average and model is not None
        else answer.labels,
        "model": None if model is None else model.named,
    }
    stated = {name: value for name, value in shared_fields.items() if value is not None}
    return stated | {"warnings": answer.warnings}


def _sets(answer: Retrieved) -> Iterator[bytes]:
    """The sets as JSON, some at a time, without the brackets around them."""
    choice = answer.choice
    labels = answer.labels
    lists: dict[str, tuple[np.ndarray, list[int]]]
    lists = {"selected": (choice.selected, _offsets(choice.k).tolist())}
    if choice.curves is not None:
        lists["curve"] = (choice.curves, _offsets(choice.lengths).tolist())
    if answer.marginals is not None:
        lists["marginals"] = (
            answer.marginals.p,
            _offsets(answer.marginals.sizes).tolist(),
        )
    names = ("k", *SAMPLED[: len(choice.figures)])  # only some methods have all
    for first in range(0, len(choice.k), _PART):
        rows = slice(first, first + _PART)
        pieces = {
            name: _pieces(values, ends[first : first + _PART + 1])
            for name, (values, ends) in lists.items()
        }
        selected = pieces.pop("selected")
        if labels is not None:
            selected = [
                list(map(labels.__getitem__, positions)) for positions in selected
            ]
        columns = (
            selected,
            choice.k[rows].tolist(),
            *choice.figures[:, rows].tolist(),
            *pieces.values(),
        )
        fields = ("selected", *names, *pieces)
        # JSON has null for an unknown gap, NaN.
        part = [
            dict(zip(fields, values, strict=True))
            for values in zip(*columns, strict=True)
        ]
        n_items = sum(
            len(items) for column in (selected, *pieces.values()) for items in column
        )
        if n_items > _MAX_ITEMS_OF_PART:
            yield b",".join(map(json_bytes, part))
        else:
            yield orjson.dumps(part, option=_DUMP)[1:-1]


def _pieces(values: np.ndarray, ends: list[int]) -> list[Any]:
    """The values between each end and the next: short pieces as lists, long ones as arrays."""
    span: Any = values[ends[0] : ends[-1]]
    if len(span) <= _SHORT * (len(ends) - 1):
        span = span.tolist()
    return [span[begin - ends[0] : end - ends[0]] for begin, end in pairwise(ends)]


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
