"""Features with which an answer may only rise, or only fall.

A missing value is neither low nor high: no direction bounds what the fit learns about it. Where no
row in training lacked the feature, the answer is averaged, see `Background.apart`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import WithJsonSchema

from payoff.errors import Flaw, Invalid, pointer, reject, unknown_at

_PLACE = "/monotonic"

Directions = Mapping[Any, Literal["up", "down"]]
Monotonic = Annotated[
    dict[Any, Literal["up", "down"]] | None,
    'Features, such as `{"income": "up"}`, with which the probability of the second of two'
    " classes, or the number, only rises (`up`) or only falls (`down`).",
    # The schema is cut: generators of clients fail at an object within alternatives.
    WithJsonSchema({}),
]
"""In requests by the name of a feature, in estimators by its column."""


def signs_of(
    directions: Directions,
    features: Sequence[Any],
    categorical: Collection[int],
    classes: int,
) -> np.ndarray:
    """1, -1 or 0 (m,) for each of the features: that an answer may only rise, or fall, or both.

    `categorical` are columns. Invalid below /monotonic of a feature that is unknown or categorical,
    and at it for more than two classes: which one should rise is not said.
    """
    if directions and classes > 2:
        raise Invalid.at(
            _PLACE,
            f"this is for numbers or two classes, and there are {classes}; leave it out",
        )
    reject(
        unknown_at(_PLACE + pointer(name), "feature", name, [*map(str, features)])
        for name in directions
        if name not in features
    )
    columns = [features.index(name) for name in directions]
    reject(
        Flaw(_PLACE + pointer(name), f"{name!r} is a category, which has no order")
        for name, column in zip(directions, columns, strict=True)
        if column in categorical
    )
    signs = np.zeros(len(features))
    signs[columns] = [1.0 if way == "up" else -1.0 for way in directions.values()]
    return signs
