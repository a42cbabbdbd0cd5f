"""Replaying itself, in the job's own process: what others would have earned where the truth is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from app.evidence.drift import holm
from app.evidence.intervals import FEWEST
from app.evidence.truths import Maturity, payoff_range
from app.jobs.job import Job
from app.outcomes.cases import UNKNOWN, Cases
from app.outcomes.identity import day_of
from app.outcomes.terms import Label, Terms
from app.usecases.labelled_rows import Probabilities
from app.usecases.limits import decide_within_limits
from app.usecases.models import trained
from app.usecases.outcome_report.promise import basis
from app.usecases.outcome_report.report import matured, maturing, reservations
from app.usecases.outcome_report.selection import UNEQUAL, WHATEVER, ActionCounts
from app.usecases.outcome_report.slices import Slice, slices
from app.usecases.outcome_report.ways import THIN, Paired, gain, verdict, way
from app.usecases.ports import Ports
from app.usecases.predict import decide_given
from app.usecases.priors import corrected
from app.usecases.replay import question_of
from app.usecases.specs import ReplaySpec

_MOST_HELD = 1 << 25  # numbers of a day that alternatives with limits hold, 256 MB
_SIGNIFICANT = 0.05


def run(ports: Ports, job: Job) -> None:
    """Replay, and finish `job` with the figures as its result."""
    replay = Replay(ports, ReplaySpec.model_validate(job.spec))
    with progress.part(0.0, 1.0, "replaying"):
        replay.read()
    with ports.database.writing() as connection:
        ports.queue.succeed(connection, job, replay.document())


class _Alike(NamedTuple):
    """What the cases of a slice have in common: their actions, None where they are left out, the priors that their
    requests `stated`, and those under which their probabilities are: these, or those of training.
    """

    actions: tuple[Label, ...] | None
    stated: tuple[float, ...] | None
    base: tuple[float, ...] | None


class _Held(NamedTuple):
    """Rows of a slice with their probabilities, until limits are applied to all cases of the day."""

    part: Slice
    rows: np.ndarray
    P: np.ndarray


@dataclass
class Alternative:
    """A version, None for the recorded probabilities, and a rule, against what was done in the same cases.

    Both sides earn what the matrix has, also where a client reported another benefit of what was done; `told` counts
    and sums these, less those of the matrix.
    """

    model: str | None
    rule: dict[str, Any]
    cases: int = 0
    failure: str | None = None
    done: float = 0.0
    paired: Paired = field(default_factory=Paired)
    bounds: np.ndarray = field(default_factory=lambda: np.zeros(2))  # sums of differences over all cases
    told: np.ndarray = field(default_factory=lambda: np.zeros(2))
    held: list[_Held] = field(default_factory=list)

    def add(self, part: Slice, chosen: np.ndarray) -> None:
        """The cases of a slice in which this way (n,) decides."""
        M, term = part.stack.matrices, part.term
        self.cases += int(np.count_nonzero(chosen != UNKNOWN))
        rows = self.paired.compare(part, part.taken, chosen)
        earned = M[term[rows], part.truth[rows], part.taken[rows]]
        told = part.benefit[rows] - earned
        self.done += float(earned.sum())
        self.told += (np.count_nonzero(~np.isnan(told)), np.nansum(told))
        open_ = np.flatnonzero(~part.known & (chosen != UNKNOWN))
        low, high = payoff_range(M[term[open_], :, chosen[open_]] - M[term[open_], :, part.taken[open_]])
        self.bounds += (low.sum(), high.sum())

    def document(self, p_value: float, *, selective: bool, late: str | None) -> dict[str, Any]:
        """The figures; `p_value` is corrected for the number of alternatives, `late` why nothing can be concluded
        yet.
        """
        known = self.paired.count
        named = {"model": self.model, "rule": self.rule, "cases": self.cases, "known": known}
        if self.failure is not None or not known:
            why = "no case has a known truth" if self.cases else "there is no case, or no instance of one was recorded"
            return named | {"error": self.failure or why}
        about = {"basis": basis(known, self.cases, selective=selective, reason=late)}
        difference = gain(self.paired, **about)
        low, high = ((self.bounds + self.paired.total) / self.cases).tolist()
        differing, shown = self.paired.nonzero, verdict(difference["low"], difference["high"])
        reason = (
            late if late is not None
            else f"only {differing} cases differ; {FEWEST} are needed" if differing < FEWEST
            else THIN if self.paired.thin
            else "the difference may be chance" if shown is None or p_value >= _SIGNIFICANT
            else f"{UNEQUAL}, and the bounds over all decisions contain 0" if selective and low <= 0 <= high
            else None
        )  # fmt: skip
        told, total = self.told.tolist()
        return named | {
            **about,
            "mean": (self.done + self.paired.total) / known,
            "total": self.done + self.paired.total,
            "done": {**about, "mean": self.done / known, "total": self.done, "cases": known},
            "difference": difference,
            "bounds": {"basis": WHATEVER, "low": low, "high": high},
            "told_benefits": {**about, "cases": int(told), "mean": total / told, "total": total} if told else None,
            "adjusted_p_value": p_value,
            "verdict": "same" if not differing else "undecided" if reason else shown,
            "reason": reason if differing else None,
        }


def documents(alternatives: Sequence[Alternative], *, selective: bool, late: str | None = None) -> list[dict[str, Any]]:
    """The figures of all alternatives, with one correction for all that differ from what was done (Holm)."""
    adjusted = np.ones(len(alternatives))
    tested = [i for i, each in enumerate(alternatives) if each.failure is None and each.paired.nonzero]
    found = [alternatives[i].paired.mean().p_value for i in tested]
    adjusted[tested] = holm(np.array([1.0 if p is None else p for p in found]))
    return [
        each.document(float(p), selective=selective, late=late) for each, p in zip(alternatives, adjusted, strict=True)
    ]


class Replay:
    """The pass over all cases, day by day: limits hold for a day."""

    def __init__(self, ports: Ports, spec: ReplaySpec) -> None:
        self._archive = ports.archive
        self._spec = spec
        self._models = {name: ports.registry.load(name) for name in spec.models}
        self._trained = trained(ports, spec.model)
        self._named: dict[frozenset[str], tuple[Label, ...]] = {}  # actions in the order that was seen first
        self._left_out: Counter[str] = Counter()
        self._actions = ActionCounts()
        self._maturity = Maturity()
        self._decisions = self._known = self._held = 0
        self.alternatives = [Alternative(name, rule) for name in (None, *spec.models) for rule in spec.rules]

    def read(self) -> None:
        spec = self._spec
        recorded = partial(self._archive.cases, spec.model, since=spec.since, until=spec.until, versions=spec.versions)
        self._maturity = matured(recorded(arrivals_only=True), time())
        last, first = day_of(time() if spec.until is None else spec.until), None
        for day, some in groupby(recorded(with_instances=bool(spec.models)), attrgetter("day")):
            first = day if first is None else first
            for part in (part for cases in some for part in self._comparable(cases)):
                self._decisions += len(part)
                self._known += int(np.count_nonzero(part.known))
                posteriors: dict[str | None, tuple[np.ndarray, np.ndarray]] = {}
                for alternative in self.alternatives:
                    _try(alternative, self._decide, part, posteriors)
            for alternative in self.alternatives:
                _try(alternative, _decide_held)
            self._held = 0
            progress.report((day + 1 - first) / max(last + 1 - first, 1), "replaying")

    def document(self) -> dict[str, Any]:
        """The job's result."""
        selective, maturity = self._actions.document(), self._maturity
        return {
            "model": self._spec.model,
            "versions": self._spec.versions,
            "decisions": self._decisions,
            "known": self._known,
            "left_out": dict(self._left_out),
            "selective": selective,
            "maturing": maturing(maturity),
            "alternatives": documents(self.alternatives, selective=selective["is"], late=maturity.reason),
            "warnings": list(reservations(maturity, selective=selective["is"])),
        }

    def _comparable(self, cases: Cases) -> Iterator[Slice]:
        """Cases with what they have in common, their terms as they are replayed; the others are counted."""
        for part in slices(cases, self._maturity.since):
            self._actions.add(part)
        found = [self._replayed(terms) for terms in cases.terms]
        width = max((len(terms.actions) for terms in cases.terms), default=0) + 1
        place = np.full((len(found), width), UNKNOWN, dtype=np.int32)  # of each action; the last one stands for none
        counts = np.bincount(cases.term, minlength=len(found)).tolist()
        terms = []
        for t, (before, after) in enumerate(zip(cases.terms, found, strict=True)):
            if isinstance(after, str):
                self._left_out.update({after: counts[t]} if counts[t] else {})
                terms.append(replace(before, benefits=None))
            else:
                names = list(map(str, after.actions))
                place[t, : len(names)] = [names.index(str(name)) for name in before.actions]
                terms.append(after)
        told = cases.benefit if self._spec.benefits is None else np.full(len(cases), np.nan)  # of other stakes
        cases = replace(
            cases,
            terms=terms,
            choice=place[cases.term, cases.choice],
            action=place[cases.term, cases.action],
            benefit=told,
            expected=np.zeros(len(cases)),  # a case without its promise can be replayed as well
        )
        yield from (part for part in slices(cases, self._maturity.since, self._alike) if part.has_matrix.all())

    def _replayed(self, terms: Terms) -> Terms | str:
        """The terms with the matrix that counts, and their actions in one order; or why their cases are left out."""
        spec = self._spec
        if terms.classes != tuple(spec.classes):
            return "other_classes"
        if spec.benefits is None:
            if terms.benefits is None:
                return "without_benefits"
            actions = self._named.setdefault(frozenset(map(str, terms.actions)), terms.actions)
            if actions == terms.actions:
                return terms
            names = list(map(str, terms.actions))
            order = [names.index(str(name)) for name in actions]
            benefits = tuple(tuple(row[a] for a in order) for row in terms.benefits)
            return replace(terms, actions=actions, benefits=benefits)
        actions = tuple(spec.actions or spec.classes)
        if sorted(map(str, actions)) != sorted(map(str, terms.actions)):
            return "other_actions"
        return replace(terms, actions=actions, benefits=tuple(map(tuple, spec.benefits)))

    def _alike(self, terms: Terms) -> _Alike:
        stated = None if terms.priors is None else tuple(terms.priors[str(name)] for name in terms.classes)
        shares, _ = self._trained(terms.version)
        base = stated or (None if shares is None else tuple(shares.tolist()))
        return _Alike(terms.actions if terms.benefits is not None else None, stated, base)

    def _decide(
        self, alternative: Alternative, part: Slice, posteriors: dict[str | None, tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """Enter what the alternative decides; where it has limits, hold the cases until all of the day are there."""
        alike, wanted, name = self._alike(part.stack.terms[0]), alternative.rule.get("priors"), alternative.model
        if name not in posteriors:
            posteriors[name] = self._posterior(name, part)
        rows, P = posteriors[name]
        if not len(rows):
            return
        base = alike.base
        if name is not None:
            base = tuple(self._models[name].priors.tolist())
            if wanted is None and alike.stated is not None:
                wanted = dict(zip(map(str, self._spec.classes), alike.stated, strict=True))
        if wanted is not None:
            if base is None:
                raise Invalid("the class priors in training are not known any more: the version was deleted")
            P = corrected(P, self._spec.classes, np.array(base), wanted).P
        if not (alternative.rule.get("limits") or alternative.rule.get("resources")):
            alternative.add(part, way(part, rows, _choice(alternative.rule, [_Held(part, rows, P)])))
            return
        self._held += P.size
        if self._held > _MOST_HELD:
            raise Invalid(
                "a day has too many cases for rules with limits; choose a shorter period, or fewer such rules"
            )
        alternative.held.append(_Held(part, rows, P))

    def _posterior(self, name: str | None, part: Slice) -> tuple[np.ndarray, np.ndarray]:
        """The rows that a version can decide on, those with a whole instance, and its probabilities; None as recorded.

        Of a case of /acquire only some features were known.
        """
        if name is None:
            return np.arange(len(part)), part.P
        is_whole = np.array([terms.verb == "predict" for terms in part.stack.terms])[part.term]
        rows = np.flatnonzero(is_whole & [instance is not None for instance in part.instances])
        if not len(rows):
            return rows, part.P[rows]
        model = self._models[name]
        X, _ = model.schema.encode([orjson.loads(part.instances[i] or "") for i in rows.tolist()])
        return rows, model.estimator.posterior(X)


def _try(alternative: Alternative, step: Callable[..., None], *arguments: Any) -> None:
    """One that cannot decide is not asked again."""
    if alternative.failure is not None:
        return
    try:
        step(alternative, *arguments)
    except PayoffError as error:
        alternative.failure, alternative.held = error.detail, []


def _decide_held(alternative: Alternative) -> None:
    """Apply limits to all cases of a day: to those with the same actions, whatever priors and matrix each has."""
    together: dict[tuple[Label, ...], list[_Held]] = {}
    for one in alternative.held:
        together.setdefault(one.part.stack.terms[0].actions, []).append(one)
    alternative.held = []
    for held in together.values():
        choice = _choice(alternative.rule, held)
        ends = np.cumsum([len(one.rows) for one in held])[:-1]
        for one, own in zip(held, np.split(choice, ends), strict=True):
            alternative.add(one.part, way(one.part, one.rows, own))


def _choice(rule: Mapping[str, Any], held: Sequence[_Held]) -> np.ndarray:
    """The actions (n,) of a rule for cases with the same actions, together."""
    P, question, terms = np.concatenate([one.P for one in held]), question_of(rule), held[0].part.stack.terms[0]
    if rule["rule"] == "most_probable":
        likely = np.split(P.argmax(axis=1), np.cumsum([len(one.rows) for one in held])[:-1])
        return np.concatenate(
            [
                one.part.stack.matrices[one.part.term[one.rows], own].argmax(axis=1)
                for one, own in zip(held, likely, strict=True)
            ]
        )
    first = held[0].part.stack.matrices[0]
    is_uniform = all((one.part.stack.matrices == first).all() for one in held)
    if not is_uniform and question.limited and len(P) * first.size > _MOST_HELD:
        raise Invalid("a day has too many cases with matrices of their own for limits; choose a shorter period")
    B = first if is_uniform else np.concatenate([one.part.stack.matrices[one.part.term[one.rows]] for one in held])
    if rule["rule"] == "expected_benefit":
        decision = decide(P, B)
        return decide_within_limits(question, P, B, decision, terms.actions)[0] if question.limited else decision.choice
    by_costs = question.costs is not None
    if by_costs and tuple(map(str, terms.actions)) != tuple(map(str, terms.classes)):
        raise Invalid(f"{rule['rule']} decides among the classes, and these decisions are about other actions")
    benefits = None if by_costs else B.tolist()
    return decide_given(Probabilities(terms.classes, P), question_of(rule, benefits)).choice
