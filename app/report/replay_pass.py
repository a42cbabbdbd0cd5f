"""The pass of a replay over recorded decisions, day by day."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from time import time
from typing import Any

import numpy as np
import orjson

from app.outcomes.decision import Cases, day_of
from app.registry.loaded import Loaded
from app.report.earned import ActionCounts
from app.report.report import matured, maturing, reservations
from app.report.slices import Slice, slices
from app.requests.specifications import ReplaySpec
from app.stores import Stores
from payoff import progress
from payoff.evidence.truths import Maturity


def posterior(model: Loaded, texts: Sequence[Any]) -> np.ndarray:
    """The posterior (n, K) of recorded instances, as JSON with all features of the model."""
    # Instances also have columns of benefits and costs.
    features = frozenset(model.schema.names)
    instances = [
        {name: value for name, value in orjson.loads(text).items() if name in features}
        for text in texts
    ]
    X, _ = model.schema.encode(instances)
    return np.asarray(model.estimator.posterior(X))


class ReplayPass(ABC):
    """What replays have in common: which cases are read, what is known, and what may be concluded.

    A replay yields the cases that it can compare, and adds up what its alternatives do in them.
    """

    needs_instances = True

    def __init__(self, stores: Stores, spec: ReplaySpec) -> None:
        self._archive = stores.archive
        self._spec = spec
        self._models = {name: stores.registry.load(name) for name in spec.models}
        self._left_out: Counter[str] = Counter()
        self._actions = ActionCounts()
        self._maturity = Maturity()
        self._decisions = 0
        self._known = 0

    @abstractmethod
    def _comparable(self, cases: Cases) -> Iterator[Slice]:
        """Slices of the cases that are compared; the others are counted in `_left_out`."""

    @abstractmethod
    def _add(self, part: Slice) -> None:
        """Add a slice to the alternatives."""

    @abstractmethod
    def _alternatives(self, *, selective: bool) -> list[dict[str, Any]]:
        """The documents of the alternatives."""

    def read(self) -> None:
        spec = self._spec
        recorded = partial(
            self._archive.cases,
            spec.model,
            since=spec.since,
            until=spec.until,
            versions=spec.versions,
        )
        self._maturity = matured(recorded(arrivals_only=True), time())
        last = day_of(time() if spec.until is None else spec.until)
        first = None
        for cases in recorded(with_instances=self.needs_instances):
            first = cases.day if first is None else first
            for part in slices(cases, self._maturity.since):
                self._actions.add(part)
            for part in self._comparable(cases):
                self._decisions += len(part)
                self._known += int(np.count_nonzero(part.known))
                self._add(part)
            progress.report(
                (cases.day + 1 - first) / max(last + 1 - first, 1), "replaying"
            )

    def document(self) -> dict[str, Any]:
        """The job's result."""
        selective = self._actions.document()
        maturity = self._maturity
        return {
            "model": self._spec.model,
            "versions": self._spec.versions,
            "decisions": self._decisions,
            "known": self._known,
            "left_out": dict(self._left_out),
            "selective": selective,
            "maturing": maturing(maturity),
            "alternatives": self._alternatives(selective=selective["is"]),
            "warnings": list(reservations(maturity, selective=selective["is"])),
        }
