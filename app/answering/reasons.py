"""The features that count most against an action, for each case, and their texts."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
from pydantic import BaseModel, Field

from app.registry.loaded import Loaded
from app.registry.saved_documents import REASONS
from app.requests.reasons import Direction, ReasonsFields
from app.requests.rows import Rows
from app.stores import Stores
from payoff.decisions.explanations import Contributions
from payoff.errors import Invalid, TooLarge, pointer, reject, unknown, unknown_at

_LEAST = 1e-9  # contributions that are smaller are rounding
_MOST = 10_000  # instances times reasons


class Reason(BaseModel):
    """A feature that counts against an action."""

    feature: str
    value: float | str | bool | None
    contribution: float = Field(
        gt=0,
        description="by how much it moves the score of `contributions_to` against the action: up,"
        " or of the second class of two down where the first one speaks against the action",
    )
    direction: Direction = Field(
        description="low: of the least, the middle and the greatest value in training that which"
        " speaks least against the action is higher; any: it is a category, has no range, or none"
        " of these speaks less against the action"
    )
    text: str | None = Field(description="as saved for the model; null: none is")


def position_of(terms: ReasonsFields, actions: Sequence[int | str]) -> int:
    """The position of the action; Invalid at /explain/against for an unknown one."""
    names = [str(name) for name in actions]
    if str(terms.against) not in names:
        message = unknown("action", terms.against, names)
        raise Invalid.at("/explain/against", message)
    return names.index(str(terms.against))


def reasons(
    terms: ReasonsFields,
    model: Loaded,
    rows: Rows,
    attribution: Contributions,
    towards: np.ndarray,
) -> Iterator[list[dict[str, Any]]]:
    """Each row's reasons, without texts, by what speaks for the class `towards` int (n,), which
    speaks against the action.

    A contribution keeps its sign where it is to this class; where it is to the other one of two,
    the sign changes. Invalid at /explain/exclude of an unknown feature; TooLarge for more than
    `_MOST`. Time: four predictions for each reason.
    """
    if len(rows.X) * terms.reasons > _MOST:
        fix = f"send at most {_MOST // terms.reasons:,} instances, or ask for fewer reasons"
        raise TooLarge(f"these are more than {_MOST:,} reasons: {fix}")
    names = model.schema.names
    reject(
        unknown_at(pointer("explain", "exclude", i), "feature", name, names)
        for i, name in enumerate(terms.exclude)
        if name not in names
    )
    signs = np.where(attribution.chosen == towards, 1.0, -1.0)
    against = attribution.values * signs[:, None]
    against[:, [names.index(name) for name in terms.exclude]] = 0.0
    order = np.argsort(-against, axis=1, kind="stable")[:, : terms.reasons]
    instances = [orjson.loads(text) for text in rows.texts(model.schema)]
    directions = [_directions(model, rows.X, features, towards) for features in order.T]
    for i, instance in enumerate(instances):
        yield [
            {
                "feature": names[j],
                "value": instance[names[j]],
                "contribution": float(against[i, j]),
                "direction": direction[i],
                "text": None,
            }
            for j, direction in zip(order[i], directions, strict=True)
            if against[i, j] > _LEAST and model.estimator.ranks()
        ]


def _directions(
    model: Loaded, X: np.ndarray, features: np.ndarray, towards: np.ndarray
) -> list[str]:
    """The direction of one feature of each row X (n, m): see `Reason`."""
    rows = np.arange(len(X))
    ends = np.array(
        [
            (np.nan, np.nan) if part.low is None else (part.low, part.high)
            for part in model.card.features
        ]
    )[features]
    value = X[rows, features]
    places = np.stack([ends[:, 0], ends.mean(axis=1), ends[:, 1], value])
    moved = np.stack([X] * len(places))
    moved[:, rows, features] = places
    P = model.estimator.posterior(moved.reshape(-1, X.shape[1]))
    chances = P.reshape(len(places), len(X), -1)[:, rows, towards]
    least = chances.argmin(axis=0)
    best = places[least, rows]
    is_best = chances[least, rows] >= chances[-1]
    kinds = [np.isnan(value), np.isnan(ends[:, 0]) | is_best, value < best]
    return np.select(kinds, ["missing", "any", "low"], "high").tolist()


def add_texts(
    stores: Stores, model: str, explanations: Iterable[dict[str, Any]]
) -> None:
    """Put the texts that are saved for the model into the reasons. It reads memory alone."""
    saved = stores.documents.of(model, REASONS).get(REASONS)
    texts = {} if saved is None else saved.document
    for explanation in explanations:
        for reason in explanation.get("reasons", ()):
            by_direction = texts.get(reason["feature"], {})
            text = by_direction.get(reason["direction"], by_direction.get("any"))
            reason["text"] = text
