"""Limits of a request on how often each action is chosen in its batch, and on the resources that actions use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, StrictInt, model_validator

from app.decisions.benefit import Decision
from app.decisions.limits import Limited, Limits, decide_within
from app.errors import Flaw, pointer, reject, unknown
from app.usecases.fields import Number, Text, WireModel, few

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
    use: Annotated[dict[Text, Amount], _FEW] = Field(min_length=1, description="by action; the others use nothing")
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
    shadow_price: float | None = Field(description="change of the total per unit more; null where that is infeasible")


@dataclass(frozen=True)
class _Entry:
    """One limit: the field of Limits, its place there, and the answer's fields but for what is used and its price."""

    field: str
    place: int
    name: str
    bound: str
    value: float


def decide_within_limits(
    asked: LimitedFields, P: np.ndarray, B: np.ndarray, decision: Decision, actions: Sequence[int | str]
) -> tuple[np.ndarray, dict[str, Any]]:
    """The actions (n,) that earn most in sum, and the figures of the answer; Invalid where there are none.

    P (n, K) and B as in `benefit.decide`, whose `decision` it is without limits.
    """
    names = [str(name) for name in actions]
    counted, resources = asked.limits or {}, asked.resources or []
    reject(_flaws(asked, counted, resources, names))
    entries = list(_entries(counted, resources, names))
    limits = Limits.none(len(names), len(resources))
    for entry in entries:
        getattr(limits, entry.field)[entry.place] = entry.value
    for r, resource in enumerate(resources):
        for name, use in resource.use.items():
            limits.uses[r, names.index(name)] = use
    found = decide_within(P, B, decision.choice, limits)
    counts = np.bincount(found.choice, minlength=len(names))
    rows = np.arange(len(P))
    return found.choice, {
        "limits": [_described(entry, found, limits, counts) for entry in entries],
        "total": float(decision.expected_benefits[rows, found.choice].sum()),
        "unlimited_total": float(decision.expected_benefits[rows, decision.choice].sum()),
        "gap": found.gap,
    }


def _flaws(
    asked: LimitedFields, counted: Mapping[str, CountLimit], resources: Sequence[Resource], names: Sequence[str]
) -> Iterator[Flaw]:
    used = {name for each in resources for name in each.use}
    if len(counted) + len(resources) > MAX_LIMITS or len(used | set(counted)) > _MAX_ACTIONS:
        message = f"at most {MAX_LIMITS} limits and resources, for at most {_MAX_ACTIONS} actions, are supported"
        yield Flaw(pointer(asked.limited[0]), message)
        return
    known = frozenset(names)
    for name, limit in counted.items():
        if name not in known:
            yield Flaw(pointer("limits", name), unknown("action", name, names))
        elif limit.at_least is not None and limit.at_most is not None and limit.at_least > limit.at_most:
            yield Flaw(pointer("limits", name), "at_least is greater than at_most; it must be at most as great")
    for r, resource in enumerate(resources):
        if any(resource.name == other.name for other in resources[:r]):
            yield Flaw(pointer("resources", r, "name"), "two resources have the same name")
        for name in resource.use:
            if name not in known:
                yield Flaw(pointer("resources", r, "use", name), unknown("action", name, names))


def _entries(
    counted: Mapping[str, CountLimit], resources: Sequence[Resource], names: Sequence[str]
) -> Iterator[_Entry]:
    """Each limit, in the order of the request."""
    for name, limit in counted.items():
        a = names.index(name)
        for field, bound, value in (("lower", "at_least", limit.at_least), ("upper", "at_most", limit.at_most)):
            if value is not None:
                yield _Entry(field, a, name, bound, value)
    for r, resource in enumerate(resources):
        yield _Entry("most", r, resource.name, "at_most", resource.at_most)


def _described(entry: _Entry, found: Limited, limits: Limits, counts: np.ndarray) -> dict[str, Any]:
    place, of_resource = entry.place, entry.field == "most"
    price = float(getattr(found, entry.field)[place])
    used = float(f"{limits.uses[place] @ counts:.{_DIGITS}g}") if of_resource else int(counts[place])
    shadow_price = price if math.isfinite(price) else None
    return {"name": entry.name, "used": used, entry.bound: entry.value, "shadow_price": shadow_price}
