"""Replaying recorded decisions: what others would have earned where the truth is known. An order is
checked and becomes a job; the job's own process replays.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import repeat
from time import time
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from pydantic import Field

from app.access.caller import Caller
from app.answering.decide import Costs, Rule, RuleFields, check_fields
from app.answering.predict import Rows, decide_given
from app.errors import NotFound
from app.jobs.job import Job
from app.outcomes.decision import UNKNOWN, Cases, Terms, day_of
from app.registry.card import Card
from app.registry.snapshot import Reference
from app.report.changes import trained
from app.report.earned import UNEQUAL, WHATEVER, ActionCounts, basis, total
from app.report.report import matured, maturing, reservations
from app.report.slices import Slice, slices
from app.report.ways import Paired, gain, verdict, way
from app.requests.fields import ByClass, Number, Period, Text, WireModel
from app.requests.matrices import (
    MatrixFields,
    NamedMatrixFields,
    named_matrix,
    read_matrix,
    with_saved,
)
from app.requests.specifications import ReplaySpec
from app.stores import Stores
from app.tables.notations import reader
from app.training import jobs
from app.training.models import card_of
from payoff import progress
from payoff.decisions.benefit import decide
from payoff.decisions.priors import as_priors, under_priors
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.errors import Flaw, Invalid, PayoffError, below, pointer, reject
from payoff.evidence.drift import holm
from payoff.evidence.intervals import LARGEST_EARNED, SIGNIFICANT
from payoff.evidence.truths import Maturity, payoff_range

KIND = "replay"
_USUAL = ({"rule": "expected_benefit"}, {"rule": "most_probable"})


class ReplayRule(WireModel):
    """A rule with its parameters, as in `/predict`."""

    rule: Rule = "expected_benefit"
    threshold: Literal["posterior"] | Number | None = None
    costs: Costs | None = None
    priors: ByClass | None = Field(
        default=None, description="class priors, in place of those of each request"
    )


class ReplayRequest(NamedMatrixFields, Period):
    """What to replay."""

    models: Annotated[list[Text], Field(max_length=10)] = Field(
        default=[],
        description="versions that decide on the recorded instances",
        examples=[["triage@champion"]],
    )
    rules: Annotated[list[ReplayRule], Field(min_length=1, max_length=20)] | None = Field(
        default=None,
        description="applied to the recorded probabilities, and to those of each of `models`; without them"
        " `expected_benefit`, and for the recorded ones alone `most_probable`",
    )


def submit(
    stores: Stores, reference: str, asked: ReplayRequest, *, key: str | None, caller: Caller
) -> Job:
    """Accept an order to replay the decisions of `name` (all versions), `name:3` or `name@alias`.

    Raises Invalid with the place of what cannot work, NotFound for what is not published.
    """
    if not (asked.models or asked.rules or asked.stated):
        raise Invalid.at("", "send 'models', 'rules' or 'benefits' to replay")
    wanted = Reference.parse(reference)
    whole = wanted.version is None and wanted.alias is None
    card = card_of(stores, reference)
    if card.classes is None or card.classes == card.labels:
        raise Invalid(
            f"{wanted.name!r} predicts numbers, or several labels; decisions among classes are replayed"
        )
    stakes = named_matrix(with_saved(stores, asked, wanted.name, card.classes), card.classes)
    by_case = None if stakes is None else stakes.cases
    if stakes is not None and np.abs(stakes.benefits).max() > LARGEST_EARNED:
        raise Invalid.at(
            "/benefits", f"benefits of a magnitude above {LARGEST_EARNED:g} are not replayed"
        )
    rules = [rule.model_dump(exclude_none=True) for rule in asked.rules or ()]
    rules = rules or list(_USUAL if not asked.models else _USUAL[:1])
    for i, rule in enumerate(rules):
        with below(pointer("rules", i)):
            check_fields(_question(rule), None)
            if rule.get("priors") is not None:
                with below("/priors"):
                    as_priors(rule["priors"], [str(name) for name in card.classes])
    spec = ReplaySpec(
        model=wanted.name,
        classes=list(card.classes),
        versions=None if whole else [card.version],
        models=_versions(stores, asked.models, card, caller),
        rules=rules,
        benefits=None
        if stakes is None
        else stakes.benefits.tolist()
        if by_case is None
        else by_case.cells(),
        actions=None if stakes is None or not stakes.is_named else list(map(str, stakes.actions)),
        forms={feature.name: feature.form for feature in card.features if feature.form},
        since=asked.since,
        until=asked.until,
    )
    return jobs.submit(stores, caller, KIND, spec, model=wanted.name, dataset=None, key=key)


def _question(rule: Mapping[str, Any], benefits: Any = ()) -> RuleFields:
    """A rule of an order, with these benefits; the recorded ones stand for what it does not state."""
    return RuleFields.model_validate({**rule, "priors": None, "benefits": benefits})


def _versions(stores: Stores, references: list[str], card: Card, caller: Caller) -> list[str]:
    """The models as `name:version`; Invalid or NotFound below /models."""
    found, flaws = [], []
    for i, reference in enumerate(references):
        caller.need_model(reference)
        try:
            other = card_of(stores, reference)
        except NotFound as error:
            raise NotFound.at(pointer("models", i), error.detail) from error
        if other.classes != card.classes:
            flaws.append(
                Flaw(pointer("models", i), f"{reference!r} has other classes than {card.name!r}")
            )
        found.append(f"{other.name}:{other.version}")
    reject(flaws)
    return list(dict.fromkeys(found))


def run(stores: Stores, job: Job) -> None:
    """Replay, and finish `job` with the figures as its result."""
    replay = Replay(stores, ReplaySpec.model_validate(job.spec))
    with progress.part(0.0, 1.0, "replaying"):
        replay.read()
    with stores.database.writing() as connection:
        stores.queue.succeed(connection, job, replay.document())


@dataclass
class Alternative:
    """A version, None for the recorded probabilities, and a rule, against what was done in the same
    cases.

    Both sides earn what the matrix has, also where a client reported another benefit of what was
    done.
    """

    model: str | None
    rule: dict[str, Any]
    cases: int = 0
    failure: str | None = None
    done: float = 0.0
    paired: Paired = field(default_factory=Paired)
    bounds: np.ndarray = field(
        default_factory=lambda: np.zeros(2)
    )  # sums of differences over all cases

    def add(self, part: Slice, chosen: np.ndarray) -> None:
        """The cases of a slice in which this way (n,) decides."""
        self.cases += int(np.count_nonzero(chosen != UNKNOWN))
        rows = self.paired.compare(part, part.taken, chosen)
        self.done += float(
            part.stack.matrices[part.term[rows], part.truth[rows], part.taken[rows]].sum()
        )
        open_ = np.flatnonzero(~part.known & (chosen != UNKNOWN))
        low, high = payoff_range(part.payoffs(open_, chosen) - part.payoffs(open_, part.taken))
        self.bounds += (low.sum(), high.sum())

    def document(self, p_value: float, *, selective: bool, late: str | None) -> dict[str, Any]:
        """The figures; `p_value` is corrected for the number of alternatives, `late` why nothing
        can be concluded yet.
        """
        known = self.paired.count
        named = {"model": self.model, "rule": self.rule, "cases": self.cases, "known": known}
        if self.failure is not None or not known:
            why = (
                "no case has a known truth"
                if self.cases
                else "there is no case, or no instance of one was recorded"
            )
            return named | {"error": self.failure or why}
        about = basis(known, self.cases, selective=selective, reason=late)
        low, high = ((self.bounds + self.paired.total) / self.cases).tolist()
        differing, found = self.paired.nonzero, self.paired.mean()
        shown = verdict(found)
        reason = (
            late if late is not None
            else f"only {differing} cases differ; {MIN_ROWS_TO_COMPARE} are needed" if differing < MIN_ROWS_TO_COMPARE
            else found.reason if found.reason is not None
            else "the difference may be chance" if shown == "undecided" or p_value >= SIGNIFICANT
            else f"{UNEQUAL}, and the bounds over all decisions contain 0" if selective and low <= 0 <= high
            else None
        )  # fmt: skip
        return {
            **total(self.done + self.paired.total, known, about),
            **named,
            "done": total(self.done, known, about),
            "difference": gain(self.paired, about),
            "bounds": {"basis": WHATEVER, "low": low, "high": high},
            "adjusted_p_value": p_value,
            "verdict": "same" if not differing else "undecided" if reason else shown,
            "reason": reason if differing else None,
        }


def documents(
    alternatives: Sequence[Alternative], *, selective: bool, late: str | None = None
) -> list[dict[str, Any]]:
    """The figures of all alternatives, with one correction for all that differ from what was done
    (Holm).
    """
    adjusted = np.ones(len(alternatives))
    tested = [
        i for i, each in enumerate(alternatives) if each.failure is None and each.paired.nonzero
    ]
    found = [alternatives[i].paired.mean().p_value for i in tested]
    adjusted[tested] = holm(np.array([1.0 if p is None else p for p in found]))
    return [
        each.document(float(p), selective=selective, late=late)
        for each, p in zip(alternatives, adjusted, strict=True)
    ]


class Replay:
    """The pass over all cases, day by day."""

    def __init__(self, stores: Stores, spec: ReplaySpec) -> None:
        self._archive = stores.archive
        self._spec = spec
        self._models = {name: stores.registry.load(name) for name in spec.models}
        stakes = read_matrix(MatrixFields.model_construct(benefits=spec.benefits), spec.classes)
        self._by_case = None if stakes is None else stakes.cases
        self._trained = cache(partial(trained, stores, spec.model))
        self._left_out: Counter[str] = Counter()
        self._actions = ActionCounts()
        self._maturity = Maturity()
        self._decisions = self._known = 0
        self.alternatives = [
            Alternative(name, rule) for name in (None, *spec.models) for rule in spec.rules
        ]

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
        last, first = day_of(time() if spec.until is None else spec.until), None
        for cases in recorded(with_instances=bool(spec.models) or self._by_case is not None):
            first = cases.day if first is None else first
            for part in self._comparable(cases):
                self._decisions += len(part)
                self._known += int(np.count_nonzero(part.known))
                posteriors: dict[str | None, tuple[np.ndarray, np.ndarray]] = {}
                for alternative in self.alternatives:
                    if alternative.failure is None:  # one that cannot decide is not asked again
                        try:
                            self._decide(alternative, part, posteriors)
                        except PayoffError as error:
                            alternative.failure = error.detail
            progress.report((cases.day + 1 - first) / max(last + 1 - first, 1), "replaying")

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
            "alternatives": documents(
                self.alternatives, selective=selective["is"], late=maturity.reason
            ),
            "warnings": list(reservations(maturity, selective=selective["is"])),
        }

    def _comparable(self, cases: Cases) -> Iterator[Slice]:
        """Cases that were made under the same priors, their terms as they are replayed; the others
        are counted.
        """
        for part in slices(cases, self._maturity.since):
            self._actions.add(part)
        cases, matrices = self._matrices(cases)
        found = [
            self._replayed(terms, matrix)
            for terms, matrix in zip(cases.terms, matrices, strict=False)
        ]
        width = max((len(terms.actions) for terms in cases.terms), default=0) + 1
        place = np.full(
            (len(found), width), UNKNOWN, dtype=np.int32
        )  # of each action; the last one stands for none
        counts = np.bincount(cases.term, minlength=len(found)).tolist()
        terms = []
        for t, (before, after) in enumerate(zip(cases.terms, found, strict=True)):
            if isinstance(after, str):
                self._left_out[after] += counts[t]
                terms.append(replace(before, benefits=None))
            else:
                names = list(map(str, after.actions))
                place[t, : len(names)] = [names.index(str(name)) for name in before.actions]
                terms.append(after)
        cases = replace(
            cases,
            terms=terms,
            choice=place[cases.term, cases.choice],
            action=place[cases.term, cases.action],
            expected=np.zeros(len(cases)),  # a case without its promise can be replayed as well
        )
        yield from (
            part for part in slices(cases, self._maturity.since, self._priors) if part.stack.stated
        )

    def _matrices(self, cases: Cases) -> tuple[Cases, Iterable[Any]]:
        """The matrix of the order for each of the terms; where it depends on the case, each has
        terms of its own, and None where its recorded instance does not have the columns.
        """
        by_case = self._by_case
        if by_case is None:
            return cases, repeat(self._spec.benefits)
        instances = [orjson.loads(text or "{}") for text in cases.instances or ()]
        values = np.array(
            [[self._number(name, one.get(name)) for name in by_case.columns] for one in instances]
        )
        values = values.reshape(len(cases), len(by_case.columns))
        usable = (np.abs(values) <= LARGEST_EARNED).all(axis=1)
        B = by_case.at(np.where(usable[:, None], values, 0.0))
        usable &= (np.abs(B) <= LARGEST_EARNED).all(axis=(1, 2))
        own = replace(
            cases, terms=[cases.terms[t] for t in cases.term.tolist()], term=np.arange(len(cases))
        )
        return own, [
            matrix if fine else None
            for matrix, fine in zip(B.tolist(), usable.tolist(), strict=True)
        ]

    def _number(self, name: str, value: Any) -> float:
        """A recorded value as a number; NaN where it is none."""
        if isinstance(value, str) and name in self._spec.forms:
            value = reader(self._spec.forms[name])(value.strip())
        return float(value) if isinstance(value, int | float) else math.nan

    def _replayed(self, terms: Terms, benefits: Any) -> Terms | str:
        """The terms with the matrix that counts; or why their cases are left out."""
        spec = self._spec
        if terms.classes != tuple(spec.classes):
            return "other_classes"
        if spec.benefits is None:
            return "without_benefits" if terms.benefits is None else terms
        actions = tuple(spec.actions or spec.classes)
        if sorted(map(str, actions)) != sorted(map(str, terms.actions)):
            return "other_actions"
        return "without_columns" if benefits is None else replace(
            terms, actions=actions, benefits=tuple(map(tuple, benefits))
        )  # fmt: skip

    def _priors(self, terms: Terms) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
        """The priors that a request stated, and those of its probabilities: these, or those of
        training.
        """
        sent = (
            None
            if terms.priors is None
            else tuple(terms.priors[str(name)] for name in terms.classes)
        )
        shares, _ = self._trained(terms.version)
        return sent, sent or (None if shares is None else tuple(shares.tolist()))

    def _decide(
        self,
        alternative: Alternative,
        part: Slice,
        posteriors: dict[str | None, tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Enter what the alternative decides."""
        name, wanted, classes = (
            alternative.model,
            alternative.rule.get("priors"),
            part.stack.classes,
        )
        sent, base = self._priors(part.terms[0])
        if name not in posteriors:
            posteriors[name] = self._posterior(name, part)
        rows, P = posteriors[name]
        if not len(rows):
            return
        if name is not None:
            base = tuple(self._models[name].priors.tolist())
            if wanted is None and sent is not None:
                wanted = dict(zip(map(str, classes), sent, strict=True))
        if wanted is not None:
            if base is None:
                raise Invalid(
                    "the class priors in training are not known any more: the version was deleted"
                )
            _, P, _ = under_priors(P, classes, np.array(base), wanted)
        alternative.add(part, way(part, rows, _choice(alternative.rule, part, rows, P)))

    def _posterior(self, name: str | None, part: Slice) -> tuple[np.ndarray, np.ndarray]:
        """The rows that a version can decide on, those with a whole instance, and its
        probabilities; None as recorded.

        Of a case of /acquire only some features were known.
        """
        if name is None:
            return np.arange(len(part)), part.probabilities
        is_whole = np.array([terms.verb == "predict" for terms in part.terms])[part.term]
        instances = part.instances or [None] * len(part)
        rows = np.flatnonzero(is_whole & [instance is not None for instance in instances])
        if not len(rows):
            return rows, part.probabilities[rows]
        model = self._models[name]
        known = frozenset(model.schema.names)  # beside which a benefit may depend on others
        found = (orjson.loads(instances[i] or "") for i in rows.tolist())
        X, _ = model.schema.encode(
            [{name: one[name] for name in one if name in known} for one in found]
        )
        return rows, model.estimator.posterior(X)


def _choice(rule: Mapping[str, Any], part: Slice, rows: np.ndarray, P: np.ndarray) -> np.ndarray:
    """The actions (n,) of a rule for rows (n,) of a slice, with the probabilities P (n, K)."""
    question, stack = _question(rule), part.stack
    is_uniform = (stack.matrices == stack.matrices[0]).all()
    B = stack.matrices[0] if is_uniform else stack.matrices[part.term[rows]]
    if rule["rule"] == "most_probable":
        likely = P.argmax(axis=1)
        return np.asarray(
            (B[likely] if is_uniform else B[np.arange(len(P)), likely]).argmax(axis=1)
        )
    if rule["rule"] == "expected_benefit":
        return decide(P, B).choice
    by_costs = question.costs is not None
    if by_costs and tuple(map(str, stack.actions)) != tuple(map(str, stack.classes)):
        raise Invalid(
            f"{rule['rule']} decides among the classes, and these decisions are about other actions"
        )
    return decide_given(
        stack.classes, P, _question(rule, None if by_costs else B.tolist()), Rows(P, [])
    ).choice
