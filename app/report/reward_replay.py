"""Replays of decisions by rewards: what other versions would have earned before an alias moves."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from app.errors import NotFound
from app.outcomes.decision import Cases, Label
from app.registry.card import Card
from app.registry.loaded import Loaded
from app.report.earned import UNEQUAL
from app.report.policies import PolicyLog, corrected, judged_rows, log_columns
from app.report.replay_pass import ReplayPass, posterior
from app.report.slices import Slice, slices
from app.report.ways import Kept
from app.requests.specifications import ReplaySpec
from app.stores import Stores
from payoff.errors import PayoffError

_NO_CASE = "there is no case with a known reward that it could decide on"
_Period = tuple[float, float]
_NEVER: _Period = (np.inf, np.inf)


@dataclass
class _Version:
    """A version, None for the recorded decisions without exploration, and its choices.

    It does not decide on the decisions of the period that it `learned` from: it would seem better
    than it is. `kept` are columns as `PolicyLog.of` takes them, of the actions `names`.
    """

    name: str | None
    names: Sequence[Label]
    model: Loaded | None = None
    learned: _Period = _NEVER
    kept: Kept = field(default_factory=Kept)
    left_out: Counter[str] = field(default_factory=Counter)
    failure: str | None = None

    def add(self, part: Slice, rows: np.ndarray) -> None:
        """Add the choices in rows (n,) of a slice, with the costs that the requests stated."""
        places = [self.names.index(action) for action in part.stack.actions]
        if self.model is not None:
            rows = self._decidable(part, rows)
        columns = self._widened(log_columns(part, rows), places)
        chances = columns[-len(self.names) :]
        chosen = chances.argmax(axis=0)
        if self.model is not None and len(rows):
            texts = part.instances or ()
            rewards = posterior(self.model, [texts[i] for i in rows.tolist()])
            codes = np.array([self.names.index(name) for name in self.model.classes])
            expected, _, net = np.split(part.probabilities[rows], 3, axis=1)
            costs = np.zeros((len(rows), len(self.names)))
            costs[:, places] = expected - net
            chosen = codes[(rewards - costs[:, codes]).argmax(axis=1)]
        self.kept.add(np.vstack((chosen, columns)))

    @property
    def is_usable(self) -> bool:
        """Whether it has choices to be judged."""
        return self.failure is None and bool(self.kept.columns().size)

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

    def _widened(self, columns: np.ndarray, places: list[int]) -> np.ndarray:
        """`log_columns` of the actions at these places, as those of all `names`.

        An action that could not be chosen has no chance, and counts as the mean action.
        """
        expected, chances = np.split(columns[2:], 2)
        wide = np.zeros((2, len(self.names), columns.shape[1]))
        wide[0] = expected.mean(axis=0)
        wide[:, places] = expected, chances
        codes = np.array(places)[columns[0].astype(np.intp)]
        return np.vstack((codes, columns[1], *wide))


class RewardReplay(ReplayPass):
    """Versions decide again on recorded instances; each is judged beside the log, beside the
    recorded decisions without exploration and beside the best single action.
    """

    def __init__(self, stores: Stores, spec: ReplaySpec) -> None:
        super().__init__(stores, spec)
        self._deleted: list[str] = []
        self._names = list(spec.classes)
        self._versions = [_Version(None, self._names)]
        for name, model in self._models.items():
            learned = self._learned_from(stores, model.card)
            self._versions.append(_Version(name, self._names, model, learned))

    def _learned_from(self, stores: Stores, card: Card) -> _Period:
        """When the decisions were made that the data set of a version was made of, in seconds."""
        try:
            dataset = stores.datasets.find(card.data.dataset or "")
        except NotFound:
            self._deleted.append(f"{card.name}:{card.version}")
            return _NEVER
        lineage = dataset.lineage
        if lineage is None or lineage["model"] != self._spec.model:
            return _NEVER
        made = dataset.created_at.timestamp()
        return lineage["since"] or -np.inf, min(lineage["until"] or np.inf, made)

    def _comparable(self, cases: Cases) -> Iterator[Slice]:
        names = set(self._names)  # a version may have begun since these were noted
        for part in slices(cases, self._maturity.since):
            if part.stack.terms[0].rewarded and names.issuperset(part.stack.actions):
                yield part
            else:
                self._left_out["other_classes"] += len(part)

    def _noted(self, days: Iterable[Cases]) -> Iterator[Cases]:
        """The cases as they are; those actions are noted that only earlier versions had."""
        for cases in days:
            for terms in filter(attrgetter("rewarded"), cases.terms):
                missing = set(terms.actions).difference(self._names)
                self._names += sorted(missing, key=str)
            yield cases

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
        """The versions, with one correction for their number (Holm)."""
        doubt = self._maturity.reason or (UNEQUAL if selective else None)
        usable = [version for version in self._versions if version.is_usable]
        logs = [PolicyLog.of(version.kept.columns()) for version in usable]
        judgements = [log.judgements() for log in logs]
        beside_log = corrected([first for first, _ in judgements])
        beside_recorded = corrected([second for _, second in judgements])
        documents = {
            version.name: {
                "cases": len(log.chosen) * version.kept.stride,
                **log.document(pair, version.names, doubt),
            }
            for version, log, *pair in zip(
                usable, logs, beside_log, beside_recorded, strict=True
            )
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

    def _warnings(self) -> Iterator[str]:
        for name in self._deleted:
            yield (
                f"the data set of {name} is deleted: if it was made of these decisions, the gain"
                " is too large"
            )
