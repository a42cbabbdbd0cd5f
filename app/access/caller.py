"""Callers and their permissions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from app.access.rates import Rate
from app.errors import Forbidden
from app.patterns import compiled


class Scope(StrEnum):
    """What a key opens; `admin` opens everything, and none of the others opens another."""

    PREDICT = "predict"
    TRAIN = "train"
    METRICS = "metrics"
    ADMIN = "admin"


@dataclass(frozen=True)
class Caller:
    """The holder of a key, or any client if no keys are configured.

    `client` is the key's id, None where it is not one of the table's. `models` are patterns with `*` and `?`, of which
    a model's name has to match one; none at all leaves all models open. `jobs` bounds those queued and running at once.
    """

    name: str
    client: str | None = None
    scopes: frozenset[Scope] = frozenset(Scope)
    models: tuple[str, ...] = ()
    rate: Rate | None = None
    jobs: int | None = None

    def need(self, scopes: frozenset[Scope]) -> None:
        """Forbidden, naming what is missing, unless the key has one of these scopes; of none every key has enough."""
        if scopes and self.scopes.isdisjoint(scopes) and Scope.ADMIN not in self.scopes:
            wanted = " or ".join(repr(scope.value) for scope in Scope if scope in scopes)
            raise Forbidden(
                f"this needs a key with the scope {wanted}; that of {self.name!r} has {_listed(self.scopes)}"
            )

    def allows(self, reference: str) -> bool:
        """Whether the key is for the model that a reference (`name`, `name:3`, `name@alias`) begins with."""
        return not self.models or self._pattern.fullmatch(_END_OF_NAME.split(reference, maxsplit=1)[0]) is not None

    def need_model(self, reference: str) -> None:
        """Forbidden, in the same words whether the model is there or not, where the key is for others."""
        if not self.allows(reference):
            raise Forbidden(f"the key of {self.name!r} is for models named {' or '.join(self.models)}")

    @property
    def owner(self) -> str:
        """Whose data sets this caller makes: the key's name, which outlives the key; empty for keys of no table."""
        return "" if self.client is None else self.name

    def sees_data_of(self, owner: str) -> bool:
        """Whether the data sets of `owner` are theirs to see, use and delete: of keys for some models only their own
        are.
        """
        return not self.models or Scope.ADMIN in self.scopes or owner == self.owner

    def sees(self, model: str | None, client: str | None) -> bool:
        """Whether a job for `model`, ordered with the key `client`, is theirs to look at.

        A job for no model, a comparison, is hidden from keys that are for some models, unless they ordered it.
        """
        if model is None:
            return not self.models or client == self.client
        return self.allows(model)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return compiled(self.models)


ANYBODY = Caller("anonymous")
_END_OF_NAME = re.compile("[:@]")


def _listed(scopes: Iterable[Scope]) -> str:
    return ", ".join(repr(scope.value) for scope in Scope if scope in scopes) or "none"
