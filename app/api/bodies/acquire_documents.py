"""What `POST /acquire` is asked, and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel, WithJsonSchema

from app.api.bodies.recording import RecordField
from app.api.codecs.carried import CarriedFields, CarriedIds
from app.api.codecs.tables import TableFields
from app.usecases.feature_costs import FeatureCosts
from app.usecases.fields import ModelVersion, NamedMatrix, Names, Text
from app.usecases.matrices import MatrixFields

_KNOWN = {"type": "object", "additionalProperties": {"type": ["number", "string", "null"]}}
Budget = Annotated[Any, WithJsonSchema({"type": ["number", "null"], "minimum": 0})]

_TARGET = {
    "type": ["object", "null"],
    "properties": {"cost": {"type": "number", "minimum": 0}, "error": {"type": "number", "minimum": 0, "maximum": 1}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
Target = Annotated[Any, WithJsonSchema(_TARGET)]
TARGET = "in place of benefits: the mean cost of a case, or the error, at which to stop, as the model foresees it"


class AcquireQuestion(MatrixFields, CarriedFields, RecordField):
    """All of a request but its cases."""

    model: Text = Field(description="name, name:version or name@alias of a forest or tree", examples=["triage"])
    budget: Budget = Field(default=None, description="what each case may spend, with what it has spent already")
    unavailable: Names = Field(default=[], description="features that cannot be had")
    feature_costs: FeatureCosts = Field(
        default=None, description="prices that differ from those of training; 0 for what is there for nothing"
    )
    benefits: NamedMatrix | None = Field(
        default=None,
        description="a row per actual class, a column per action, in the currency of the prices; or the name of a saved"
        " matrix",
    )
    target: Target = Field(default=None, description=TARGET)


class AcquireTable(AcquireQuestion, TableFields):
    """The same, and how a table is to be read."""


class AcquireRequest(AcquireQuestion, CarriedIds):
    """All that is known so far, and what the rest may cost."""

    known: Annotated[Any, WithJsonSchema(_KNOWN)] = Field(
        default=None,
        description="values by feature name, in the order of their acquisition (of a group, the first has paid its"
        " full cost); null is a value that cannot be had",
    )
    instances: Annotated[Any, WithJsonSchema({"type": "array", "items": _KNOWN})] = Field(
        default=None, description="the same for many cases, in place of `known`"
    )


class Offer(BaseModel):
    """A feature, and what it costs now."""

    feature: str
    cost: float


class Wanted(Offer):
    """A feature that trees wait for, or the node of a tree."""

    waiting: int = Field(description="how many trees")


Reason = Literal["resolved", "vote_settled", "budget", "not_worth_it", "unavailable"]


class CaseState(BaseModel):
    """Where a case stands."""

    status: Literal["acquire", "decided"]
    reason: Reason | None = Field(description="why nothing more is asked for")
    next: Offer | None = Field(description="what to learn next")
    frontier: list[Wanted] = Field(description="all that trees wait for, best first, affordable or not")
    spent: float
    remaining: float | None = Field(description="of the budget")
    prediction: int | str | float = Field(
        description="from what is known: the class that most trees of a forest vote for (`/predict` decides by the"
        " calibrated probabilities, and may name another), or what the deepest node of a tree says, a class or a number"
    )
    probabilities: dict[str, float] | None = Field(description="of the classes; null where numbers are predicted")
    trees: int
    trees_resolved: int
    decision: int | str | None = Field(default=None, description="the best action now, or the likeliest class")
    expected_benefits: dict[str, float] | None = Field(default=None, description="with benefits: of each action")
    expected_gain: float | None = Field(
        default=None, description="with benefits: of asking on, before the price of `next`"
    )


class CaseAnswer(CaseState):
    """The answer to `known`."""

    model: ModelVersion
    ids: list[str | None] | None = Field(default=None, description="with `record`: null while more is asked for")
    warnings: list[str]


class BatchAnswer(BaseModel):
    """The answer to `instances`, in their order."""

    model: ModelVersion
    ids: list[int | float | str | None] | None = Field(
        default=None,
        description="with `ids`, `id` or `record`, in the order of the instances; null where more is asked for",
    )
    kept: dict[str, list[Any]] | None = Field(default=None, description="with `keep`: the columns that were named")
    results: list[CaseState]
    warnings: list[str]


class AcquireAnswer(RootModel[CaseAnswer | BatchAnswer]):
    """One case's state for `known`, `results` for `instances`."""
