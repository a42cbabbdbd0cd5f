"""Cases of which a part is known, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.features import OUTSIDE, Schema, is_float

_NUMBERS = {float, int, type(None)}
_WORDS = {str, type(None)}
UNAVAILABLE = -1


class Known(NamedTuple):
    """n cases: `X` (n, m), NaN where nothing is known or had; `status` (n, m) int32: 0 not known, -1 cannot be had,
    r >= 1 acquired as the r-th, in the order of the names in the case. `warnings` are about unseen categories, which
    are NaN but acquired.
    """

    X: np.ndarray
    status: np.ndarray
    warnings: list[str]


def encode_known(
    schema: Schema, cases: Sequence[Any], place: Callable[[int], str], unavailable: Sequence[str] = ()
) -> Known:
    """Objects of known values by feature name; null is a value that cannot be had, like those of `unavailable`.

    Raises Invalid with the place, below `place(i)` of a case or `/unavailable/i`, of unknown names, values of a wrong
    type, and features that are said to be known and unavailable, or unavailable twice. O(values + n m).
    """
    position = {name: j for j, name in enumerate(schema.names)}
    refused = partial(_refused, schema, cases, place)
    if not {dict}.issuperset(map(type, cases)):
        raise refused()
    column = list(map(position.get, chain.from_iterable(cases)))
    values = list(chain.from_iterable(case.values() for case in cases))
    if None in column:
        raise refused()
    columns = np.array(column, dtype=np.intp)
    lengths = np.fromiter(map(len, cases), dtype=np.intp, count=len(cases))
    rows = np.repeat(np.arange(len(cases)), lengths)
    numbers, warnings = _numbers(schema, len(cases), rows, columns, values, refused)
    rank = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    X = np.full((len(cases), len(position)), np.nan)
    status = np.zeros(X.shape, dtype=np.int32)
    X[rows, columns] = numbers
    status[rows, columns] = np.where([value is None for value in values], UNAVAILABLE, rank) if values else 0
    reject(_mark_unavailable(status, unavailable, position))
    return Known(X, status, warnings)


def _mark_unavailable(status: np.ndarray, unavailable: Sequence[str], position: Mapping[str, int]) -> Iterator[Flaw]:
    """Mark the features that cannot be had, and yield what is wrong with their names; each column is read once."""
    seen: set[str] = set()
    for place, name in enumerate(unavailable):
        if name not in position:
            yield Flaw(pointer("unavailable", place), unknown("feature", name, position))
        elif name in seen:
            yield Flaw(pointer("unavailable", place), f"{name!r} is named twice; name it once")
        elif (status[:, position[name]] > 0).any():
            yield Flaw(pointer("unavailable", place), f"{name!r} is known; leave it out here")
        else:
            status[:, position[name]] = UNAVAILABLE
        seen.add(name)


def _numbers(
    schema: Schema, n: int, rows: np.ndarray, columns: np.ndarray, values: list[Any], refused: Callable[[], Invalid]
) -> tuple[np.ndarray, list[str]]:
    """The values, of the cases `rows` and the features `columns`, as float64, categories as codes."""
    words = np.isin(columns, schema.categorical)
    if not words.any():
        return _floats(values, refused), []
    numbers, warnings = np.empty(len(values)), []
    numbers[~words] = _floats([values[i] for i in np.flatnonzero(~words)], refused)
    for j in np.unique(columns[words]).tolist():
        places = np.flatnonzero(columns == j)
        chosen = [values[i] for i in places]
        if not _WORDS.issuperset(map(type, chosen)):
            raise refused()
        numbers[places] = Schema([schema.features[j]]).encode([[word] for word in chosen])[0][:, 0]
        unseen = [i for i, word in zip(places, chosen, strict=True) if word is not None and np.isnan(numbers[i])]
        if unseen:
            warnings.append(schema.unseen(j, rows[unseen], len(unseen), n, values[unseen[0]]))
    return numbers, warnings


def _floats(values: list[Any], refused: Callable[[], Invalid]) -> np.ndarray:
    if not _NUMBERS.issuperset(map(type, values)):
        raise refused()
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        raise refused() from None


def _refused(schema: Schema, cases: Sequence[Any], place: Callable[[int], str]) -> Invalid:
    """Slow path: build detailed errors."""
    flaws = (flaw for i, case in enumerate(cases) for flaw in _flaws(schema, place(i), case))
    return Invalid("the cases cannot be used", flaws)


def _flaws(schema: Schema, loc: str, case: Any) -> Iterator[Flaw]:
    if type(case) is not dict:
        yield Flaw(loc, "a case is an object of known values by feature name")
        return
    for name, value in case.items():
        if name not in schema.names:
            yield Flaw(loc + pointer(name), unknown("feature", name, schema.names))
            continue
        categorical = schema.names.index(name) in schema.categorical
        if type(value) not in (_WORDS if categorical else _NUMBERS):
            needed = "a string" if categorical else "a number"
            yield Flaw(loc + pointer(name), f"{name!r} takes {needed}, or null where it cannot be had")
        elif type(value) is int and not is_float(value):
            yield Flaw(loc + pointer(name), OUTSIDE)
