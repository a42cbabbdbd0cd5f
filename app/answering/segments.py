"""Segments of recorded decisions: values of a few columns, by which reports can be divided."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from app.requests.rows import Rows
from app.tables.features import Schema, text_of
from app.tables.text import normal
from payoff.errors import Flaw, Invalid, described, pointer, reject

MOST_VALUES = 50  # of a column in one request
_MAX_VALUE = 100  # characters
_TYPES = {str, int, float, bool, type(None)}
_SCALAR = f"a segment is a number, a boolean or text of at most {_MAX_VALUE} characters"


def segment_texts(rows: Rows, schema: Schema, names: Sequence[str]) -> list[str] | None:
    """The values of n rows in the columns of these names, for each row as a JSON object; None
    without names.

    Invalid below /record/segments for a column that no row has or that has more values than
    `MOST_VALUES`, and at a value that is no text, number or boolean.
    """
    if not names:
        return None
    columns = [
        _texts(rows, schema, name, pointer("record", "segments", k))
        for k, name in enumerate(names)
    ]
    combinations = list(zip(*columns, strict=True))
    texts = {
        values: orjson.dumps(dict(sorted(zip(names, values, strict=True)))).decode()
        for values in set(combinations)
    }
    return [texts[values] for values in combinations]


def _texts(rows: Rows, schema: Schema, name: str, place: str) -> list[str | None]:
    """The values (n,) of a column as text, None where missing."""
    if name in schema.names:
        j = schema.names.index(name)
        words = schema.features[j].categories
        numbers = rows.X[:, j].tolist()
        if words:
            values = [None if np.isnan(code) else words[int(code)] for code in numbers]
        else:
            values = [None if np.isnan(number) else number for number in numbers]
    else:
        values = _beside(rows, name, place)
        reject(
            Flaw(rows.root + pointer(i, name), f"{_SCALAR}, not {described(value)}")
            for i, value in enumerate(values)
            if type(value) not in _TYPES or len(str(value)) > _MAX_VALUE
        )
    texts = [None if x is None else normal(text_of(x)) or None for x in values]
    count = len(set(texts))
    if count > MOST_VALUES:
        message = f"{name!r} has {count:,} different values in this request"
        raise Invalid.at(place, f"{message}; segments have at most {MOST_VALUES}")
    return texts


def _beside(rows: Rows, name: str, place: str) -> list[Any]:
    """The values of a column that is no feature: of JSON objects, or of a table."""
    for instance in rows.instances or ():
        if type(instance) is dict and name in instance:
            return [
                row.get(name) if type(row) is dict else None
                for row in rows.instances or ()
            ]
    if name in rows.carried.kept:
        return list(rows.carried.document()["kept"][name])
    raise Invalid.at(
        place,
        f"no instance has {name!r}: name a feature, another member of the instances, or a"
        " column of a table that 'keep' names, too",
    )
