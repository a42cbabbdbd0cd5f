"""Replays of decisions by rewards: what other versions would have earned before an alias moves."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
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
    than it is. `logs` are, by the actions that could be chosen, columns as `PolicyLog.of` takes
    them; the last action, which has no chance, is any other one.
    """

    name: str | None
    model: Loaded | None = None
    learned: _Period = _NEVER
    logs: dict[tuple[Label, ...], Kept] = field(
        default_factory=partial(defaultdict, Kept)
    )
    left_out: Counter[str] = field(default_factory=Counter)
    failure: str | None = None

    def add(self, part: Slice, rows: np.ndarray) -> None:
        """Add the choices in rows (n,) of a slice, with the costs that the requests stated."""
        if self.model is not None:
            rows = self._decidable(part, rows)
        actions = part.stack.actions
        columns = log_columns(part, rows)
        net, chances = np.split(columns[2:], 2)
        chosen = chances.argmax(axis=0)
        if self.model is not None and len(rows):
            texts = part.instances or ()
            rewards = posterior(self.model, [texts[i] for i in rows.tolist()])
            codes = np.array(
                [
                    actions.index(name) if name in actions else len(actions)
                    for name in self.model.classes
                ]
            )
            costs = part.probabilities[rows, : len(actions)] - net.T
            costs = np.column_stack((costs, np.zeros(len(rows))))
            chosen = codes[(rewards - costs[:, codes]).argmax(axis=1)]
        another = net.mean(axis=0), np.zeros(len(rows))
        self.logs[actions].add(
            np.vstack((chosen, columns[:2], net, another[0], chances, another[1]))
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
    recorded decisions without exploration and beside the best single action.
    """

    def __init__(self, stores: Stores, spec: ReplaySpec) -> None:
        super().__init__(stores, spec)
        self._recorded = _Version(None)
        self._versions = [self._recorded]
        for name, model in self._models.items():
            learned = _learned_from(stores, model.card, spec.model)
            self._versions.append(_Version(name, model, learned))

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
        sizes = {
            names: log.columns().shape[1] for names, log in self._recorded.logs.items()
        }
        actions = max(sizes, key=lambda names: sizes[names], default=())
        logs = {
            version.name: PolicyLog.of(version.logs[actions].columns())
            for version in self._versions
            if version.failure is None and version.logs[actions].columns().size
        }
        judgements = [log.judgements() for log in logs.values()]
        pairs = zip(
            corrected([first for first, _ in judgements]),
            corrected([second for _, second in judgements]),
            strict=True,
        )
        documents = {
            name: log.document(pair, actions, doubt)
            for (name, log), pair in zip(logs.items(), pairs, strict=True)
        }
        lines = []
        for version in self._versions:
            line = documents.get(version.name, {"error": version.failure or _NO_CASE})
            kept = version.logs[actions]
            cases = kept.columns().shape[1] * kept.stride
            left_out = dict(version.left_out)
            lines.append(
                {"model": version.name, "cases": cases, "left_out": left_out, **line}
            )
        return lines


def _learned_from(stores: Stores, card: Card, model: str) -> _Period:
    """When the decisions of a model were made that the data set of a version was made of, in
    seconds; of a deleted data set it may be all before the version.
    """
    try:
        dataset = stores.datasets.find(card.data.dataset or "")
    except NotFound:
        return -np.inf, card.created_at.timestamp()
    lineage = dataset.lineage
    if lineage is None or lineage["model"] != model:
        return _NEVER
    made = dataset.created_at.timestamp()
    return lineage["since"] or -np.inf, min(lineage["until"] or np.inf, made)
