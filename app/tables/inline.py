"""Data that comes as lists in a request, checked and turned into columns."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from app.tables.dataset import DataLimits
from app.tables.source import (
    Held,
    Location,
    Source,
    check_columns,
    check_names,
    check_rows,
)
from payoff.errors import MAX_NAME, Flaw, Invalid, pointer, reject

LABEL = "label"  # the name of the one label of inline data
WEIGHT = "weight of the row"  # the name of the column of its weights

_KINDS: dict[type, Held] = {
    int: "numeric",
    float: "numeric",
    str: "words",
    bool: "truth",
}
_HELD = {"numeric": "numbers", "words": "strings", "truth": "booleans"}


def inline_source(
    features: Sequence[str],
    rows: Sequence[Sequence[Any]],
    labels: Sequence[Any],
    limits: DataLimits,
    weights: Sequence[float] | None = None,
) -> tuple[Source, range, bool]:
    """Feature names, rows, labels and weights as lists; the positions of the labels, and whether a
    row may have several.

    Places are relative to the object that holds the three. Values are numbers, strings, booleans or
    None, of one kind in each column; labels are integers or strings (numbers that are not integers
    are a target to regress on), or for each row a list of names. Raises Invalid, or TooLarge.
    """
    check_rows(len(rows), limits)
    check_columns(len(features), limits)
    _check_shape(features, rows, labels)
    if weights is not None and WEIGHT in features:
        raise Invalid.at("/features", f"{WEIGHT!r} is the column of the weights")
    if weights is not None and len(weights) != len(rows):
        raise Invalid.at("/weights", f"{len(weights)} weights for {len(rows)} rows")
    names, targets, several = _targets(labels, len(features), limits)
    places = [
        Location(name, pointer("features", j), pointer("rows", "{}", j))
        for j, name in enumerate(features)
    ]
    places += [Location(name, "/labels", "/labels/{}") for name in names]
    columns = [*zip(*rows, strict=True), *targets]
    if weights is not None:
        places.append(Location(WEIGHT, "/weights", "/weights/{}"))
        columns.append(weights)
    kinds = [
        _kind(column, place) for column, place in zip(columns, places, strict=True)
    ]

    def batches() -> Iterator[list[Any]]:
        yield [
            _numbers(column) if kind == "numeric" else pa.array(column)
            for column, kind in zip(columns, kinds, strict=True)
        ]

    end = len(features) + len(targets)
    return Source(places, kinds, batches), range(len(features), end), several


def _check_shape(
    features: Sequence[str], rows: Sequence[Sequence[Any]], labels: Sequence[Any]
) -> None:
    flaws = [*check_names(list(features), "/features/{}")]
    if not features:
        flaws.append(Flaw("/features", "there is no feature"))
    if not rows:
        flaws.append(Flaw("/rows", "there is no row"))
    if len(labels) != len(rows):
        flaws.append(Flaw("/labels", f"{len(labels)} labels for {len(rows)} rows"))
    width = len(features)
    ragged = [i for i, row in enumerate(rows) if len(row) != width]
    flaws += [
        Flaw(pointer("rows", i), f"{len(rows[i])} values for {width} features")
        for i in ragged
    ]
    reject(flaws)


def _targets(
    labels: Sequence[Any], width: int, limits: DataLimits
) -> tuple[list[str], list[Sequence[Any]], bool]:
    """Names and columns of the labels, beside `width` features, and whether there may be several
    for a row.
    """
    if not any(isinstance(label, list | tuple) for label in labels):
        return [LABEL], [labels], False
    reject(_flaws_of_lists(labels))
    sets = [frozenset(label) for label in labels]
    names = sorted(frozenset().union(*sets))
    if not names:
        raise Invalid.at("/labels", "no row has a label")
    check_columns(width + len(names), limits)
    return names, [[int(name in present) for present in sets] for name in names], True


def _flaws_of_lists(labels: Sequence[Any]) -> Iterator[Flaw]:
    for i, label in enumerate(labels):
        if not isinstance(label, list | tuple):
            yield Flaw(
                pointer("labels", i),
                "the labels are lists elsewhere; send a list for each row",
            )
            continue
        for k, name in enumerate(label):
            if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
                msg = "a label in a list is a string that is not blank, of at most"
                yield Flaw(pointer("labels", i, k), f"{msg} {MAX_NAME} characters")


def _kind(column: Sequence[Any], place: Location) -> Held:
    """The one kind of a column's values; Invalid at those of another."""
    kinds = set(map(type, column)) - {type(None)}
    if kinds <= {int, float}:
        return "numeric"
    if kinds in ({str}, {bool}):
        return _KINDS[kinds.pop()]
    first = next(
        (_KINDS[type(value)] for value in column if type(value) in _KINDS), None
    )
    bad = [
        i
        for i, value in enumerate(column)
        if value is not None and (_KINDS.get(type(value)) != first or not first)
    ]
    held = (
        f"{place.name!r} holds {_HELD[first]} in other rows"
        if first
        else "values are numbers, strings, booleans or null"
    )
    raise Invalid.of(place.flaw(i, f"{held}; send the same here") for i in bad)


def _numbers(column: Sequence[Any]) -> Any:
    """A column as float64; what came as an integer of more than 64 bits is a float already."""
    return pa.array(
        np.array(column, dtype=np.float64),
        mask=np.array([value is None for value in column]),
    )
