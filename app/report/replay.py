"""Replays of recorded decisions: the benefit of other models, rules and matrices where the truth is
known. A request is checked and becomes a job; the job's own process replays.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import repeat
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from pydantic import Field

from app.access.caller import Caller
from app.answering.decide import decide_by_probabilities
from app.errors import NotFound
from app.jobs.job import Job
from app.outcomes.decision import UNKNOWN, Cases, Terms
from app.registry.card import Card
from app.registry.snapshot import Reference
from app.report.alternatives import Alternative, documents
from app.report.changes import trained
from app.report.replay_pass import ReplayPass, RewardReplay, posterior
from app.report.slices import Slice, slices
from app.report.ways import way
from app.requests.fields import ByClass, Number, Period, Text, WireModel
from app.requests.matrices import (
    MatrixFields,
    NamedMatrixFields,
    named_matrix,
    read_matrix,
)
from app.requests.rows import Rows
from app.requests.rules import Costs, Rule, RuleFields, check_fields
from app.requests.saved_matrices import with_saved
from app.requests.specifications import ReplaySpec
from app.stores import Stores
from app.tables.notations import reader
from app.training import jobs
from app.training.models import card_of
from payoff import progress
from payoff.decisions.benefit import decide
from payoff.decisions.priors import as_priors, under_priors
from payoff.errors import Flaw, Invalid, PayoffError, below, pointer, reject
from payoff.evidence.intervals import LARGEST_EARNED

KIND = "replay"
_DEFAULT_RULES = ({"rule": "expected_benefit"}, {"rule": "most_probable"})


class ReplayRule(WireModel):
    """A rule with its parameters, as in `/predict`."""

    rule: Rule = "expected_benefit"
    threshold: Literal["posterior"] | Number | None = None
    costs: Costs | None = None
    priors: ByClass | None = Field(
        default=None, description="class priors, in place of those of each request"
    )


class ReplayRequest(NamedMatrixFields, Period):
    """The models, the rules and the matrix to replay."""

    models: Annotated[list[Text], Field(max_length=10)] = Field(
        default=[],
        description="versions that decide on the recorded instances",
        examples=[["triage@champion"]],
    )
    rules: Annotated[list[ReplayRule], Field(min_length=1, max_length=20)] | None = (
        Field(
            default=None,
            description="applied to the recorded probabilities, and to those of each of `models`;"
            " without them `expected_benefit`, and for the recorded ones alone `most_probable`",
        )
    )


def submit(
    stores: Stores,
    reference: str,
    request: ReplayRequest,
    *,
    key: str | None,
    caller: Caller,
) -> Job:
    """Accept a request to replay the decisions of `name` (all versions), `name:3` or `name@alias`.

    Raises Invalid with the place of what cannot work, NotFound for models that are not published.
    """
    if not (request.models or request.rules or request.stated):
        raise Invalid.at("", "send 'models', 'rules' or 'benefits' to replay")
    model = Reference.parse(reference)
    has_version = model.version is not None or model.alias is not None
    card = card_of(stores, reference)
    if card.classes is None or not (card.has_classes or card.rewarded):
        raise Invalid(
            f"{model.name!r} predicts numbers, or several labels;"
            " decisions among classes or by rewards are replayed"
        )
    versions = _versions(stores, request.models, card, caller)
    spec = ReplaySpec(
        model=model.name,
        classes=list(card.classes),
        versions=[card.version] if has_version else None,
        models=list(dict.fromkeys(f"{card.name}:{card.version}" for card in versions)),
        since=request.since,
        until=request.until,
    )
    if card.rewarded:
        _check_of_rewards(request)
    else:
        stakes = _stakes(stores, request, model.name, card)
        spec = spec.model_copy(update=stakes)
    return jobs.submit(
        stores, caller, KIND, spec, model=model.name, dataset=None, key=key
    )


def _check_of_rewards(request: ReplayRequest) -> None:
    """Invalid where more than versions is to be replayed of decisions by rewards."""
    flaws = [
        Flaw(place, "of a model that learned from rewards only 'models' are replayed")
        for place, value in (
            ("/rules", request.rules),
            (request.place, request.stated),
            ("/actions", request.actions),
        )
        if value
    ]
    reject(flaws)


def _stakes(
    stores: Stores, request: ReplayRequest, model: str, card: Card
) -> dict[str, Any]:
    """The rules and the matrix of a replay among the classes of a card, as the job has them."""
    classes = list(card.classes or ())
    matrix = named_matrix(with_saved(stores, request, model, classes), classes)
    benefits = actions = None
    if matrix is not None:
        if np.abs(matrix.benefits).max() > LARGEST_EARNED:
            raise Invalid.at(
                "/benefits",
                f"benefits of a magnitude above {LARGEST_EARNED:g} are not replayed",
            )
        benefits = (
            matrix.benefits.tolist() if matrix.cases is None else matrix.cases.cells()
        )
        actions = list(map(str, matrix.actions)) if matrix.is_named else None
    rules = [rule.model_dump(exclude_none=True) for rule in request.rules or ()]
    if not rules:
        rules = list(_DEFAULT_RULES[:1] if request.models else _DEFAULT_RULES)
    for i, rule in enumerate(rules):
        with below(pointer("rules", i)):
            check_fields(_question(rule), None)
            if rule.get("priors") is not None:
                with below("/priors"):
                    as_priors(rule["priors"], list(map(str, classes)))
    return {
        "rules": rules,
        "benefits": benefits,
        "actions": actions,
        "forms": {part.name: part.form for part in card.features if part.form},
    }


def _question(rule: Mapping[str, Any], benefits: Any = ()) -> RuleFields:
    """A rule with its benefits, by default those of the record, as the question of `/predict`."""
    return RuleFields.model_validate({**rule, "priors": None, "benefits": benefits})


def _versions(
    stores: Stores, references: list[str], card: Card, caller: Caller
) -> list[Card]:
    """The cards of the models; Invalid or NotFound below /models."""
    versions: list[Card] = []
    flaws: list[Flaw] = []
    for i, reference in enumerate(references):
        caller.need_model(reference)
        try:
            version = card_of(stores, reference)
        except NotFound as error:
            raise NotFound.at(pointer("models", i), error.detail) from error
        if version.rewarded != card.rewarded:
            message = (
                "of the two models one learned from rewards, and the other did not"
            )
            flaws.append(Flaw(pointer("models", i), message))
        elif version.classes != card.classes and not card.rewarded:
            message = f"{reference!r} has other classes than {card.name!r}"
            flaws.append(Flaw(pointer("models", i), message))
        versions.append(version)
    reject(flaws)
    return versions


def run(stores: Stores, job: Job) -> None:
    """Replay, and finish `job` with the figures as its result."""
    spec = ReplaySpec.model_validate(job.spec)
    replay = Replay(stores, spec) if spec.rules else RewardReplay(stores, spec)
    with progress.part(0.0, 1.0, "replaying"):
        replay.read()
    with stores.database.writing() as connection:
        stores.queue.succeed(connection, job, replay.document())


class Replay(ReplayPass):
    """Rules and matrices among classes, by recorded probabilities or those of versions."""

    def __init__(self, stores: Stores, spec: ReplaySpec) -> None:
        super().__init__(stores, spec)
        matrix = read_matrix(
            MatrixFields.model_construct(benefits=spec.benefits), spec.classes
        )
        self._case_benefits = None if matrix is None else matrix.cases
        self.needs_instances = bool(spec.models) or self._case_benefits is not None
        self._trained = cache(partial(trained, stores, spec.model))
        self.alternatives = [
            Alternative(name, rule)
            for name in (None, *spec.models)
            for rule in spec.rules
        ]

    def _add(self, part: Slice) -> None:
        """Add a slice to the alternatives, until they fail."""
        posteriors: dict[str | None, tuple[np.ndarray, np.ndarray]] = {}
        for alternative in self.alternatives:
            if alternative.failure is None:
                try:
                    self._decide(alternative, part, posteriors)
                except PayoffError as error:
                    alternative.failure = error.detail

    def _alternatives(self, *, selective: bool) -> list[dict[str, Any]]:
        return documents(
            self.alternatives, selective=selective, late=self._maturity.reason
        )

    def _comparable(self, cases: Cases) -> Iterator[Slice]:
        """Slices of cases under the same priors, with the terms under which they are replayed; the
        other cases are counted.
        """
        cases, matrices = self._matrices(cases)
        # The place of each action among those that are replayed; the last column is for no action.
        width = max((len(terms.actions) for terms in cases.terms), default=0) + 1
        place = np.full((len(cases.terms), width), UNKNOWN, dtype=np.int32)
        counts = np.bincount(cases.term, minlength=len(cases.terms)).tolist()
        terms = []
        for t, (recorded, matrix) in enumerate(
            zip(cases.terms, matrices, strict=False)
        ):
            replayed = self._replayed(recorded, matrix)
            if isinstance(replayed, str):
                self._left_out[replayed] += counts[t]
                terms.append(replace(recorded, benefits=None))
            else:
                names = list(map(str, replayed.actions))
                place[t, : len(names)] = [
                    names.index(str(name)) for name in recorded.actions
                ]
                terms.append(replayed)
        cases = replace(
            cases,
            terms=terms,
            choice=place[cases.term, cases.choice],
            action=place[cases.term, cases.action],
            expected=np.zeros(
                len(cases)
            ),  # also a case without an expected benefit is replayed
        )
        for part in slices(cases, self._maturity.since, self._priors):
            if part.stack.stated:
                yield part

    def _matrices(self, cases: Cases) -> tuple[Cases, Iterable[Any]]:
        """The matrix of the request for each of the terms.

        Where it depends on the case, each case gets terms of its own; the matrix is None where the
        recorded instance does not have the columns.
        """
        benefits = self._case_benefits
        if benefits is None:
            return cases, repeat(self._spec.benefits)
        instances = [orjson.loads(text or "{}") for text in cases.instances or ()]
        numbers = [
            [self._number(name, instance.get(name)) for name in benefits.columns]
            for instance in instances
        ]
        values = np.array(numbers).reshape(len(cases), len(benefits.columns))
        usable = (np.abs(values) <= LARGEST_EARNED).all(axis=1)
        B = benefits.at(np.where(usable[:, None], values, 0.0))
        usable &= (np.abs(B) <= LARGEST_EARNED).all(axis=(1, 2))
        matrices = [
            matrix if is_usable else None
            for matrix, is_usable in zip(B.tolist(), usable.tolist(), strict=True)
        ]
        terms = [cases.terms[t] for t in cases.term.tolist()]
        return replace(cases, terms=terms, term=np.arange(len(cases))), matrices

    def _number(self, name: str, value: Any) -> float:
        """A recorded value as a number; NaN where it is not a number."""
        if isinstance(value, str) and name in self._spec.forms:
            value = reader(self._spec.forms[name])(value.strip())
        return float(value) if isinstance(value, int | float) else math.nan

    def _replayed(self, terms: Terms, benefits: Any) -> Terms | str:
        """The terms with the matrix of the replay, or the reason why their cases are left out."""
        spec = self._spec
        if terms.classes != tuple(spec.classes):
            return "other_classes"
        if spec.benefits is None:
            return "without_benefits" if terms.benefits is None else terms
        actions = tuple(spec.actions or spec.classes)
        if sorted(map(str, actions)) != sorted(map(str, terms.actions)):
            return "other_actions"
        if benefits is None:
            return "without_columns"
        return replace(terms, actions=actions, benefits=tuple(map(tuple, benefits)))

    def _priors(
        self, terms: Terms
    ) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
        """The priors that a request stated, and those of its probabilities: these, or those of
        training.
        """
        if terms.priors is not None:
            stated = tuple(terms.priors[str(name)] for name in terms.classes)
            return stated, stated
        shares, _ = self._trained(terms.version)
        return None, None if shares is None else tuple(shares.tolist())

    def _decide(
        self,
        alternative: Alternative,
        part: Slice,
        posteriors: dict[str | None, tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Add the decisions of the alternative; `posteriors` has the rows and the probabilities
        (n, K) of each model.
        """
        name = alternative.model
        classes = part.stack.classes
        priors = alternative.rule.get("priors")
        stated_priors, base_priors = self._priors(part.terms[0])
        if name not in posteriors:
            posteriors[name] = self._posterior(name, part)
        rows, P = posteriors[name]
        if not len(rows):
            return
        if name is not None:
            base_priors = tuple(self._models[name].priors.tolist())
            if priors is None and stated_priors is not None:
                priors = dict(zip(map(str, classes), stated_priors, strict=True))
        if priors is not None:
            if base_priors is None:
                raise Invalid(
                    "the class priors in training are not known any more: the version was deleted"
                )
            _, P, _ = under_priors(P, classes, np.array(base_priors), priors)
        alternative.add(part, way(part, rows, _choice(alternative.rule, part, rows, P)))

    def _posterior(
        self, name: str | None, part: Slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows that a version can decide on, and its probabilities; of None the recorded ones.

        A version decides on recorded instances with all features. Of a case of /acquire only some
        features were known.
        """
        if name is None:
            return np.arange(len(part)), part.probabilities
        is_complete = np.array([terms.verb == "predict" for terms in part.terms])[
            part.term
        ]
        texts = part.instances or [None] * len(part)
        rows = np.flatnonzero(is_complete & [text is not None for text in texts])
        if not len(rows):
            return rows, part.probabilities[rows]
        return rows, posterior(self._models[name], [texts[i] for i in rows.tolist()])


def _choice(
    rule: Mapping[str, Any], part: Slice, rows: np.ndarray, P: np.ndarray
) -> np.ndarray:
    """The actions (n,) of a rule for rows (n,) of a slice, with the probabilities P (n, K)."""
    stack = part.stack
    is_uniform = (stack.matrices == stack.matrices[0]).all()
    B = stack.matrices[0] if is_uniform else stack.matrices[part.term[rows]]
    if rule["rule"] == "most_probable":
        likely = P.argmax(axis=1)
        payoffs = B[likely] if is_uniform else B[np.arange(len(P)), likely]
        return np.asarray(payoffs.argmax(axis=1))
    if rule["rule"] == "expected_benefit":
        return decide(P, B).choice
    has_costs = _question(rule).costs is not None
    if has_costs and tuple(map(str, stack.actions)) != tuple(map(str, stack.classes)):
        raise Invalid(
            f"{rule['rule']} decides among the classes, and these decisions are about other actions"
        )
    question = _question(rule, None if has_costs else B.tolist())
    return decide_by_probabilities(stack.classes, P, question, Rows(P, [])).choice
