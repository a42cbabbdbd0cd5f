"""Prices of features as requests write them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from pydantic import (
    AfterValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from app.known_fields import KnownFields
from payoff.acquisition.prices import SMALLEST, Prices
from payoff.decisions.benefit import LARGEST
from payoff.errors import MAX_NAME, Flaw, Invalid, pointer, reject, unknown, words_of


def _known(name: str, info: ValidationInfo[dict[str, Any]]) -> str:
    """The name of a feature that the request has not priced before."""
    columns = info.context["columns"]
    priced = info.context["priced"]
    if name in info.context["ignored"]:
        raise ValueError(
            f"the column {name!r} is not trained with: {info.context['ignored'][name]}"
        )
    if name not in columns:
        strange = info.context["strange"] = info.context.get("strange", 0) + 1
        is_first = strange == 1  # the only one that has a suggestion
        raise ValueError(
            unknown("feature", name, columns) if is_first else "unknown feature"
        )
    if name in priced:
        raise ValueError(f"{name!r} is priced twice; keep one entry")
    priced.add(name)
    return name


def _not_tiny(price: float) -> float:
    if 0 < price < SMALLEST:
        raise ValueError(f"a price is 0, or at least {SMALLEST:g}")
    return price


_PRICE = {"type": "number", "minimum": 0}
_Feature = Annotated[str, Field(strict=True), AfterValidator(_known)]
_Price = Annotated[
    float,
    Field(strict=True, ge=0, le=LARGEST, allow_inf_nan=False),
    AfterValidator(_not_tiny),
    WithJsonSchema(_PRICE),
]


class FeatureCost(KnownFields):
    """What it costs to learn one feature's value."""

    feature: _Feature
    cost: _Price
    group: (
        Annotated[str, Field(strict=True, min_length=1, max_length=MAX_NAME)] | None
    ) = None
    discounted_cost: _Price | None = Field(
        default=None, description="once another feature of the group is known"
    )


_LONG = {"type": "array", "items": FeatureCost.model_json_schema()}
_SCHEMA = {
    "oneOf": [
        {"type": "object", "additionalProperties": _PRICE},
        _LONG,
        {"type": "null"},
    ]
}
FeatureCosts = Annotated[Any, WithJsonSchema(_SCHEMA)]
_BY_NAME: TypeAdapter[dict[str, float]] = TypeAdapter(dict[_Feature, _Price])
_LISTED: TypeAdapter[list[FeatureCost]] = TypeAdapter(list[FeatureCost])


def parse_prices(
    costs: Any,
    names: Sequence[str],
    base: Prices | None = None,
    ignored: Mapping[str, str] = MappingProxyType({}),
) -> Prices:
    """Prices for the features `names` from `feature_costs` as requests send it.

    `costs` is `{feature: price, …}` or
    `[{"feature", "cost", "group"?, "discounted_cost"?}, …]`; None means `base`, or 1 for each
    feature where there is no base. A feature that is not listed keeps its price in `base`; without
    a base every feature must be priced. A bare price changes what a feature costs, not its group: a
    discounted price above it comes down to it. Raises Invalid with the place of every flaw:
    features that are unknown or `ignored`, unknown keys, prices below zero or not finite, a feature
    priced twice, a group without a discounted cost or one above the cost. O(m).
    """
    if costs is None:
        return Prices.unit(len(names)) if base is None else base
    start = Prices.of(np.zeros(len(names))) if base is None else base
    cost = start.cost.copy()
    discounted = start.discounted.copy()
    group = start.group.copy()
    numbers = {name: g for g, name in enumerate(start.groups)}
    columns = {name: j for j, name in enumerate(names)}
    priced = set[str]()
    context = {"columns": columns, "priced": priced, "ignored": ignored}
    try:
        if isinstance(costs, dict):
            for name, price in _BY_NAME.validate_python(costs, context=context).items():
                j = columns[name]
                cost[j] = price
                discounted[j] = min(price, discounted[j]) if group[j] >= 0 else price
        else:
            entries = _LISTED.validate_python(costs, context=context)
            reject(
                (
                    flaw
                    for i, entry in enumerate(entries)
                    for flaw in _flaws(pointer(i), entry)
                ),
                _INVALID,
            )
            for entry in entries:
                j = columns[entry.feature]
                cost[j] = entry.cost
                discounted[j] = (
                    entry.cost if entry.group is None else entry.discounted_cost
                )
                group[j] = -1
                if entry.group is not None:
                    group[j] = numbers.setdefault(entry.group, len(numbers))
    except ValidationError as error:
        messages = {
            _place(detail["loc"], detail["type"]): words_of(detail)
            for detail in reversed(error.errors())
        }
        raise Invalid(
            _INVALID, (Flaw(*flaw) for flaw in reversed(messages.items()))
        ) from None
    absent = () if base is not None else (name for name in names if name not in priced)
    reject(
        (
            Flaw("", f"{name!r} has no price; give 0 to a feature that is free")
            for name in absent
        ),
        _INVALID,
    )
    return Prices(cost, discounted, group, tuple(numbers))


_INVALID = "invalid feature_costs"


def _flaws(loc: str, entry: FeatureCost) -> list[Flaw]:
    if entry.discounted_cost is None:
        message = "a member of a group needs its discounted_cost"
        return [] if entry.group is None else [Flaw(loc, message)]
    if entry.discounted_cost > entry.cost:
        return [
            Flaw(
                f"{loc}/discounted_cost",
                f"the discounted cost is above the cost {entry.cost}",
            )
        ]
    if entry.group is None and entry.discounted_cost != entry.cost:
        return [
            Flaw(
                f"{loc}/discounted_cost", "a discount needs a group that it belongs to"
            )
        ]
    return []


def _place(loc: tuple[int | str, ...], kind: str) -> str:
    """A pointer to a value that exists: of a wrong key its value, of a missing field its object."""
    return pointer(*(loc[:-1] if kind == "missing" or loc[-1:] == ("[key]",) else loc))
