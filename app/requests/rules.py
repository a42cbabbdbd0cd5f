"""The rule of a request to decide, and the fields that it needs."""

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, StrictInt, Tag

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
from app.requests.limits import LimitedFields
from app.requests.matrices import check_distinct, columns_of_matrix
from app.requests.quantities import QuantityFields
from app.requests.reasons import ReasonsFields
from payoff.decisions.benefit import LARGEST
from payoff.errors import Flaw, pointer, reject

Rule = Literal[
    "expected_benefit", "threshold", "beta_delta", "hierarchical", "most_probable"
]
RuleOfModel = Literal[Rule, "guaranteed", "expected_reward"]
# The rules that decide among the actions of a matrix; the other rules decide among the classes.
DECIDES_ACTIONS: tuple[RuleOfModel, ...] = (
    "expected_benefit",
    "threshold",
    "guaranteed",
)
# The rules that read a field: a request with another rule and this field is refused.
BELONGS: dict[str, tuple[RuleOfModel, ...]] = {
    "guarantee": ("guaranteed",),
    "threshold": ("threshold",),
    "costs": ("beta_delta", "hierarchical"),
    "actions": DECIDES_ACTIONS,
    "limits": ("expected_benefit",),
    "resources": ("expected_benefit",),
    "explain": ("expected_benefit",),
    "explore": ("expected_benefit",),
    "baseline": (EXPECTED_REWARD,),
}


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


def _kind_of_explain(value: Any) -> str:
    """The kind of field `explain` that errors are about."""
    return "ReasonsFields" if isinstance(value, dict | ReasonsFields) else "Boolean"


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
    explain: Annotated[
        Annotated[StrictBool, Tag("Boolean")]
        | Annotated[ReasonsFields, Tag("ReasonsFields")],
        Discriminator(_kind_of_explain),
    ] = Field(
        default=False,
        description="say what would change each decision; with an object also which features count"
        " most against an action; in JSON answers",
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


def check_fields(fields: RuleFields, model: Loaded | None) -> None:
    """Refuse fields that the rule does not read, and a request without the fields that it needs.

    Without a `model` the request has probabilities. For a model of numbers, bands are the classes.
    """
    if not (fields.stated and fields.is_plain):
        reject(chain(_foreign(fields, model), _flaws(fields), _unguaranteed(fields)))
        check_distinct(fields.actions or ())


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
    if isinstance(fields.explain, ReasonsFields) and not classes:
        yield Flaw(
            "/explain",
            "reasons are features of a model of classes; send true, or name such a model",
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
    if rule == EXPECTED_REWARD:
        yield Flaw("/rule", f"{rule} is the rule of models that learned from rewards")
        return
    if rule == "expected_benefit" and not fields.stated:
        yield Flaw(
            "/benefits",
            f'rule {rule} needs benefits; or ask for "rule": "most_probable"',
        )
    if not isinstance(fields.costs, Costs) and rule in BELONGS["costs"]:
        yield Flaw("/costs", f"rule {rule} needs costs of classes")
    present = [
        name
        for name in BELONGS
        if getattr(fields, name) is not None and getattr(fields, name) is not False
    ]
    for name in present:
        if rule not in BELONGS[name]:
            place = "/benefits" if name == "actions" and fields.saved else pointer(name)
            yield Flaw(
                place,
                f"{name!r} belongs to the rule {' or '.join(BELONGS[name])}, not to {rule}",
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
