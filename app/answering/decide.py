"""What each rule decides, by probabilities and what the caller says is at stake."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, StrictBool, StrictInt

from app.answering.explain import explanations
from app.errors import Conflict
from app.registry.loaded import Loaded
from app.requests.fields import COSTS, ByClass, Matrices, NamedMatrices, Text, WireModel
from app.requests.limits import LimitedFields, decide_within_limits
from app.requests.matrices import MatrixFields, check_distinct
from app.requests.quantities import QuantityFields
from app.tables.text import some_of
from payoff.decisions.benefit import LARGEST, Prepared
from payoff.decisions.priors import under_priors
from payoff.decisions.rules import ByCosts, beta_delta, hierarchical
from payoff.decisions.threshold import (
    Cut,
    HoldoutScores,
    decide_by_threshold,
    given_cut,
    posterior_threshold,
)
from payoff.errors import Flaw, Invalid, below, pointer, reject

Rule = Literal["expected_benefit", "threshold", "beta_delta", "hierarchical", "most_probable"]
_DECIDES_ACTIONS: tuple[Rule, ...] = (
    "expected_benefit",
    "threshold",
)  # the other rules decide among the classes
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
    C_HD: float = Field(
        ge=0, le=LARGEST, strict=True, description="taking the majority for a minority class"
    )
    C_DH: float = Field(
        ge=0, le=LARGEST, strict=True, description="taking a minority class for the majority"
    )
    C_DD: float | None = Field(
        default=None,
        ge=0,
        le=LARGEST,
        strict=True,
        description="taking one minority class for another",
    )


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


class RuleFields(LimitedFields, QuantityFields, MatrixFields):
    """By what is to be decided: a rule with what it needs, and what is at stake."""

    benefits: NamedMatrices | None = Field(
        default=None,
        description="a row per actual class, a column per action; one matrix, or one per instance; or the name of a"
        " saved matrix",
        examples=[
            [[0, -1], [-10, 5]],
            {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
        ],
    )
    cost_matrix: Matrices | None = Field(default=None, description=COSTS)
    rule: Rule = "expected_benefit"
    threshold: Literal["posterior", "holdout"] | Annotated[float, Field(strict=True)] | None = None
    costs: Costs | None = None
    priors: ByClass | None = Field(
        default=None,
        description="class priors where the model is used, by class",
        examples=[{"healthy": 0.98, "ill": 0.02}],
    )
    explain: StrictBool = Field(
        default=False, description="say what would change each decision; in JSON answers"
    )

    explore: Annotated[float, Field(gt=0, le=0.5, strict=True)] | None = Field(
        default=None,
        description="the share of recorded decisions whose action is drawn at random; `propensities` has the chance of"
        " each action",
    )

    @cached_property
    def is_plain(self) -> bool:
        """Whether the matrix alone decides, one for all cases: nothing outside `_PLAIN` was sent."""
        return (
            self.rule == "expected_benefit"
            and self.model_fields_set <= _PLAIN
            and not self.case_columns
        )


class Answer(NamedTuple):
    """One decision per instance: `choice` int (n,) into `actions`, probabilities (n, K), expected benefits (n, A), and
    the priors (K,) that the request states.

    `matrix` is that by which these are expected, `matrix_in_words` what it says, for its first answer.
    `propensities` (n,) are those of the actions, where these were drawn.
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
    matrix_in_words: Sequence[str] = ()


def check_fields(asked: RuleFields, model: Loaded | None) -> None:
    """Refuse what the rule would pass over, and a request without what it needs: silence would be a guess. Without a
    `model` probabilities came with the request; one of numbers makes bands the classes.
    """
    if not (asked.stated and asked.is_plain):
        reject(chain(_foreign(asked, model), _flaws(asked)))


def _foreign(asked: RuleFields, model: Loaded | None) -> Iterator[Flaw]:
    """What only a model of numbers answers, or only one of classes."""
    classes = () if model is None else model.classes
    for name in asked.of_numbers:
        if name != "bands" or classes or model is None:
            yield Flaw(
                pointer(name), f"{name} is about numbers, and this is about classes; leave it out"
            )
    if asked.priors is not None and not classes:
        yield Flaw(
            "/priors",
            "priors correct the probabilities of a model, which knows the priors in training",
        )
    if asked.threshold == "holdout" and not classes:
        yield Flaw(
            "/threshold", "the threshold 'holdout' needs a model; use 'posterior' or a number"
        )


def _flaws(asked: RuleFields) -> Iterator[Flaw]:
    rule = asked.rule
    if rule == "expected_benefit" and not asked.stated:
        yield Flaw("/benefits", f'rule {rule} needs benefits; or ask for "rule": "most_probable"')
    if asked.costs is None and rule in _BELONGS["costs"]:
        yield Flaw("/costs", f"rule {rule} needs costs")
    sent = [
        name
        for name in _BELONGS
        if getattr(asked, name) is not None and getattr(asked, name) is not False
    ]
    for name in sent:
        if rule not in _BELONGS[name]:
            place = "/benefits" if name == "actions" and asked.saved else pointer(name)
            yield Flaw(
                place, f"{name!r} belongs to the rule {' or '.join(_BELONGS[name])}, not to {rule}"
            )
    for name in ("explain", "explore"):
        if name in sent and asked.limited:
            yield Flaw(
                pointer(name),
                f"with limits a decision depends on the whole batch; leave out {name}",
            )
    if asked.explore is not None and asked.explain:
        yield Flaw(
            "/explore",
            "actions that are drawn at random have no explanation; leave out explain or explore",
        )


def decide_by(
    asked: RuleFields,
    classes: Sequence[int | str],
    scores: np.ndarray,
    warnings: Sequence[str],
    matrix: Prepared | None,
    model: Loaded | None = None,
) -> Answer:
    """The decisions for probabilities (n, K) of a model, or of no model, by the matrix that the fields state, and the
    warnings so far. O(n K A).

    Raises Invalid with the place in the request where what is asked fits neither the rule nor the classes.
    """
    P, priors, notes, rule = scores, None, list[str](), asked.rule
    if asked.priors is not None and model is not None:
        priors, P, notes = under_priors(scores, classes, model.priors, asked.priors)
    if matrix is not None and matrix.is_named and rule not in _DECIDES_ACTIONS:
        named = some_of([str(name) for name in matrix.actions], _SHOWN)
        what = f"rule {rule} decides among the classes, and the matrix has the actions {named}"
        raise Invalid.at(
            asked.place, f"{what}; leave out the matrix, or decide by the rule expected_benefit"
        )
    check_distinct(asked.actions or ())
    actions = matrix.actions if matrix is not None else asked.actions or classes
    decision = None if matrix is None else matrix.decide(P)
    figures: Mapping[str, Any] = {}
    explained, more = None, list[str]()
    if rule == "threshold":
        cut, of = _cut(asked, scores, P, priors, matrix, actions, model)
        choice, figures, more = (
            decide_by_threshold(of[:, 1], cut),
            {"threshold": cut.value},
            [*cut.warnings],
        )
    elif rule in _BELONGS["costs"]:
        choice, figures, more = _by_costs(asked, classes, P)
    elif rule == "most_probable" or matrix is None or decision is None:
        choice = P.argmax(axis=1)
    else:
        choice, more = decision.choice, matrix.warnings
        if asked.limited:
            choice, figures = decide_within_limits(asked, P, matrix.benefits, decision, actions)
        if asked.explain:
            explained = explanations(P, matrix.benefits, decision, classes, actions)
    expected = None if decision is None else decision.expected_benefits
    told = [*warnings, *notes, *more]
    return Answer(
        rule, classes, actions, choice, P, expected, told, figures, explained, priors, matrix
    )


def sorted_holdout(model: Loaded) -> HoldoutScores:
    """A binary model's hold-out, sorted (use `Loaded.once`); Conflict at /threshold where it has none."""
    if model.holdout is None:
        raise Conflict.at(
            "/threshold",
            "this version has no hold-out; use 'posterior' or a number, or train it with a 'holdout'",
        )
    with below("/threshold"):
        return HoldoutScores(model.holdout.scores[:, 1], model.holdout.y)


def _cut(
    asked: RuleFields, scores: np.ndarray, P: np.ndarray, priors: np.ndarray | None, matrix: Prepared | None,
    actions: Sequence[int | str], model: Loaded | None,
) -> tuple[Cut, np.ndarray]:  # fmt: skip
    """The cut of the second class's probability, and the probabilities (n, 2) that it is for: of the hold-out it is one
    on the model's own scores, priors or not.
    """
    if P.shape[1] != 2 or len(actions) != 2:
        raise Invalid.at(
            "/rule", "a threshold needs two classes and two actions; use expected_benefit"
        )
    wanted, B = (
        asked.threshold,
        None if matrix is None or matrix.benefits.ndim > 2 else matrix.benefits,
    )
    if isinstance(wanted, int | float):
        return given_cut(float(wanted), B, actions), P
    if B is None:
        needed = "this threshold comes from one benefit matrix for all; send it, or a number as threshold"
        raise Invalid.at(asked.place, f"{needed}; expected_benefit decides each case by its own")
    if wanted == "holdout" and model is not None:
        return model.once(sorted_holdout).best(B, priors, actions)[0], scores
    return posterior_threshold(B, actions), P


def _by_costs(asked: RuleFields, classes: Sequence[int | str], P: np.ndarray) -> ByCosts:
    costs, names = asked.costs, [str(name) for name in classes]
    assert costs is not None
    if str(costs.majority) not in names or len(names) < 2:
        raise Invalid.at(
            "/costs/majority", f"majority is one of two classes or more: {', '.join(names)}"
        )
    majority = names.index(str(costs.majority))
    if asked.rule == "hierarchical":
        return hierarchical(P, majority, costs.C_HD, costs.C_DH)
    if costs.C_DD is None:
        raise Invalid.at(
            "/costs/C_DD",
            "beta_delta needs C_DD, the cost of taking one minority class for another",
        )
    return beta_delta(P, majority, costs.C_DD, costs.C_HD, costs.C_DH)
