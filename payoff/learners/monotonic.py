"""Features with which an answer may only rise, or only fall."""

from collections.abc import Collection, Iterator, Mapping, Sequence
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

    def flaws() -> Iterator[Flaw]:
        for feature in directions:
            place = _PLACE + pointer(feature)
            if feature not in features:
                yield unknown_at(place, "feature", feature, [*map(str, features)])
            elif features.index(feature) in categorical:
                message = f"{feature!r} is a category, which has no order; leave it out"
                yield Flaw(place, message)

    reject(flaws())
    signs = np.zeros(len(features))
    for feature, direction in directions.items():
        signs[features.index(feature)] = 1.0 if direction == "up" else -1.0
    return signs
