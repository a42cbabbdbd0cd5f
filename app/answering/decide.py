"""What each rule decides, by probabilities and what the request states about the stakes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Discriminator, Field, StrictBool, StrictInt, Tag

from app.answering.explain import explanations
from app.errors import Conflict
from app.outcomes.decision import EXPECTED_REWARD
from app.registry.loaded import Loaded
from app.requests.fields import (
    COSTS,
    ByClass,
    CaseCell,
    CostsByAction,
    Matrices,
    NamedMatrices,
    Text,
    WireModel,
)
from app.requests.guarantees import PRIORS, GuaranteedFields
from app.requests.limits import LimitedFields, decide_within_limits
from app.requests.matrices import check_distinct, columns_of_matrix
from app.requests.quantities import QuantityFields
from app.tables.text import some_of
from payoff.decisions.benefit import LARGEST, Prepared
from payoff.decisions.priors import under_priors
from payoff.decisions.rules import ByCosts, beta_delta, hierarchical
from payoff.decisions.threshold import (
    Cut,
    HoldoutScores,
    cut_at,
    decide_by_threshold,
    posterior_threshold,
)
from payoff.errors import Flaw, Invalid, below, pointer, reject

Rule = Literal[
    "expected_benefit", "threshold", "beta_delta", "hierarchical", "most_probable"
]
RuleOfModel = Literal[Rule, "guaranteed", "expected_reward"]
REWARD: RuleOfModel = EXPECTED_REWARD
"""The rule of models that learned from rewards, and of these alone."""
# The rules that decide among the actions of a matrix; the other rules decide among the classes.
_DECIDES_ACTIONS: tuple[RuleOfModel, ...] = (
    "expected_benefit",
    "threshold",
    "guaranteed",
)
# The rules that read a field: a request with another rule and this field is refused.
_BELONGS: dict[str, tuple[RuleOfModel, ...]] = {
    "guarantee": ("guaranteed",),
    "threshold": ("threshold",),
    "costs": ("beta_delta", "hierarchical"),
    "actions": _DECIDES_ACTIONS,
    "limits": ("expected_benefit",),
    "resources": ("expected_benefit",),
    "explain": ("expected_benefit",),
    "explore": ("expected_benefit",),
    "baseline": (REWARD,),
}
_MAX_NAMES_SHOWN = 5  # of actions in a message


class Costs(WireModel):
    """Costs for the rules beta_delta and hierarchical: D are the minority classes, H is the
    majority.
    """

    majority: StrictInt | Text = Field(examples=["healthy"])
    C_HD: float = Field(
        ge=0,
        le=LARGEST,
        strict=True,
        description="taking the majority for a minority class",
    )
    C_DH: float = Field(
        ge=0,
        le=LARGEST,
        strict=True,
        description="taking a minority class for the majority",
    )
    C_DD: float | None = Field(
        default=None,
        ge=0,
        le=LARGEST,
        strict=True,
        description="taking one minority class for another",
    )


def _kind_of_costs(value: Any) -> str:
    """The kind of costs that errors are about."""
    by_class = isinstance(value, Costs) or not isinstance(value, dict)
    if by_class or not Costs.model_fields.keys().isdisjoint(value):
        return "Costs"
    return "CostsByAction"


_PLAIN = frozenset(
    {
        "model",
        "instances",
        "benefits",
        "cost_matrix",
        "actions",
        "rule",
        "record",
        "ids",
        "saved",
        "case_columns",
    }
)


class RuleFields(LimitedFields, QuantityFields, GuaranteedFields):
    """The rule that decides, the fields that it needs, and what is at stake."""

    benefits: NamedMatrices | None = Field(
        default=None,
        description="a row per actual class, a column per action; one matrix, or one per instance;"
        " or the name of a saved matrix",
        examples=[
            [[0, -1], [-10, 5]],
            {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
        ],
    )
    cost_matrix: Matrices | None = Field(default=None, description=COSTS)
    rule: RuleOfModel = "expected_benefit"
    threshold: (
        Literal["posterior", "holdout"] | Annotated[float, Field(strict=True)] | None
    ) = None
    costs: (
        Annotated[
            Annotated[Costs, Tag("Costs")]
            | Annotated[CostsByAction, Tag("CostsByAction")],
            Discriminator(_kind_of_costs),
        ]
        | None
    ) = Field(
        default=None,
        description="of beta_delta and hierarchical; or of expected_reward, by action: a number, or"
        " a column of the case",
        examples=[None],
    )
    baseline: Text | None = Field(
        default=None,
        description="with expected_reward: the action over which `uplift` is",
        examples=[None],
    )
    priors: ByClass | None = Field(
        default=None,
        description="class priors where the model is used, by class",
        examples=[{"healthy": 0.98, "ill": 0.02}],
    )
    explain: StrictBool = Field(
        default=False,
        description="say what would change each decision; in JSON answers",
    )

    explore: Annotated[float, Field(gt=0, le=0.5, strict=True)] | None = Field(
        default=None,
        description="the share of recorded decisions whose action is drawn at random;"
        " `propensities` has the chance of each action",
    )

    @cached_property
    def case_columns(self) -> frozenset[str]:
        """The columns that cells of the matrix, or costs of actions, name."""
        columns = columns_of_matrix(self.matrix)
        if not isinstance(self.costs, dict):
            return columns
        cells = self.costs.values()
        return columns | {cell.column for cell in cells if isinstance(cell, CaseCell)}

    @cached_property
    def is_plain(self) -> bool:
        """Whether one matrix alone decides all cases: nothing outside `_PLAIN` was sent."""
        return (
            self.rule == "expected_benefit"
            and self.model_fields_set <= _PLAIN
            and not self.case_columns
        )


class Answer(NamedTuple):
    """One decision per instance: `choice` int (n,) into `actions`, probabilities (n, K), expected
    benefits (n, A), and the priors (K,) that the request states.

    `matrix` is that by which these are expected, `matrix_in_words` what it says, for its first
    answer. `propensities` (n,) are those of the actions, where these were drawn. By `REWARD` the
    classes are the actions, the expected rewards (n, A) take the place of probabilities, and with a
    baseline `uplift` is (n, A); `chances` (n, A) are those of all actions.
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


def check_fields(fields: RuleFields, model: Loaded | None) -> None:
    """Refuse fields that the rule does not read, and a request without the fields that it needs.

    Without a `model` the request has probabilities. For a model of numbers, bands are the classes.
    """
    if not (fields.stated and fields.is_plain):
        reject(chain(_foreign(fields, model), _flaws(fields), _unguaranteed(fields)))


def _foreign(fields: RuleFields, model: Loaded | None) -> Iterator[Flaw]:
    """What only a model of numbers answers, or only one of classes."""
    classes = () if model is None else model.classes
    for name in fields.of_numbers:
        if name != "bands" or classes or model is None:
            yield Flaw(
                pointer(name),
                f"{name} is about numbers, and this is about classes; leave it out",
            )
    if fields.priors is not None and not classes:
        yield Flaw(
            "/priors",
            "priors correct the probabilities of a model, which knows the priors in training",
        )
    if fields.rule == "guaranteed" and not classes:
        yield Flaw(
            "/rule",
            "a guarantee is about a version of a model of classes; decide by another rule",
        )
    if fields.threshold == "holdout" and not classes:
        yield Flaw(
            "/threshold",
            "the threshold 'holdout' needs a model; use 'posterior' or a number",
        )


def _flaws(fields: RuleFields) -> Iterator[Flaw]:
    rule = fields.rule
    if rule == REWARD:
        yield Flaw("/rule", f"{rule} is the rule of models that learned from rewards")
        return
    if rule == "expected_benefit" and not fields.stated:
        yield Flaw(
            "/benefits",
            f'rule {rule} needs benefits; or ask for "rule": "most_probable"',
        )
    if not isinstance(fields.costs, Costs) and rule in _BELONGS["costs"]:
        yield Flaw("/costs", f"rule {rule} needs costs of classes")
    present = [
        name
        for name in _BELONGS
        if getattr(fields, name) is not None and getattr(fields, name) is not False
    ]
    for name in present:
        if rule not in _BELONGS[name]:
            place = "/benefits" if name == "actions" and fields.saved else pointer(name)
            yield Flaw(
                place,
                f"{name!r} belongs to the rule {' or '.join(_BELONGS[name])}, not to {rule}",
            )
    for name in ("explain", "explore"):
        if name in present and fields.limited:
            yield Flaw(
                pointer(name),
                f"with limits a decision depends on the whole batch; leave out {name}",
            )
    if fields.explore is not None and fields.explain:
        yield Flaw(
            "/explore",
            "actions that are drawn at random have no explanation; leave out explain or explore",
        )


def _unguaranteed(fields: RuleFields) -> Iterator[Flaw]:
    """What the rule `guaranteed` lacks, or cannot go with."""
    if fields.rule != "guaranteed":
        return
    if fields.guarantee is None:
        yield Flaw("/guarantee", "rule guaranteed needs the name of a saved guarantee")
    if fields.priors is not None:
        yield Flaw("/priors", PRIORS)


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
    if matrix is not None and matrix.is_named and rule not in _DECIDES_ACTIONS:
        named = some_of([str(name) for name in matrix.actions], _MAX_NAMES_SHOWN)
        message = f"rule {rule} decides among the classes, and the matrix has the actions {named}"
        raise Invalid.at(
            fields.place,
            f"{message}; leave out the matrix, or decide by the rule expected_benefit",
        )
    check_distinct(fields.actions or ())
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
    elif rule in _BELONGS["costs"]:
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
