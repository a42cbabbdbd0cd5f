"""What each rule decides, by probabilities and what the caller says is at stake."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, StrictBool, StrictInt

from app.decisions.benefit import LARGEST, Decision, Prepared
from app.decisions.priors import under_priors
from app.decisions.rules import beta_delta, hierarchical
from app.decisions.threshold import HoldoutScores, decide_by_threshold, given_cut, posterior_threshold
from app.errors import Conflict, Flaw, Invalid, below, pointer, reject
from app.registry.loaded import Loaded
from app.text import some_of
from app.usecases.explain import explanations
from app.usecases.fields import COSTS, ByClass, Matrices, NamedMatrices, Names, Text, WireModel
from app.usecases.limit_fields import LimitedFields, decide_within_limits
from app.usecases.matrices import MatrixFields, best_in_training, check_distinct, read_matrix
from app.usecases.quantities import QuantityFields

Rule = Literal["expected_benefit", "threshold", "beta_delta", "hierarchical", "most_probable"]
_DECIDES_ACTIONS: tuple[Rule, ...] = ("expected_benefit", "threshold")  # the other rules decide among the classes
_BELONGS: dict[str, tuple[Rule, ...]] = {  # the fields that a rule would pass over
    "threshold": ("threshold",),
    "costs": ("beta_delta", "hierarchical"),
    "actions": _DECIDES_ACTIONS,
    "limits": ("expected_benefit",),
    "resources": ("expected_benefit",),
    "explain": ("expected_benefit",),
    "explore": ("expected_benefit",),
}
_SHOWN = 5  # names in a message


class Costs(WireModel):
    """Costs for the rules beta_delta and hierarchical: D are the minority classes, H is the majority."""

    majority: StrictInt | Text = Field(examples=["healthy"])
    C_HD: float = Field(ge=0, le=LARGEST, strict=True, description="taking the majority for a minority class")
    C_DH: float = Field(ge=0, le=LARGEST, strict=True, description="taking a minority class for the majority")
    C_DD: float | None = Field(
        default=None, ge=0, le=LARGEST, strict=True, description="taking one minority class for another"
    )


_PLAIN = frozenset(
    {"model", "instances", "benefits", "cost_matrix", "actions", "rule", "record", "ids", "saved", "case_columns"}
)


class RuleFields(LimitedFields, QuantityFields, MatrixFields):
    """By what is to be decided: a rule with what it needs, and what is at stake."""

    benefits: NamedMatrices | None = Field(
        default=None,
        description="a row per actual class, a column per action; one matrix, or one per instance; or the name of a"
        " saved matrix",
        examples=[[[0, -1], [-10, 5]], {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}],
    )
    cost_matrix: Matrices | None = Field(default=None, description=COSTS)
    actions: Annotated[Names, Field(min_length=1)] | None = Field(
        default=None, description="names of the columns; without them the columns are the classes"
    )
    rule: Rule = "expected_benefit"
    threshold: Literal["posterior", "holdout"] | Annotated[float, Field(strict=True)] | None = None
    costs: Costs | None = None
    priors: ByClass | None = Field(
        default=None,
        description="class priors where the model is used, by class",
        examples=[{"healthy": 0.98, "ill": 0.02}],
    )
    explain: StrictBool = Field(default=False, description="say what would change each decision; in JSON answers")

    explore: Annotated[float, Field(gt=0, le=0.5, strict=True)] | None = Field(
        default=None,
        description="the share of recorded decisions whose action is drawn at random; `propensities` has the chance of"
        " each action",
    )

    @cached_property
    def is_plain(self) -> bool:
        """Whether the matrix alone decides, one for all cases: nothing outside `_PLAIN` was sent."""
        return self.rule == "expected_benefit" and self.model_fields_set <= _PLAIN and not self.case_columns


class Answer(NamedTuple):
    """One decision per instance: `choice` int (n,) into `actions`, probabilities (n, K), expected benefits (n, A), and
    the priors (K,) that the request states.

    `matrix` is that by which these are expected. `propensities` (n,) are those of the actions, where these were drawn.
    """

    rule: Rule
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


class _Case(NamedTuple):
    """What a rule decides by: `scores` are the probabilities as they come, `P` those under the `priors` in use.

    `model` is None where the probabilities came with the request; `decision` is the best one by the matrix.
    """

    model: Loaded | None
    classes: Sequence[int | str]
    asked: RuleFields
    scores: np.ndarray
    priors: np.ndarray | None
    P: np.ndarray
    matrix: Prepared | None
    actions: Sequence[int | str]
    decision: Decision | None


_Chosen = tuple[np.ndarray, list[str], dict[str, Any]]


def check_fields(asked: RuleFields) -> None:
    """Refuse what the rule would pass over, and miss what it needs: silence would be a guess."""
    if not (asked.stated and asked.is_plain):
        reject(_flaws(asked))


def _flaws(asked: RuleFields) -> Iterator[Flaw]:
    rule = asked.rule
    if rule == "expected_benefit" and not asked.stated:
        yield Flaw("/benefits", f'rule {rule} needs benefits; or ask for "rule": "most_probable"')
    if asked.costs is None and rule in _BELONGS["costs"]:
        yield Flaw("/costs", f"rule {rule} needs costs")
    sent = [name for name in _BELONGS if getattr(asked, name) is not None and getattr(asked, name) is not False]
    for name in sent:
        if rule not in _BELONGS[name]:
            place = "/benefits" if name == "actions" and asked.saved else pointer(name)
            yield Flaw(place, f"{name!r} belongs to the rule {' or '.join(_BELONGS[name])}, not to {rule}")
    for name in ("explain", "explore"):
        if name in sent and asked.limited:
            yield Flaw(pointer(name), f"with limits a decision depends on the whole batch; leave out {name}")
    if asked.explore is not None and asked.explain:
        yield Flaw("/explore", "actions that are drawn at random have no explanation; leave out explain or explore")


def decide_by(
    asked: RuleFields,
    model: Loaded | None,
    classes: Sequence[int | str],
    scores: np.ndarray,
    warnings: Sequence[str],
    matrix: Prepared | None,
) -> Answer:
    """The decisions for probabilities (n, K) of a model, or of no model, by the matrix that the fields state, and the
    warnings so far. O(n K A).

    Raises Invalid with the place in the request where what is asked fits neither the rule nor the classes.
    """
    P, priors, notes = scores, None, list[str]()
    if asked.priors is not None and model is not None:
        priors, P, notes = under_priors(scores, classes, model.priors, asked.priors)
    if matrix is not None and matrix.is_named and asked.rule not in _DECIDES_ACTIONS:
        named = some_of([str(name) for name in matrix.actions], _SHOWN)
        what = f"rule {asked.rule} decides among the classes, and the matrix has the actions {named}"
        raise Invalid.at(asked.place, f"{what}; leave out the matrix, or decide by the rule expected_benefit")
    actions = matrix.actions if matrix is not None else _two_actions(asked.actions) or classes
    decision = None if matrix is None else matrix.decide(P)
    case = _Case(model, classes, asked, scores, priors, P, matrix, actions, decision)
    choice, more, figures = _RULES[asked.rule](case)
    explained = None
    if asked.explain and matrix is not None and decision is not None:
        explained = explanations(P, matrix.benefits, decision, classes, actions)
    expected = None if decision is None else decision.expected_benefits
    told = [*warnings, *notes, *more]
    return Answer(asked.rule, classes, actions, choice, P, expected, told, figures, explained, priors, matrix)


def matrix_of(asked: RuleFields, classes: Sequence[int | str], n: int, model: Loaded | None) -> Prepared | None:
    """The matrix of a request about n instances; None without one."""
    stakes = read_matrix(asked, classes, n_instances=n, named=True, cases=True)
    if stakes is None:
        return None
    B, actions, doubts, cases = stakes
    before = () if model is None else model.once(best_in_training)
    names = classes if actions is None else tuple(actions)
    return Prepared(B, names, actions is not None, classes, before, doubts, cases)


def _two_actions(names: Sequence[str] | None) -> Sequence[str] | None:
    """Those between which a threshold decides that comes as a number, without a matrix."""
    if names is not None:
        check_distinct(names)
        if len(names) != 2:
            raise Invalid.at("/actions", "a threshold decides between two actions")
    return names


def sorted_holdout(model: Loaded) -> HoldoutScores:
    """A binary model's hold-out, sorted (use `Loaded.once`); Conflict at /threshold where it has none."""
    if model.holdout is None:
        raise Conflict.at(
            "/threshold", "this version has no hold-out; use 'posterior' or a number, or train it with a 'holdout'"
        )
    with below("/threshold"):
        return HoldoutScores(model.holdout.scores[:, 1], model.holdout.y)


def _by_expected_benefit(case: _Case) -> _Chosen:
    assert case.matrix is not None
    assert case.decision is not None
    choice, figures = case.decision.choice, dict[str, Any]()
    if case.asked.limited:
        choice, figures = decide_within_limits(case.asked, case.P, case.matrix.benefits, case.decision, case.actions)
    return choice, case.matrix.warnings, figures


def _by_threshold(case: _Case) -> _Chosen:
    """Cut the probability of the second class; the hold-out's cut is one on the model's own scores, priors or not."""
    if len(case.classes) != 2 or len(case.actions) != 2:
        raise Invalid.at("/rule", "a threshold needs two classes and two actions; use expected_benefit")
    wanted = case.asked.threshold
    B = case.matrix.benefits if case.matrix is not None and case.matrix.benefits.ndim == 2 else None
    if isinstance(wanted, int | float):
        scores, cut = case.P, given_cut(float(wanted), B, case.actions)
    elif B is None:
        needed = "this threshold comes from one benefit matrix for all; send it, or a number as threshold"
        raise Invalid.at(case.asked.place, f"{needed}; expected_benefit decides each case by its own")
    elif wanted == "holdout" and case.model is not None:
        scores, (cut, _) = case.scores, case.model.once(sorted_holdout).best(B, case.priors, case.actions)
    else:
        scores, cut = case.P, posterior_threshold(B, case.actions)
    return decide_by_threshold(scores[:, 1], cut), list(cut.warnings), {"threshold": cut.value}


def _by_beta_delta(case: _Case) -> _Chosen:
    costs, majority = _costs(case)
    if costs.C_DD is None:
        raise Invalid.at("/costs/C_DD", "beta_delta needs C_DD, the cost of taking one minority class for another")
    ruled = beta_delta(case.P, majority, costs.C_DD, costs.C_HD, costs.C_DH)
    return ruled.choice, ruled.warnings, ruled.figures


def _by_hierarchy(case: _Case) -> _Chosen:
    costs, majority = _costs(case)
    ruled = hierarchical(case.P, majority, costs.C_HD, costs.C_DH)
    return ruled.choice, ruled.warnings, ruled.figures


def _by_probability(case: _Case) -> _Chosen:
    return case.P.argmax(axis=1), [], {}


_RULES: dict[Rule, Callable[[_Case], _Chosen]] = {
    "expected_benefit": _by_expected_benefit,
    "threshold": _by_threshold,
    "beta_delta": _by_beta_delta,
    "hierarchical": _by_hierarchy,
    "most_probable": _by_probability,
}


def _costs(case: _Case) -> tuple[Costs, int]:
    costs = case.asked.costs
    assert costs is not None
    names = [str(name) for name in case.classes]
    if str(costs.majority) not in names or len(names) < 2:
        raise Invalid.at("/costs/majority", f"majority is one of two classes or more: {', '.join(names)}")
    return costs, names.index(str(costs.majority))
