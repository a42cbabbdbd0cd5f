"""Decide what to do for each instance, with a model's probabilities and what the caller says is at stake."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from app.decisions.benefit import Decision, decide
from app.decisions.hcsklr import beta_delta, hierarchical
from app.decisions.threshold import HoldoutScores, decide_by_threshold, given_cut, posterior_threshold
from app.errors import Conflict, Flaw, Invalid, TooLarge, pointer, reject
from app.registry.loaded import Loaded
from app.usecases.explain import contributions, explanations
from app.usecases.limits import Constraints
from app.usecases.matrices import Stated, best_in_training, check_distinct, known_oddities, read_matrix
from app.usecases.priors import Wanted, corrected
from app.usecases.probabilities import Probabilities
from app.usecases.rule_fields import check_actions, check_fields

Rule = Literal["expected_benefit", "threshold", "beta_delta", "hierarchical", "most_probable"]


@dataclass(frozen=True)
class Costs:
    """The costs of the rules β/Δ and hierarchical: D the minority classes, H the majority."""

    majority: int | str
    C_HD: float
    C_DH: float
    C_DD: float | None = None


@dataclass(frozen=True)
class Question(Stated):
    """What is asked about the instances; `benefits` as sent, everything else checked in form only.

    `rule` None is `usual_rule` for classes; for numbers there is none.
    """

    rule: Rule | None = None
    threshold: Literal["posterior", "holdout"] | float | None = None
    costs: Costs | None = None
    priors: Wanted | None = None
    explain: bool = False
    constraints: Constraints | None = None
    usual_rule: Rule = "expected_benefit"
    explore: float | None = None


@dataclass(frozen=True)
class Answer:
    """One decision per instance: `choice` int (n,) into `actions`, probabilities (n, K), expected benefits (n, A), and
    the priors (K,) that the request asked for, in whatever way.

    `benefits` are the matrix (K, A), or one for each instance (n, K, A), by which these are expected.
    `propensities` (n,) are those of the actions, where these were drawn.
    """

    rule: Rule
    classes: Sequence[int | str]
    actions: Sequence[int | str]
    choice: np.ndarray
    probabilities: np.ndarray
    expected_benefits: np.ndarray | None
    warnings: list[str]
    figures: dict[str, Any] = field(default_factory=dict)
    explanations: list[dict[str, Any]] | None = None
    priors: np.ndarray | None = None
    benefits: np.ndarray | None = None
    propensities: np.ndarray | None = None


@dataclass(frozen=True)
class _Case:
    """A question, checked as a whole: `scores` are the probabilities as they come, `P` those under `priors` in use.

    `model` is None where the probabilities came with the request.
    """

    model: Loaded | None
    classes: Sequence[int | str]
    question: Question
    scores: np.ndarray
    priors: np.ndarray | None
    P: np.ndarray
    B: np.ndarray | None
    actions: Sequence[int | str]

    @cached_property
    def decision(self) -> Decision | None:
        return None if self.B is None else decide(self.P, self.B)


LARGEST_ANSWER = 5_000_000  # numbers; some 90 MB of JSON, or 40 MB as an array
_EXPLAINED = 25  # numbers for each cell of an explanation, by the most time that it takes
_Chosen = tuple[np.ndarray, list[str], dict[str, Any]]


def predict(model: Loaded, X: np.ndarray, question: Question, warnings: Sequence[str] = ()) -> Answer:
    """Decide for rows X (n, m) as the model's schema encodes them.

    Raises Invalid with the place in the request where the question does not fit the model or its rule. O(n K A)
    beyond the model's own work.
    """
    check_classes(model)
    check_fields(question, _rule(question))
    _check_size(model.classes, question, len(X))
    scores = model.estimator.posterior(X)
    _check_finite(scores)
    answer = _answer(model, model.classes, scores, question, [*model.card.warnings, *warnings])
    if answer.explanations:
        fields, why = contributions(model, X, answer.probabilities)
        explained = [one | more for one, more in zip(answer.explanations, fields or [{}] * len(X), strict=True)]
        answer = replace(answer, explanations=explained, warnings=[*answer.warnings, *why])
    return answer


def decide_given(given: Probabilities, question: Question) -> Answer:
    """Decide with probabilities that came with the request; Invalid also for what only a model can answer."""
    check_fields(question, _rule(question))
    _check_size(given.classes, question, len(given.P))
    if question.priors is not None:
        raise Invalid.at("/priors", "priors correct the probabilities of a model, which knows the priors in training")
    if question.threshold == "holdout":
        raise Invalid.at("/threshold", "the threshold 'holdout' needs a model; use 'posterior' or a number")
    return _answer(None, given.classes, given.P, question, ())


def _answer(
    model: Loaded | None,
    classes: Sequence[int | str],
    scores: np.ndarray,
    question: Question,
    warnings: Sequence[str],
) -> Answer:
    found = corrected(scores, classes, None if model is None else model.priors, question.priors)
    P = found.P
    B, actions = _stakes(question, classes, len(P))
    case = _Case(model, classes, question, scores, found.priors, P, B, actions)
    choice, more, figures = _RULES[_rule(question)](case)
    expected = None if case.decision is None else case.decision.expected_benefits
    explained = explanations(P, B, choice, classes, actions) if question.explain and B is not None else None
    figures, notes = {**figures, **found.figures}, [*warnings, *found.warnings, *more]
    more_fields = figures, explained, found.priors, B
    return Answer(_rule(question), classes, actions, choice, P, expected, notes, *more_fields)


def _rule(question: Question) -> Rule:
    return question.rule or question.usual_rule


def check_classes(model: Loaded) -> None:
    """Invalid at /model where it predicts numbers, or has several labels: actions are for exclusive classes."""
    if model.regression:
        raise Invalid.at("/model", f"{model.name!r} predicts numbers; this needs a model of classes")
    if model.multilabel:
        raise Invalid.at(
            "/model", f"{model.name!r} has several labels; `POST /retrieve` says which of them to retrieve"
        )


def extent(classes: Sequence[object], question: Question, n_instances: int) -> int:
    """How many numbers the answer will hold: few bytes can ask for one for every class and action of every instance.

    An explanation counts as the work it takes.
    """
    n_classes = len(classes) or 1
    n_actions = question.width(n_classes)
    return n_instances * (n_classes + n_actions + _EXPLAINED * n_classes * n_actions * question.explain)


def _check_size(classes: Sequence[object], question: Question, n_instances: int) -> None:
    cells = extent(classes, question, n_instances)
    if cells > LARGEST_ANSWER:
        raise TooLarge(f"the answer would hold {cells:,} numbers, more than {LARGEST_ANSWER:,}; send fewer instances")


def _check_finite(P: np.ndarray) -> None:
    """Reject non-finite probabilities."""
    if not math.isfinite(P.sum()):
        rows = np.flatnonzero(~np.isfinite(P).all(axis=1))
        reject(Flaw(pointer("instances", i), "the model gives no probabilities for this instance") for i in rows)


def sorted_holdout(model: Loaded) -> HoldoutScores:
    """A binary model's hold-out, sorted (use `Loaded.once`); Conflict at /threshold where it has none."""
    if model.holdout is None:
        raise Conflict.at(
            "/threshold", "this version has no hold-out; use 'posterior' or a number, or train it with a 'holdout'"
        )
    try:
        return HoldoutScores(model.holdout.scores[:, 1], model.holdout.y)
    except Invalid as error:
        raise error.under("/threshold") from error


def _by_expected_benefit(case: _Case) -> _Chosen:
    assert case.B is not None
    assert case.decision is not None
    choice = case.decision.choice
    figures: dict[str, Any] = {}
    if case.question.constraints is not None:
        choice, figures = case.question.constraints.decide(case.P, case.B, case.decision, case.actions)
    return choice, known_oddities(case.B, case.actions, case.classes, best_in_training(case.model)), figures


def _by_threshold(case: _Case) -> _Chosen:
    """Cut the probability of the second class; the hold-out's cut is one on the model's own scores, priors or not."""
    if len(case.classes) != 2 or len(case.actions) != 2:
        raise Invalid.at("/rule", "a threshold needs two classes and two actions; use expected_benefit")
    wanted = case.question.threshold
    if isinstance(wanted, int | float):
        matrix = case.B if case.B is not None and case.B.ndim == 2 else None
        scores, cut = case.P, given_cut(float(wanted), matrix, case.actions)
    elif case.B is None or case.B.ndim != 2:
        raise Invalid.at("/benefits", "this threshold comes from one benefit matrix; send it, or a number as threshold")
    elif wanted == "holdout" and case.model is not None:
        scores, (cut, _) = case.scores, case.model.once(sorted_holdout).best(case.B, case.priors, case.actions)
    else:
        scores, cut = case.P, posterior_threshold(case.B, case.actions)
    return decide_by_threshold(scores[:, 1], cut), list(cut.warnings), {"threshold": cut.value}


def _by_beta_delta(case: _Case) -> _Chosen:
    costs, majority = _costs(case)
    if costs.C_DD is None:
        raise Invalid.at("/costs/C_DD", "beta_delta needs C_DD, the cost of taking one minority class for another")
    try:
        ruled = beta_delta(case.P, majority, costs.C_DD, costs.C_HD, costs.C_DH, classes=case.classes)
    except Invalid as error:
        raise error.under("/costs") from error
    return ruled.choice, ruled.warnings, ruled.figures


def _by_hierarchy(case: _Case) -> _Chosen:
    costs, majority = _costs(case)
    try:
        ruled = hierarchical(case.P, majority, costs.C_HD, costs.C_DH)
    except Invalid as error:
        raise error.under("/costs") from error
    return ruled.choice, ruled.warnings, {"threshold": ruled.p_star}


def _by_probability(case: _Case) -> _Chosen:
    return case.P.argmax(axis=1), [], {}


_RULES: dict[Rule, Callable[[_Case], _Chosen]] = {
    "expected_benefit": _by_expected_benefit,
    "threshold": _by_threshold,
    "beta_delta": _by_beta_delta,
    "hierarchical": _by_hierarchy,
    "most_probable": _by_probability,
}


def _stakes(
    question: Question, classes: Sequence[int | str], n_instances: int
) -> tuple[np.ndarray | None, Sequence[int | str]]:
    """The matrix, or matrices, and the actions; without names for the actions its columns are the classes."""
    stakes = read_matrix(question, classes, n_instances=n_instances, named=True)
    if stakes is not None:
        check_actions(question, _rule(question), stakes.actions)
        return stakes.benefits, classes if stakes.actions is None else stakes.actions
    if question.actions is None:
        return None, classes
    check_distinct(question.actions)
    if len(question.actions) != 2:
        raise Invalid.at("/actions", "a threshold decides between two actions")
    return None, question.actions


def _costs(case: _Case) -> tuple[Costs, int]:
    costs = case.question.costs
    assert costs is not None
    names = [str(name) for name in case.classes]
    if str(costs.majority) not in names:
        raise Invalid.at("/costs/majority", f"majority is one of the classes: {', '.join(names)}")
    return costs, names.index(str(costs.majority))
