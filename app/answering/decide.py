"""What each rule decides, by probabilities and what the request states about the stakes."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from app.answering.explain import attributed, contributions, explanations
from app.answering.reasons import position_of, reasons
from app.errors import Conflict
from app.registry.loaded import Loaded
from app.requests.limits import check_limits, decide_within_limits
from app.requests.matrices import (
    best_in_training,
    named_matrix,
)
from app.requests.reasons import ReasonsFields
from app.requests.rows import RowPacker, Rows
from app.requests.rules import (
    BELONGS,
    DECIDES_ACTIONS,
    Costs,
    RuleFields,
    RuleOfModel,
    check_fields,
)
from app.tables.features import NO_FEATURES, Schema
from app.tables.text import some_of
from payoff.decisions.benefit import Prepared
from payoff.decisions.case_benefits import by_case
from payoff.decisions.explanations import most_regretted
from payoff.decisions.priors import under_priors
from payoff.decisions.rules import ByCosts, beta_delta, hierarchical
from payoff.decisions.threshold import (
    Cut,
    HoldoutScores,
    cut_at,
    decide_by_threshold,
    posterior_threshold,
)
from payoff.errors import Flaw, Invalid, TooLarge, below, pointer, reject

LARGEST_ANSWER = 5_000_000  # numbers: about 90 MB of JSON, or 40 MB as an array
# How many numbers a cell of an explanation counts for, by the longest time that one takes.
_EXPLAINED = 25
# How many numbers an instance counts for whose distribution is computed, by the longest time.
_DISTRIBUTION = 100
# The same where its quantity is limited together with the others', at 33 levels.
_DISTRIBUTION_IN_SUM = 400
# with more probabilities NumPy's sum is faster than a list's
_MAX_NUMBERS_OF_LIST_SUM = 100
# of an answer; one with more is computed in a thread
SHORT_NUMBERS = 10_000
# of an answer with limits, which takes less than a millisecond
_SHORT_LIMITED_NUMBERS = 200
_MAX_MATRICES = 256  # that are kept for a model
_MAX_KEPT_CELLS = 1_000  # of a matrix that is kept
BY_REWARDS = "learned from rewards; only `POST /predict` answers by it"
_MAX_NAMES_SHOWN = 5  # of actions in a message


class Answer(NamedTuple):
    """One decision per instance: `choice` int (n,) into `actions`, probabilities (n, K), expected
    benefits (n, A), and the priors (K,) that the request states.

    `matrix` is that by which these are expected, `matrix_in_words` what it says, for its first
    answer. `propensities` (n,) are those of the actions, where these were drawn. By
    `EXPECTED_REWARD` the classes are the actions, the expected rewards (n, A) take the place of
    probabilities, and with a baseline `uplift` is (n, A); `chances` (n, A) are those of all
    actions.
    """

    rule: RuleOfModel
    classes: Sequence[int | str]
    actions: Sequence[int | str]
    choice: np.ndarray
    probabilities: np.ndarray
    expected_benefits: np.ndarray | None
    warnings: list[str]
    figures: Mapping[str, Any]
    explanations: list[dict[str, Any]] | None = None
    priors: np.ndarray | None = None
    matrix: Prepared | None = None
    propensities: np.ndarray | None = None
    matrix_in_words: Sequence[str] = ()
    uplift: np.ndarray | None = None
    chances: np.ndarray | None = None


class PreparedMatrices:
    """The last matrices that one model decided by, by the keys of their requests' fields.

    Use `Loaded.once(PreparedMatrices)`: the cache lives as long as the model in memory.
    """

    def __init__(self, model: Loaded) -> None:
        del model  # only the owner
        self.by_key = dict[bytes | None, Prepared]()
        """The matrices of requests, which need no check again; none has the key None."""
        self._lock = Lock()

    def keep(self, key: bytes | None, matrix: Prepared | None) -> None:
        """Keep a matrix for requests with the same key, unless it is large; O(1)."""
        if key is None or matrix is None:
            return
        if matrix.benefits.ndim > 2 or matrix.benefits.size > _MAX_KEPT_CELLS:
            return
        with self._lock:
            if len(self.by_key) >= _MAX_MATRICES:
                del self.by_key[next(iter(self.by_key))]  # the oldest
            self.by_key[key] = matrix


def decide(
    model: Loaded, fields: RuleFields, rows: Rows, key: bytes | None = None
) -> Answer:
    """The decisions for rows by a model of classes, with explanations where they are asked for.

    Requests with the same `key` have the same fields, whose matrix is prepared once. Raises Invalid
    with the place of a field that does not fit the model or the rule. O(n K A) beside the model's
    own work.
    """
    matrices = model.once(PreparedMatrices)
    matrix = matrices.by_key.get(key)
    is_new = matrix is None
    if matrix is None:
        check_classes(model)
        check_fields(fields, model)
        matrix = named_matrix(
            fields, model.classes, len(rows.X), model.once(best_in_training)
        )
        if matrix is not None:
            check_limits(fields, matrix.actions)
        matrices.keep(key, matrix)
    posterior = (
        model.once(RowPacker).posterior if rows.in_bounds else model.estimator.posterior
    )
    scores = posterior(rows.X)
    check_finite(scores)
    warnings = [*model.card.warnings, *rows.warnings]
    row_matrices = _of_rows(matrix, rows, model.schema)
    answer = decide_by(fields, model.classes, scores, warnings, row_matrices, model)
    if matrix is not None and (is_new or fields.explain):
        answer = answer._replace(matrix_in_words=matrix.in_words)
    if not answer.explanations:
        return answer
    return _with_contributions(model, fields, rows, answer)


def _with_contributions(
    model: Loaded, fields: RuleFields, rows: Rows, answer: Answer
) -> Answer:
    """The answer whose explanations have contributions and, if they are asked for, reasons; or a
    warning why there are none.
    """
    terms = fields.explain
    towards = answer.probabilities.argmax(axis=1)
    if isinstance(terms, ReasonsFields):
        assert answer.matrix is not None
        assert answer.expected_benefits is not None
        towards = most_regretted(
            answer.probabilities,
            answer.matrix.benefits,
            position_of(terms, answer.actions),
            answer.expected_benefits,
        )
    attribution, notes = attributed(model, rows.X, towards)
    answer = answer._replace(warnings=[*answer.warnings, *notes])
    if attribution is None:
        return answer
    parts = contributions(model, attribution)
    if isinstance(terms, ReasonsFields):
        lists = reasons(terms, model, rows, attribution, towards)
        parts = [part | {"reasons": r} for part, r in zip(parts, lists, strict=True)]
    pairs = zip(answer.explanations or (), parts, strict=True)
    return answer._replace(
        explanations=[explanation | part for explanation, part in pairs]
    )


def decide_by_probabilities(
    classes: Sequence[int | str],
    P: np.ndarray,
    fields: RuleFields,
    rows: Rows,
    schema: Schema = NO_FEATURES,
) -> Answer:
    """The decisions by probabilities (n, K) for rows of a schema; the fields are checked."""
    matrix = named_matrix(fields, classes, len(P))
    if matrix is not None:
        check_limits(fields, matrix.actions)
    answer = decide_by(
        fields, classes, P, rows.warnings, _of_rows(matrix, rows, schema)
    )
    return (
        answer if matrix is None else answer._replace(matrix_in_words=matrix.in_words)
    )


def _of_rows(matrix: Prepared | None, rows: Rows, schema: Schema) -> Prepared | None:
    """The matrix, or a matrix for each row where a cell depends on the case."""
    if matrix is None or matrix.cases is None:
        return matrix
    return by_case(matrix, schema, rows.X, rows.columns, partial(rows.place, schema))


def decide_by(
    fields: RuleFields,
    classes: Sequence[int | str],
    scores: np.ndarray,
    warnings: Sequence[str],
    matrix: Prepared | None,
    model: Loaded | None = None,
) -> Answer:
    """The decisions for probabilities (n, K) of a model, or of no model, by the matrix that the
    fields state, and the warnings so far. O(n K A).

    Raises Invalid with the place in the request where what is asked fits neither the rule nor the
    classes.
    """
    P = scores
    priors = None
    prior_warnings = list[str]()
    rule = fields.rule
    if fields.priors is not None and model is not None:
        priors, P, prior_warnings = under_priors(
            scores, classes, model.priors, fields.priors
        )
    if matrix is not None and matrix.is_named and rule not in DECIDES_ACTIONS:
        named = some_of([str(name) for name in matrix.actions], _MAX_NAMES_SHOWN)
        message = f"rule {rule} decides among the classes, and the matrix has the actions {named}"
        raise Invalid.at(
            fields.place,
            f"{message}; leave out the matrix, or decide by the rule expected_benefit",
        )
    actions = matrix.actions if matrix is not None else fields.actions or classes
    decision = None if matrix is None else matrix.decide(P)
    figures: Mapping[str, Any] = {}
    explained = None
    rule_warnings = list[str]()
    if rule == "threshold":
        cut, probabilities = _cut(fields, scores, P, priors, matrix, actions, model)
        choice = decide_by_threshold(probabilities[:, 1], cut)
        figures = {"threshold": cut.value}
        rule_warnings = [*cut.warnings]
    elif rule in BELONGS["costs"]:
        choice, figures, rule_warnings = _by_costs(fields, classes, P)
    elif rule == "most_probable" or matrix is None or decision is None:
        choice = P.argmax(axis=1)
    elif fields.certified is not None:
        certified = fields.certified
        choice = certified.restricted(decision.choice, P, list(map(str, actions)))
        figures = {"guarantee": certified.name}
        rule_warnings = matrix.warnings
    else:
        choice = decision.choice
        rule_warnings = matrix.warnings
        if fields.limited:
            choice, figures = decide_within_limits(
                fields, P, matrix.benefits, decision, actions
            )
        if fields.explain:
            explained = explanations(P, matrix.benefits, decision, classes, actions)
    return Answer(
        rule=rule,
        classes=classes,
        actions=actions,
        choice=choice,
        probabilities=P,
        expected_benefits=None if decision is None else decision.expected_benefits,
        warnings=[*warnings, *prior_warnings, *rule_warnings],
        figures=figures,
        explanations=explained,
        priors=priors,
        matrix=matrix,
    )


def sorted_holdout(model: Loaded) -> HoldoutScores:
    """A binary model's hold-out, sorted (use `Loaded.once`).

    Conflict at /threshold where it has none.
    """
    if model.holdout is None:
        raise Conflict.at(
            "/threshold",
            "this version has no hold-out; use 'posterior' or a number, or train it with a"
            " 'holdout'",
        )
    with below("/threshold"):
        holdout = model.holdout
        return HoldoutScores(holdout.scores[:, 1], holdout.y, holdout.row_weights)


def _cut(
    fields: RuleFields,
    scores: np.ndarray,
    P: np.ndarray,
    priors: np.ndarray | None,
    matrix: Prepared | None,
    actions: Sequence[int | str],
    model: Loaded | None,
) -> tuple[Cut, np.ndarray]:
    """The cut of the second class's probability, and the probabilities (n, 2) that it is for.

    The cut of the hold-out is one of the model's scores, whatever priors the request states.
    """
    if P.shape[1] != 2 or len(actions) != 2:
        raise Invalid.at(
            "/rule",
            "a threshold needs two classes and two actions; use expected_benefit",
        )
    threshold = fields.threshold
    B = None if matrix is None or matrix.benefits.ndim > 2 else matrix.benefits
    if isinstance(threshold, int | float):
        return cut_at(float(threshold), B, actions), P
    if B is None:
        raise Invalid.at(
            fields.place,
            "this threshold comes from one benefit matrix for all; send it, or a number as"
            " threshold; expected_benefit decides each case by its own",
        )
    if threshold == "holdout" and model is not None:
        return model.once(sorted_holdout).best(B, priors, actions)[0], scores
    return posterior_threshold(B, actions), P


def _by_costs(
    fields: RuleFields, classes: Sequence[int | str], P: np.ndarray
) -> ByCosts:
    costs = fields.costs
    names = [str(name) for name in classes]
    assert isinstance(costs, Costs)
    if str(costs.majority) not in names or len(names) < 2:
        raise Invalid.at(
            "/costs/majority",
            f"majority is one of two classes or more: {', '.join(names)}",
        )
    majority = names.index(str(costs.majority))
    if fields.rule == "hierarchical":
        return hierarchical(P, majority, costs.C_HD, costs.C_DH)
    if costs.C_DD is None:
        raise Invalid.at(
            "/costs/C_DD",
            "beta_delta needs C_DD, the cost of taking one minority class for another",
        )
    return beta_delta(P, majority, costs.C_DD, costs.C_HD, costs.C_DH)


def check_classes(model: Loaded) -> None:
    """Invalid at /model unless it predicts one of several classes, for which actions are."""
    if model.regression:
        raise Invalid.at(
            "/model", f"{model.name!r} predicts numbers; this needs a model of classes"
        )
    if model.rewarded:
        raise Invalid.at("/model", f"{model.name!r} {BY_REWARDS}")
    if model.multilabel:
        raise Invalid.at(
            "/model",
            f"{model.name!r} has several labels; `POST /retrieve` says which of them to retrieve",
        )


def check_finite(P: np.ndarray) -> None:
    """Reject non-finite probabilities."""
    # Summing a short list is ten times faster than NumPy.
    total = sum(P.ravel().tolist()) if P.size <= _MAX_NUMBERS_OF_LIST_SUM else P.sum()
    if not math.isfinite(total):
        rows = np.flatnonzero(~np.isfinite(P).all(axis=1))
        reject(
            Flaw(
                pointer("instances", i),
                "the model gives no probabilities for this instance",
            )
            for i in rows
        )


def extent(fields: RuleFields, classes: Sequence[int | str], n_instances: int) -> int:
    """How many numbers the answer will hold: one for each class and action of each instance; a
    model of numbers has no `classes`.

    An explanation counts as the work that it takes. TooLarge for more than `LARGEST_ANSWER`, which
    few bytes can ask for.
    """
    n_classes = len(classes) or len(fields.bands or ()) + 1
    n_actions = fields.width if fields.actions else max(fields.width, n_classes)
    # An instance may have a matrix of its own; an explanation tries all changes of the matrix.
    arrays_per_action = bool(fields.case_columns) + _EXPLAINED * bool(fields.explain)
    numbers = n_instances * (
        n_classes + n_actions + arrays_per_action * n_classes * n_actions
    )
    work = numbers
    if fields.of_numbers and not classes:
        work *= _DISTRIBUTION if fields.sum_at_most is None else _DISTRIBUTION_IN_SUM
    if work > LARGEST_ANSWER:
        raise TooLarge(
            f"the answer would hold {work:,} numbers, more than {LARGEST_ANSWER:,}; send fewer"
            " instances"
        )
    return numbers


def is_short(fields: RuleFields, numbers: int) -> bool:
    """Whether decisions with an answer of so many numbers take a few milliseconds at most, so that
    the event loop may make them.
    """
    max_numbers = _SHORT_LIMITED_NUMBERS if fields.limits else SHORT_NUMBERS
    return numbers <= max_numbers and not fields.explain and not fields.resources
