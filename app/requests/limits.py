"""Limits of a request on how often each action is chosen in its batch, and on the resources that
actions use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, StrictInt, model_validator

from app.requests.fields import Number, Text, WireModel, limit_entries
from payoff.decisions.benefit import Decision
from payoff.decisions.limits import Limited, Limits, decide_within
from payoff.errors import Flaw, pointer, reject, unknown_at

MAX_LIMITS = 100  # limits and resources of one request
_MAX_ACTIONS = 50  # with limits or uses of a resource; the work grows with their square
_MAX_COUNT = 10**9  # of a limit; a batch has fewer instances
_MAX_AMOUNT = 1e150  # of a resource: products with counts stay far from overflow
# of the amount that is used of a resource: later digits are rounding errors
_DIGITS = 12


Count = Annotated[StrictInt, Field(ge=0, le=_MAX_COUNT)]
Amount = Annotated[Number, Field(ge=0, le=_MAX_AMOUNT)]
_LIMITED_ENTRIES = limit_entries(MAX_LIMITS, "limits")


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
    use: Annotated[dict[Text, Amount], _LIMITED_ENTRIES] = Field(
        min_length=1, description="by action; the others use nothing"
    )
    at_most: Amount


def _in_full(value: Any) -> Any:
    """A bare number stands for `at_most`."""
    return value if isinstance(value, dict | CountLimit) else {"at_most": value}


_Limit = Annotated[
    CountLimit, BeforeValidator(_in_full, json_schema_input_type=Count | CountLimit)
]
LimitsByAction = Annotated[dict[Text, _Limit], _LIMITED_ENTRIES, Field(min_length=1)]
Resources = Annotated[list[Resource], _LIMITED_ENTRIES, Field(min_length=1)]


class LimitedFields(WireModel):
    """The fields for limits of a batch."""

    limits: LimitsByAction | None = Field(
        default=None,
        description="of the batch, by action: how many instances at most, or `at_least` and"
        " `at_most`",
        examples=[{"treat": 20, "inspect": {"at_least": 5, "at_most": 9}}],
    )
    resources: Resources | None = Field(
        default=None,
        description="what the actions of the batch use together, and at most",
    )

    @cached_property
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


def check_limits(fields: LimitedFields, actions: Sequence[int | str]) -> None:
    """Invalid where limits or resources do not fit the `actions`, or each other."""
    if fields.limited:
        names = [str(name) for name in actions]
        reject(_flaws(fields, fields.limits or {}, fields.resources or [], names))


def decide_within_limits(
    fields: LimitedFields,
    P: np.ndarray,
    B: np.ndarray,
    decision: Decision,
    actions: Sequence[int | str],
) -> tuple[np.ndarray, dict[str, Any]]:
    """The actions (n,) that earn most in sum, and the figures of the answer.

    Invalid where no actions are within the limits, which `check_limits` has checked.
    P (n, K) and B as in `benefit.decide`, whose `decision` it is without limits.
    """
    names = [str(name) for name in actions]
    counted = fields.limits or {}
    resources = fields.resources or []
    limits = Limits.none(len(names), len(resources))
    for name, limit in counted.items():
        limits.lower[names.index(name)] = limit.at_least or 0
        limits.upper[names.index(name)] = (
            _MAX_COUNT if limit.at_most is None else limit.at_most
        )
    for r, resource in enumerate(resources):
        limits.available[r] = resource.at_most
        for name, use in resource.use.items():
            limits.uses[r, names.index(name)] = use
    solution = decide_within(P, B, decision.choice, limits)
    rows = np.arange(len(P))
    earned = decision.expected_benefits
    return solution.choice, {
        "limits": _documents(counted, resources, names, limits, solution),
        "total": float(earned[rows, solution.choice].sum()),
        "unlimited_total": float(earned[rows, decision.choice].sum()),
        "gap": solution.gap,
    }


def _flaws(
    fields: LimitedFields,
    counted: Mapping[str, CountLimit],
    resources: Sequence[Resource],
    names: Sequence[str],
) -> Iterator[Flaw]:
    n_limits = len(counted) + len(resources)
    limited = set(counted).union(*(resource.use for resource in resources))
    if n_limits > MAX_LIMITS or len(limited) > _MAX_ACTIONS:
        yield Flaw(
            pointer(fields.limited[0]),
            f"at most {MAX_LIMITS} limits and resources, for at most {_MAX_ACTIONS} actions, are"
            " supported",
        )
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
        if any(resource.name == earlier.name for earlier in resources[:r]):
            yield Flaw(
                pointer("resources", r, "name"), "two resources have the same name"
            )
        for name in resource.use:
            if name not in known:
                yield unknown_at(
                    pointer("resources", r, "use", name), "action", name, names
                )


def _documents(
    counted: Mapping[str, CountLimit],
    resources: Sequence[Resource],
    names: Sequence[str],
    limits: Limits,
    solution: Limited,
) -> list[dict[str, Any]]:
    """Each limit, in the order of the request, with what is used of it and its price."""
    counts = np.bincount(solution.choice, minlength=len(names))
    bounds: list[tuple[str, float, str, float, float]] = []
    for name, limit in counted.items():
        a = names.index(name)
        used = int(counts[a])
        if limit.at_least is not None:
            bounds.append((name, used, "at_least", limit.at_least, solution.lower[a]))
        if limit.at_most is not None:
            bounds.append((name, used, "at_most", limit.at_most, solution.upper[a]))
    for resource, uses, price in zip(
        resources, limits.uses, solution.available, strict=True
    ):
        amount = float(f"{uses @ counts:.{_DIGITS}g}")
        bounds.append((resource.name, amount, "at_most", resource.at_most, price))
    return [
        {
            "name": name,
            "used": used,
            bound: value,
            "shadow_price": float(price) if math.isfinite(price) else None,
        }
        for name, used, bound, value, price in bounds
    ]
