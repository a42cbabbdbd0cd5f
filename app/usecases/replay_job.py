"""Replaying itself, in the job's own process: what others would have earned where the truth is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
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
from app.usecases.outcome_report.action_counts import ActionCounts
from app.usecases.outcome_report.reading import matured
from app.usecases.outcome_report.report import maturing, reservations
from app.usecases.outcome_report.selection import selection
from app.usecases.outcome_report.slices import settled, slices
from app.usecases.ports import Ports
from app.usecases.predict import decide_given
from app.usecases.priors import corrected
from app.usecases.probabilities import Probabilities
from app.usecases.replay import question_of
from app.usecases.replay_tally import Part, Tally, documents
from app.usecases.specs import ReplaySpec

_AT_ONCE = 20_000  # cases, where there are no limits
_MOST_KNOWN = 500_000


class _Alternative(NamedTuple):
    """A version, None for the recorded probabilities, and a rule."""

    model: str | None
    rule: dict[str, Any]
    tally: Tally


class _Key(NamedTuple):
    """What cases have in common: `recorded` are the actions in the order in which they were recorded, `base` the priors
    under which their probabilities are, `stated` the same where the request stated them.
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


def clean_up(_ports: Ports, _job: Job, _through: int) -> None:
    """An attempt that did not succeed leaves nothing."""


class _Replay:
    def __init__(self, ports: Ports, spec: ReplaySpec) -> None:
        self._ports = ports
        self._spec = spec
        self._models = {name: ports.registry.load(name) for name in spec.models}
        self._alternatives = [_Alternative(name, rule, Tally()) for name in (None, *spec.models) for rule in spec.rules]
        self._limited = any(rule.get("limits") or rule.get("resources") for rule in spec.rules)
        self._left_out: Counter[str] = Counter()
        self._decisions = self._known = 0
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
            for part in _joined(part for one in group for part in self._parts(one)):
                for some in [part] if self._limited else part.slices(_AT_ONCE):
                    for alternative in self._alternatives:
                        self._decide(alternative, some)
            if self._known > _MOST_KNOWN:
                raise Invalid(f"more than {_MOST_KNOWN:,} cases have a known truth; choose a shorter period")
            progress.report((day + 1 - first) / max(last + 1 - first, 1), "replaying")

    def document(self) -> dict[str, Any]:
        """The job's result."""
        selective, maturity = selection(self._actions), self._maturity
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

    def _parts(self, cases: Cases) -> Iterator[Part]:
        """The cases by what they have in common: classes, actions and priors."""
        for piece in slices(cases, self._maturity.since):
            self._actions.add(piece)
        cases = settled(cases, self._maturity.since)
        keys = [self._key(terms) for terms in cases.terms]
        for key in dict.fromkeys(keys):
            own = np.array([each == key for each in keys])
            rows = np.flatnonzero(own[cases.term])
            if isinstance(key, str):
                self._left_out[key] += len(rows)
                continue
            alike = [terms for terms, is_own in zip(cases.terms, own, strict=True) if is_own]
            benefits = np.array([self._spec.benefits or terms.benefits for terms in alike])
            part = self._part(cases, rows, key, benefits[(np.cumsum(own) - 1)[cases.term[rows]]])
            self._decisions += len(rows)
            self._known += int(np.count_nonzero(part.truth >= 0))
            yield part

    def _key(self, terms: Terms) -> _Key | str:
        """What cases must have in common; or why those of these terms are left out."""
        classes = tuple(self._spec.classes)
        if terms.classes != classes:
            return "other_classes"
        if self._spec.benefits is None and terms.benefits is None:
            return "without_benefits"
        actions = terms.actions
        if self._spec.benefits is not None:
            wide = len(self._spec.benefits[0]) == len(actions)
            actions = tuple(self._spec.actions) if self._spec.actions is not None else actions
            if not (wide and set(map(str, actions)) == set(map(str, terms.actions))):
                return "other_actions"
        stated = None if terms.priors is None else tuple(terms.priors[str(name)] for name in classes)
        shares, _ = self._trained(terms.version)
        base = stated or (None if shares is None else tuple(shares.tolist()))
        return _Key(actions, terms.actions, stated, base)

    def _part(self, cases: Cases, rows: np.ndarray, key: _Key, B: np.ndarray) -> Part:
        known = {str(name): a for a, name in enumerate(key.actions)}
        places = np.array([known[str(name)] for name in key.recorded])
        choice, action = cases.choice[rows], cases.action[rows]
        return Part(
            tuple(self._spec.classes),
            key.actions,
            key.stated,
            key.base,
            cases.probabilities[rows, : len(self._spec.classes)],
            B,
            places[np.where(action >= 0, action, choice)],
            cases.truth[rows],
            cases.benefit[rows] if self._spec.benefits is None else np.full(len(rows), np.nan),
            _whole(cases, rows),
        )

    def _decide(self, alternative: _Alternative, part: Part) -> None:
        """Enter what the alternative decides; one that cannot is not asked again."""
        tally = alternative.tally
        if tally.failure is not None:
            return
        try:
            P, base = part.P, part.base
            if alternative.model is not None:
                part = part[np.array([each is not None for each in part.instances], dtype=bool)]
                if not len(part.done):
                    return
                model = self._models[alternative.model]
                X, _ = model.schema.encode([orjson.loads(each or "") for each in part.instances])
                P, base = model.estimator.posterior(X), tuple(model.priors.tolist())
            tally.add(part, _choice(alternative, part, P, base))
        except PayoffError as error:
            tally.failure = error.detail


def _whole(cases: Cases, rows: np.ndarray) -> list[str | None]:
    """The instances, if they were read; None for those of /acquire, of which only some features were known."""
    if cases.instances is None:
        return []
    is_whole = [terms.verb == "predict" for terms in cases.terms]
    return [cases.instances[i] if is_whole[cases.term[i]] else None for i in rows.tolist()]


def _joined(parts: Iterator[Part]) -> list[Part]:
    """Those that have everything in common as one."""
    found: dict[Any, list[Part]] = {}
    for part in parts:
        found.setdefault((part.actions, part.stated, part.base), []).append(part)
    return [each[0] if len(each) == 1 else each[0].joined(each[1:]) for each in found.values()]


def _choice(alternative: _Alternative, part: Part, P: np.ndarray, base: tuple[float, ...] | None) -> np.ndarray:
    """The actions (n,) of a rule for posteriors P (n, K) that were made with the priors `base`."""
    rule, question = alternative.rule, question_of(alternative.rule)
    stated = None if part.stated is None else dict(zip(map(str, part.classes), part.stated, strict=True))
    wanted = rule.get("priors") or (stated if alternative.model is not None else None)
    if wanted is not None:
        if base is None:
            raise Invalid("the class priors in training are not known any more: the version was deleted")
        P = corrected(P, part.classes, np.array(base), wanted).P
    B = part.B[0] if (part.B[0] == part.B).all() else part.B
    if rule["rule"] == "most_probable":
        return _best_for_class(P, part.B)
    if rule["rule"] == "expected_benefit":
        decision, limits = decide(P, B), question.constraints
        return decision.choice if limits is None else limits.decide(P, B, decision, part.actions)[0]
    by_costs = question.costs is not None
    if by_costs and tuple(map(str, part.actions)) != tuple(map(str, part.classes)):
        raise Invalid(f"{rule['rule']} decides among the classes, and these decisions are about other actions")
    return decide_given(
        Probabilities(part.classes, P), replace(question, benefits=None if by_costs else B.tolist())
    ).choice


def _best_for_class(P: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The best action for the most probable class, as in the report; each case with its own benefits (n, K, A)."""
    return np.asarray(B[np.arange(len(P)), P.argmax(axis=1)].argmax(axis=1))
