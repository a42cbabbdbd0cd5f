"""Replaying itself, in the job's own process: what others would have earned where the truth is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from time import time
from typing import Any, NamedTuple

import numpy as np
import orjson

from app import progress
from app.decisions.benefit import decide
from app.errors import Invalid, PayoffError
from app.evidence.maturity import Maturity
from app.jobs.job import Job
from app.outcomes.cases import Cases
from app.outcomes.identity import day_of
from app.outcomes.terms import Label, Terms
from app.usecases.models import trained
from app.usecases.outcome_report.reading import matured
from app.usecases.outcome_report.report import maturing, reservations
from app.usecases.outcome_report.selection import ActionCounts
from app.usecases.outcome_report.slices import coded, settled, slices
from app.usecases.ports import Ports
from app.usecases.predict import decide_given
from app.usecases.priors import corrected
from app.usecases.probabilities import Probabilities
from app.usecases.replay import question_of
from app.usecases.replay_tally import Part, Tally, documents
from app.usecases.specs import ReplaySpec

_AT_ONCE = 20_000  # cases
_CELLS = 1 << 22  # of the matrices of these cases, 32 MB
_MOST_HELD = 1 << 25  # numbers of a day that alternatives with limits hold, 256 MB
_MOST_KNOWN = 500_000


@dataclass
class _Alternative:
    """A version, None for the recorded probabilities, and a rule; `held` are the cases of a day until limits are
    applied to them.
    """

    model: str | None
    rule: dict[str, Any]
    tally: Tally = field(default_factory=Tally)
    held: list[Part] = field(default_factory=list)

    @property
    def is_limited(self) -> bool:
        return bool(self.rule.get("limits") or self.rule.get("resources"))


class _Key(NamedTuple):
    """What cases have in common: `recorded` are the actions in the order in which they were recorded, `base` the priors
    under which their probabilities are, those of training, or those that the request `stated`.
    """

    actions: tuple[Label, ...]
    recorded: tuple[Label, ...]
    stated: tuple[float, ...] | None
    base: tuple[float, ...] | None


def run(ports: Ports, job: Job) -> None:
    """Replay, and finish `job` with the figures as its result."""
    spec = ReplaySpec.from_json(job.spec)
    replay = _Replay(ports, spec)
    with progress.part(0.0, 0.9, "replaying"):
        replay.read()
    with progress.part(0.9, 1.0, "comparing"):
        result = replay.document()
    with ports.database.writing() as connection:
        ports.queue.succeed(connection, job, result)


class _Replay:
    def __init__(self, ports: Ports, spec: ReplaySpec) -> None:
        self._ports = ports
        self._spec = spec
        self._models = {name: ports.registry.load(name) for name in spec.models}
        self._alternatives = [_Alternative(name, rule) for name in (None, *spec.models) for rule in spec.rules]
        self._left_out: Counter[str] = Counter()
        self._decisions = self._known = self._held = 0
        self._actions = ActionCounts()
        self._maturity = Maturity()
        self._trained = trained(ports, spec.model)

    def read(self) -> None:
        """All cases, day by day: limits hold for a day."""
        spec = self._spec
        recorded = partial(
            self._ports.archive.cases, spec.model, since=spec.since, until=spec.until, versions=spec.versions
        )
        self._maturity = matured(recorded(arrivals_only=True), time())
        cases = recorded(with_instances=bool(spec.models))
        last, first = day_of(time() if spec.until is None else spec.until), None
        for day, group in groupby(cases, attrgetter("day")):
            first = day if first is None else first
            for key, part in (pair for one in group for pair in self._parts(one)):
                for alternative in self._alternatives:
                    _try(alternative, self._decide, key, part)
            for alternative in self._alternatives:
                _try(alternative, _decide_held)
            self._held = 0
            progress.report((day + 1 - first) / max(last + 1 - first, 1), "replaying")

    def document(self) -> dict[str, Any]:
        """The job's result."""
        selective, maturity = self._actions.document(), self._maturity
        figures = documents(
            [each.tally for each in self._alternatives], selective=selective["is"], late=maturity.reason
        )
        return {
            "model": self._spec.model,
            "versions": self._spec.versions,
            "decisions": self._decisions,
            "known": self._known,
            "left_out": dict(self._left_out),
            "selective": selective,
            "maturing": maturing(maturity),
            "alternatives": [
                {"model": each.model, "rule": each.rule, **own}
                for each, own in zip(self._alternatives, figures, strict=True)
            ],
            "warnings": list(reservations(maturity, selective=selective["is"])),
        }

    def _parts(self, cases: Cases) -> Iterator[tuple[_Key, Part]]:
        """The cases by what they have in common: classes, actions and priors; some at a time."""
        for piece in slices(cases, self._maturity.since):
            self._actions.add(piece)
        cases = settled(cases, self._maturity.since)
        keys, code = coded([self._key(terms) for terms in cases.terms])
        own = code[cases.term]
        in_order = np.argsort(own, kind="stable")
        ends = np.searchsorted(own[in_order], np.arange(1, len(keys)))
        for key, rows in zip(keys, np.split(in_order, ends), strict=True):
            if isinstance(key, str):
                self._left_out.update({key: len(rows)} if len(rows) else {})
                continue
            size = max(min(_AT_ONCE, _CELLS // (len(self._spec.classes) * len(key.actions))), 1)
            for start in range(0, len(rows), size):
                part = self._part(cases, rows[start : start + size], key)
                self._count(part)
                yield key, part

    def _count(self, part: Part) -> None:
        self._decisions += len(part)
        self._known += int(np.count_nonzero(part.truth >= 0))
        if self._known > _MOST_KNOWN:
            raise Invalid(f"more than {_MOST_KNOWN:,} cases have a known truth; choose a shorter period")

    def _key(self, terms: Terms) -> _Key | str:
        """What cases must have in common; or why those of these terms are left out."""
        classes = tuple(self._spec.classes)
        if terms.classes != classes:
            return "other_classes"
        if self._spec.benefits is None and terms.benefits is None:
            return "without_benefits"
        actions = terms.actions
        if self._spec.benefits is not None:
            actions = tuple(self._spec.actions or classes)
            if sorted(map(str, actions)) != sorted(map(str, terms.actions)):
                return "other_actions"
        stated = None if terms.priors is None else tuple(terms.priors[str(name)] for name in classes)
        shares, _ = self._trained(terms.version)
        base = stated or (None if shares is None else tuple(shares.tolist()))
        return _Key(actions, terms.actions, stated, base)

    def _part(self, cases: Cases, rows: np.ndarray, key: _Key) -> Part:
        known = {str(name): a for a, name in enumerate(key.actions)}
        places = np.array([known[str(name)] for name in key.recorded])
        choice, action = cases.choice[rows], cases.action[rows]
        used, term = np.unique(cases.term[rows], return_inverse=True)
        recorded = self._spec.benefits is None
        return Part(
            classes=tuple(self._spec.classes),
            actions=key.actions,
            matrices=np.array([cases.terms[t].benefits for t in used] if recorded else [self._spec.benefits]),
            P=cases.probabilities[rows, : len(self._spec.classes)],
            term=term if recorded else np.zeros(len(rows), dtype=np.intp),
            done=places[np.where(action >= 0, action, choice)],
            truth=cases.truth[rows],
            told=cases.benefit[rows] if recorded else np.full(len(rows), np.nan),
            instances=_whole(cases, rows),
        )

    def _decide(self, alternative: _Alternative, key: _Key, part: Part) -> None:
        """Enter what the alternative decides; where it has limits, hold the cases until all of the day are there."""
        base, wanted = key.base, alternative.rule.get("priors")
        if alternative.model is not None:
            part = part[np.array([each is not None for each in part.instances], dtype=bool)]
            if not len(part):
                return
            model = self._models[alternative.model]
            X, _ = model.schema.encode([orjson.loads(each or "") for each in part.instances])
            part, base = replace(part, P=model.estimator.posterior(X)), tuple(model.priors.tolist())
            if wanted is None and key.stated is not None:
                wanted = dict(zip(map(str, part.classes), key.stated, strict=True))
        if wanted is not None:
            if base is None:
                raise Invalid("the class priors in training are not known any more: the version was deleted")
            part = replace(part, P=corrected(part.P, part.classes, np.array(base), wanted).P)
        if not alternative.is_limited:
            alternative.tally.add(part, _choice(alternative.rule, part))
            return
        self._held += part.P.size
        if self._held > _MOST_HELD:
            raise Invalid(
                "a day has too many cases for rules with limits; choose a shorter period, or fewer such rules"
            )
        alternative.held.append(replace(part, instances=()))


def _try(alternative: _Alternative, step: Callable[..., None], *arguments: Any) -> None:
    """One that cannot decide is not asked again."""
    if alternative.tally.failure is not None:
        return
    try:
        step(alternative, *arguments)
    except PayoffError as error:
        alternative.tally.failure, alternative.held = error.detail, []


def _whole(cases: Cases, rows: np.ndarray) -> list[str | None]:
    """The instances, if they were read; None for those of /acquire, of which only some features were known."""
    if cases.instances is None:
        return []
    is_whole = [terms.verb == "predict" for terms in cases.terms]
    return [cases.instances[i] if is_whole[cases.term[i]] else None for i in rows.tolist()]


def _decide_held(alternative: _Alternative) -> None:
    """Apply limits to all cases of a day: to those with the same actions, whatever priors and matrix each has."""
    alike: dict[frozenset[str], list[Part]] = {}
    for part in alternative.held:
        alike.setdefault(frozenset(map(str, part.actions)), []).append(part)
    alternative.held = []
    for parts in alike.values():
        part = Part.joined(parts)
        cells = len(part) * part.matrices[0].size
        if cells > _MOST_HELD and not part.is_uniform:
            raise Invalid("a day has too many cases with matrices of their own for limits; choose a shorter period")
        alternative.tally.add(part, _choice(alternative.rule, part))


def _choice(rule: Mapping[str, Any], part: Part) -> np.ndarray:
    """The actions (n,) of a rule."""
    P, question = part.P, question_of(rule)
    if rule["rule"] == "most_probable":
        return _best_for_class(part)
    if rule["rule"] == "expected_benefit":
        B = part.benefits
        decision, limits = decide(P, B), question.constraints
        return decision.choice if limits is None else limits.decide(P, B, decision, part.actions)[0]
    by_costs = question.costs is not None
    if by_costs and tuple(map(str, part.actions)) != tuple(map(str, part.classes)):
        raise Invalid(f"{rule['rule']} decides among the classes, and these decisions are about other actions")
    return decide_given(
        Probabilities(part.classes, P), replace(question, benefits=None if by_costs else part.benefits.tolist())
    ).choice


def _best_for_class(part: Part) -> np.ndarray:
    """The best action for the most probable class, as in the report; each case with its own benefits."""
    return np.asarray(part.matrices[part.term, part.P.argmax(axis=1)].argmax(axis=1))
