"""Limits of a request on how often each action is chosen in its batch, and on the resources that actions use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.decisions.benefit import Decision
from app.decisions.limits import Limited, Limits, Member, conflict, decide_within
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.text import some_of

MAX_LIMITS = 100  # limits and resources
_MAX_ACTIONS = 50  # with limits; the work grows with their square
_MAX_NAMED = 20  # limits, in a message
_DIGITS = 12  # of what is used of a resource: the rest is rounding


@dataclass(frozen=True)
class CountLimit:
    """The least and most instances for which an action is chosen; None without that limit."""

    at_least: int | None
    at_most: int | None


@dataclass(frozen=True)
class Resource:
    """What each action uses of it, by name, and how much there is for the batch."""

    name: str
    use: Mapping[str, float]
    at_most: float


@dataclass(frozen=True)
class _Entry:
    """One limit: its place in the request, and the answer's fields but for what is used and its price."""

    member: Member
    place: str
    name: str
    bound: str
    value: float

    def __str__(self) -> str:
        return f"{self.name!r} {self.bound.replace('_', ' ')} {self.value:g}"


@dataclass(frozen=True)
class Constraints:
    """The limits of a request, and its resources."""

    limits: Mapping[str, CountLimit]
    resources: Sequence[Resource]

    @property
    def fields(self) -> list[str]:
        """The fields of the request that have them."""
        return [name for name in ("limits", "resources") if getattr(self, name)]

    def decide(
        self, P: np.ndarray, B: np.ndarray, decision: Decision, actions: Sequence[int | str]
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The actions (n,) that earn most in sum, and the figures of the answer; Invalid where there are none.

        P (n, K) and B as in `benefit.decide`, whose `decision` it is without limits.
        """
        names = [str(name) for name in actions]
        reject(self._flaws(names))
        limits, entries = self._arrays(names), list(self._entries(names))
        try:
            _check_feasible(len(P), limits, entries)
            found = decide_within(P, B, decision.choice, limits)
        except TimeoutError as error:
            message = "in 5 seconds no decisions within these limits were found; send fewer resources, or others"
            raise Invalid.at("/resources", message) from error
        counts = np.bincount(found.choice, minlength=len(names))
        rows = np.arange(len(P))
        return found.choice, {
            "limits": [_described(entry, found, limits, counts) for entry in entries],
            "total": float(decision.expected_benefits[rows, found.choice].sum()),
            "unlimited_total": float(decision.expected_benefits[rows, decision.choice].sum()),
            "gap": found.gap,
        }

    def _flaws(self, names: Sequence[str]) -> Iterator[Flaw]:
        used = {name for each in self.resources for name in each.use}
        if len(self.limits) + len(self.resources) > MAX_LIMITS or len(used | set(self.limits)) > _MAX_ACTIONS:
            place = pointer(self.fields[0])
            message = f"at most {MAX_LIMITS} limits and resources, for at most {_MAX_ACTIONS} actions, are supported"
            yield Flaw(place, message)
            return
        known = frozenset(names)
        for name, limit in self.limits.items():
            if name not in known:
                yield Flaw(pointer("limits", name), unknown("action", name, names))
            elif limit.at_least is not None and limit.at_most is not None and limit.at_least > limit.at_most:
                yield Flaw(pointer("limits", name), "at_least is greater than at_most; it must be at most as great")
        for r, resource in enumerate(self.resources):
            if any(resource.name == other.name for other in self.resources[:r]):
                yield Flaw(pointer("resources", r, "name"), "two resources have the same name")
            for name in resource.use:
                if name not in known:
                    yield Flaw(pointer("resources", r, "use", name), unknown("action", name, names))

    def _entries(self, names: Sequence[str]) -> Iterator[_Entry]:
        """Each limit, in the order of the request."""
        for name, limit in self.limits.items():
            a = names.index(name)
            for field, bound, value in (("lower", "at_least", limit.at_least), ("upper", "at_most", limit.at_most)):
                if value is not None:
                    yield _Entry((field, a), pointer("limits", name), name, bound, value)
        for r, resource in enumerate(self.resources):
            yield _Entry(("most", r), pointer("resources", r), resource.name, "at_most", resource.at_most)

    def _arrays(self, names: Sequence[str]) -> Limits:
        limits = Limits.none(len(names), len(self.resources))
        for entry in self._entries(names):
            field, place = entry.member
            getattr(limits, field)[place] = entry.value
        for r, resource in enumerate(self.resources):
            for name, use in resource.use.items():
                limits.uses[r, names.index(name)] = use
        return limits


def constraints_of(
    limits: Mapping[str, int | Mapping[str, Any]] | None, resources: Sequence[Mapping[str, Any]] | None
) -> Constraints | None:
    """The constraints as JSON has them, where a number is the most; None without any."""
    if not limits and not resources:
        return None
    counts = {
        name: CountLimit(None, each) if isinstance(each, int) else CountLimit(each.get("at_least"), each.get("at_most"))
        for name, each in (limits or {}).items()
    }
    return Constraints(counts, [Resource(each["name"], each["use"], each["at_most"]) for each in resources or ()])


def _check_feasible(n: int, limits: Limits, entries: Sequence[_Entry]) -> None:
    by_member = {entry.member: entry for entry in entries}
    if needed := [by_member[member] for member in conflict(n, limits, by_member)]:
        named = some_of([str(entry) for entry in needed], _MAX_NAMED)
        alone = "this limit" if len(needed) == 1 else "these limits together"
        raise Invalid.at(needed[0].place, f"decisions for {n} instances cannot meet {alone}: {named}; change one")


def _described(entry: _Entry, found: Limited, limits: Limits, counts: np.ndarray) -> dict[str, Any]:
    field, place = entry.member
    price = float(getattr(found, field)[place])
    used = float(f"{limits.uses[place] @ counts:.{_DIGITS}g}") if field == "most" else int(counts[place])
    shadow_price = price if math.isfinite(price) else None
    return {"name": entry.name, "used": used, entry.bound: entry.value, "shadow_price": shadow_price}
