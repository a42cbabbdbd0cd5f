"""Limits of a request on how often each action is chosen in its batch, and on the resources that actions use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, StrictInt, model_validator

from app.requests.fields import Number, Text, WireModel, few
from payoff.decisions.benefit import Decision
from payoff.decisions.limits import Limited, Limits, decide_within
from payoff.errors import Flaw, pointer, reject, unknown_at

MAX_LIMITS = 100  # limits and resources
_MAX_ACTIONS = 50  # with limits; the work grows with their square
_MOST = 10**9  # of a count; a batch has fewer instances
_LARGEST = 1e150  # of a resource: products with counts stay far from overflow
_DIGITS = 12  # of what is used of a resource: the rest is rounding


Count = Annotated[StrictInt, Field(ge=0, le=_MOST)]
Amount = Annotated[Number, Field(ge=0, le=_LARGEST)]


_FEW = few(MAX_LIMITS, "limits")


class CountLimit(WireModel):
    """The least and most instances for which an action may be chosen."""

    at_least: Count | None = None
    at_most: Count | None = None

    @model_validator(mode="after")
    def _any(self) -> CountLimit:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a limit has 'at_least', 'at_most' or both")
        return self


class Resource(WireModel):
    """What actions use together, each instance so much."""

    name: Text
    use: Annotated[dict[Text, Amount], _FEW] = Field(
        min_length=1, description="by action; the others use nothing"
    )
    at_most: Amount


def _in_full(sent: Any) -> Any:
    """A number is the most."""
    return sent if isinstance(sent, dict | CountLimit) else {"at_most": sent}


_Limit = Annotated[CountLimit, BeforeValidator(_in_full, json_schema_input_type=Count | CountLimit)]
LimitsByAction = Annotated[dict[Text, _Limit], _FEW, Field(min_length=1)]
Resources = Annotated[list[Resource], _FEW, Field(min_length=1)]


class LimitedFields(WireModel):
    """The fields for limits of a batch."""

    limits: LimitsByAction | None = Field(
        default=None,
        description="of the batch, by action: how many instances at most, or `at_least` and `at_most`",
        examples=[{"treat": 20, "inspect": {"at_least": 5, "at_most": 9}}],
    )
    resources: Resources | None = Field(
        default=None, description="what the actions of the batch use together, and at most"
    )

    @property
    def limited(self) -> list[str]:
        """Those of the fields that were sent."""
        return [name for name in ("limits", "resources") if getattr(self, name)]


class LimitAnswer(BaseModel):
    """A limit and what was used of it."""

    name: str
    used: float
    at_most: float | None = None
    at_least: float | None = None
    shadow_price: float | None = Field(
        description="change of the total per unit more; null where that is infeasible"
    )


def decide_within_limits(
    asked: LimitedFields,
    P: np.ndarray,
    B: np.ndarray,
    decision: Decision,
    actions: Sequence[int | str],
) -> tuple[np.ndarray, dict[str, Any]]:
    """The actions (n,) that earn most in sum, and the figures of the answer; Invalid where there are none.

    P (n, K) and B as in `benefit.decide`, whose `decision` it is without limits.
    """
    names = [str(name) for name in actions]
    counted, resources = asked.limits or {}, asked.resources or []
    reject(_flaws(asked, counted, resources, names))
    limits = Limits.none(len(names), len(resources))
    for name, limit in counted.items():
        limits.lower[names.index(name)] = limit.at_least or 0
        limits.upper[names.index(name)] = _MOST if limit.at_most is None else limit.at_most
    for r, resource in enumerate(resources):
        limits.most[r] = resource.at_most
        for name, use in resource.use.items():
            limits.uses[r, names.index(name)] = use
    found = decide_within(P, B, decision.choice, limits)
    rows, earned = np.arange(len(P)), decision.expected_benefits
    return found.choice, {
        "limits": list(_documents(counted, resources, names, limits, found)),
        "total": float(earned[rows, found.choice].sum()),
        "unlimited_total": float(earned[rows, decision.choice].sum()),
        "gap": found.gap,
    }


def _flaws(
    asked: LimitedFields,
    counted: Mapping[str, CountLimit],
    resources: Sequence[Resource],
    names: Sequence[str],
) -> Iterator[Flaw]:
    used = {name for each in resources for name in each.use}
    if len(counted) + len(resources) > MAX_LIMITS or len(used | set(counted)) > _MAX_ACTIONS:
        message = f"at most {MAX_LIMITS} limits and resources, for at most {_MAX_ACTIONS} actions, are supported"
        yield Flaw(pointer(asked.limited[0]), message)
        return
    known = frozenset(names)
    for name, limit in counted.items():
        if name not in known:
            yield unknown_at(pointer("limits", name), "action", name, names)
        elif (
            limit.at_least is not None
            and limit.at_most is not None
            and limit.at_least > limit.at_most
        ):
            yield Flaw(
                pointer("limits", name),
                "at_least is greater than at_most; it must be at most as great",
            )
    for r, resource in enumerate(resources):
        if any(resource.name == other.name for other in resources[:r]):
            yield Flaw(pointer("resources", r, "name"), "two resources have the same name")
        for name in resource.use:
            if name not in known:
                yield unknown_at(pointer("resources", r, "use", name), "action", name, names)


def _documents(
    counted: Mapping[str, CountLimit],
    resources: Sequence[Resource],
    names: Sequence[str],
    limits: Limits,
    found: Limited,
) -> Iterator[dict[str, Any]]:
    """Each limit, in the order of the request, with what is used of it and its price."""
    counts = np.bincount(found.choice, minlength=len(names))

    def described(name: str, used: float, bound: str, value: float, price: float) -> dict[str, Any]:
        price = float(price)
        return {
            "name": name,
            "used": used,
            bound: value,
            "shadow_price": price if math.isfinite(price) else None,
        }

    for name, limit in counted.items():
        a = names.index(name)
        for bound, prices in (("at_least", found.lower), ("at_most", found.upper)):
            if (value := getattr(limit, bound)) is not None:
                yield described(name, int(counts[a]), bound, value, prices[a])
    for resource, uses, price in zip(resources, limits.uses, found.most, strict=True):
        yield described(
            resource.name, float(f"{uses @ counts:.{_DIGITS}g}"), "at_most", resource.at_most, price
        )
