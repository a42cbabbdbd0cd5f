"""Probabilities on the wire: one set or many, ragged or not, as JSON, a NumPy array or an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from app.api.codecs.npy import array_of_npy
from app.api.gate import Reserve
from app.errors import Flaw, Invalid, pointer
from app.usecases.item_sets import RANGE, Sets, check_extent

FIELD = "probabilities"
_NUMBERS = {int, float}
_A_PROBABILITY = f"a probability {RANGE}"
_FORMS = "a list of numbers (one set) or a list of such lists (a set each)"


def sets_of_list(value: Any) -> Sets:
    """Probabilities as parsed: numbers, or lists of numbers; Invalid below /probabilities. `[]` is one empty set."""
    if not isinstance(value, list):
        raise Invalid.at(pointer(FIELD), f"'probabilities' must be {_FORMS}")
    kinds = set(map(type, value))
    try:
        if kinds <= _NUMBERS:
            check_extent(1, len(value))
            return Sets(np.array(value, dtype=np.float64))
        if kinds == {list} and set(map(type, chain.from_iterable(value))) <= _NUMBERS:
            ends = np.cumsum([0, *map(len, value)])
            check_extent(len(value), int(ends[-1]))
            return Sets(np.array(list(chain.from_iterable(value)), dtype=np.float64), ends)
    except OverflowError as error:
        raise Invalid.at(pointer(FIELD), "a value is outside the range of a 64-bit float") from error
    raise Invalid.of(_flaws(value))


def sets_of_npy(body: bytes, reserve: Reserve) -> Sets:
    """A .npy file: one dimension is one set, two are a set per row."""
    array = array_of_npy(body, reserve)
    if array.ndim not in (1, 2):
        raise Invalid.at(
            pointer(FIELD), f"the array has {array.ndim} dimensions; it must have one (one set) or two (a set per row)"
        )
    check_extent(1 if array.ndim == 1 else len(array), array.size)
    offsets = None if array.ndim == 1 else np.arange(len(array) + 1) * array.shape[1]
    return Sets(np.ascontiguousarray(array).ravel(), offsets)


def sets_of_arrow(body: bytes, reserve: Reserve) -> Sets:
    """An Arrow IPC stream of one column: numbers are one set, lists of numbers a set each."""
    from app.api.codecs import set_columns  # noqa: PLC0415 - with pyarrow, which takes 40 MB

    return set_columns.sets_of_arrow(body, reserve)


def _flaws(value: list[Any]) -> Iterator[Flaw]:
    """Slow path: build detailed errors."""
    nested = isinstance(value[0], list)
    for i, item in enumerate(value):
        if isinstance(item, list) and nested:
            bad = [j for j, number in enumerate(item) if type(number) not in _NUMBERS]
            yield from (Flaw(pointer(FIELD, i, j), _A_PROBABILITY) for j in bad)
        elif nested or isinstance(item, list):
            yield Flaw(pointer(FIELD, i), f"the first value is {'a list' if nested else 'a number'}; send {_FORMS}")
        elif type(item) not in _NUMBERS:
            yield Flaw(pointer(FIELD, i), _A_PROBABILITY)
