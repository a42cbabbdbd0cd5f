"""The pass of a replay over recorded decisions, and that over decisions by rewards."""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import time
from typing import Any

import numpy as np
import orjson

from app.errors import NotFound
from app.outcomes.decision import Cases, Label, day_of
from app.registry.card import Card
from app.registry.loaded import Loaded
from app.report.earned import UNEQUAL, ActionCounts
from app.report.report import matured, maturing, reservations
from app.report.rewards import (
    PolicyLog,
    actions_of_most_cases,
    corrected,
    judged_rows,
    log_columns,
)
from app.report.slices import Slice, slices
from app.report.ways import Kept
from app.requests.specifications import ReplaySpec
from app.stores import Stores
from payoff import progress
from payoff.errors import PayoffError
from payoff.evidence.truths import Maturity

_NO_CASE = "there is no case with a known reward that it could decide on"


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


@dataclass
class _Version:
    """A version and its choices.

    It does not decide on the decisions of the period that it `learned` from: it would seem better
    than it is. `logs` are, by the actions that could be chosen, columns as `PolicyLog.of` takes
    them; the last action, which has no chance, is any other one.
    """

    name: str
    model: Loaded
    learned: tuple[float, float]
    logs: dict[tuple[Label, ...], Kept] = field(
        default_factory=partial(defaultdict, Kept)
    )
    left_out: Counter[str] = field(default_factory=Counter)
    failure: str | None = None

    def add(self, part: Slice, rows: np.ndarray) -> None:
        """Add the choices in rows (n,) of a slice, with the costs that the requests stated."""
        rows = self._decidable(part, rows)
        if not len(rows):
            return
        texts = part.instances or ()
        rewards = posterior(self.model, [texts[i] for i in rows.tolist()])
        actions = part.stack.actions
        columns = log_columns(part, rows)
        net, chances = np.split(columns[3:], 2)
        costs = part.probabilities[rows, : len(actions)] - net.T
        costs = np.column_stack((costs, np.zeros(len(rows))))
        places = {action: place for place, action in enumerate(actions)}
        codes = [places.get(action, len(actions)) for action in self.model.classes]
        chosen = np.array(codes)[(rewards - costs[:, codes]).argmax(axis=1)]
        nothing = np.zeros(len(rows))
        self.logs[actions].add(
            np.vstack((chosen, columns[:3], net, net.mean(axis=0), chances, nothing))
        )

    def _decidable(self, part: Slice, rows: np.ndarray) -> np.ndarray:
        """The rows with an instance, from which it did not learn."""
        first, last = self.learned
        at = part.at[rows]
        is_learned = (at >= first) & (at < last)
        texts = part.instances or [None] * len(part)
        is_recorded = np.array([texts[i] is not None for i in rows], dtype=bool)
        self.left_out["learned_from"] += int(is_learned.sum())
        self.left_out["without_instance"] += int((~is_recorded & ~is_learned).sum())
        return np.asarray(rows[is_recorded & ~is_learned])


class RewardReplay(ReplayPass):
    """Versions decide again on recorded instances; each is judged beside the log, beside the
    recorded decisions without exploration and beside the best single action, with the intervals of
    `policies.careful_mean`.
    """

    def __init__(self, stores: Stores, spec: ReplaySpec) -> None:
        super().__init__(stores, spec)
        self._versions = [
            _Version(name, model, _learned_from(stores, model.card, spec.model))
            for name, model in self._models.items()
        ]

    def _comparable(self, cases: Cases) -> Iterator[Slice]:
        for part in slices(cases, self._maturity.since):
            if part.stack.terms[0].rewarded:
                yield part
            else:
                self._left_out["other_classes"] += len(part)

    def _add(self, part: Slice) -> None:
        rows = judged_rows(part)
        self._left_out["overridden"] += int(part.known.sum()) - len(rows)
        for version in self._versions:
            if version.failure is None:
                try:
                    version.add(part, rows)
                except PayoffError as error:
                    version.failure = error.detail

    def _alternatives(self, *, selective: bool) -> list[dict[str, Any]]:
        """The versions, of the set of actions with most cases, with one correction for their number
        (Holm).
        """
        doubt = self._maturity.reason or (UNEQUAL if selective else None)
        actions = {
            version.name: actions_of_most_cases(version.logs)
            for version in self._versions
        }
        usable = [
            version
            for version in self._versions
            if version.failure is None and actions[version.name]
        ]
        kept = {version.name: version.logs[actions[version.name]] for version in usable}
        logs = {name: PolicyLog.of(cases.columns()) for name, cases in kept.items()}
        judgements = [log.judgements() for log in logs.values()]
        pairs = zip(
            corrected([first for first, _ in judgements]),
            corrected([second for _, second in judgements]),
            strict=True,
        )
        documents = {
            name: {
                "cases": len(log.chosen) * kept[name].stride,
                **log.document(pair, actions[name], doubt),
            }
            for (name, log), pair in zip(logs.items(), pairs, strict=True)
        }
        return [
            {
                "model": version.name,
                "left_out": dict(version.left_out),
                **documents.get(
                    version.name, {"cases": 0, "error": version.failure or _NO_CASE}
                ),
            }
            for version in self._versions
        ]


def _learned_from(stores: Stores, card: Card, model: str) -> tuple[float, float]:
    """When the decisions of a model were made that the data set of a version was made of, in
    seconds; of a deleted data set it may be all before the version.
    """
    try:
        dataset = stores.datasets.find(card.data.dataset or "")
    except NotFound:
        return -np.inf, card.created_at.timestamp()
    lineage = dataset.lineage
    if lineage is None or lineage["model"] != model:
        return np.inf, np.inf
    made = dataset.created_at.timestamp()
    return lineage["since"] or -np.inf, min(lineage["until"] or np.inf, made)
