"""What `POST /predict` is asked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, WithJsonSchema

from app.api.bodies.limits import LimitDocuments, ResourceDocuments, constraints
from app.api.bodies.recording import RecordField
from app.api.codecs.carried import CarriedFields, CarriedIds
from app.api.codecs.tables import TableFields
from app.usecases import predict as usecase
from app.usecases.fields import (
    COSTS,
    INSTANCES,
    PROBABILITIES,
    ByClass,
    ClassNames,
    Matrices,
    NamedMatrices,
    Names,
    Text,
    WireModel,
)

Priors = Literal["estimate"] | ByClass


class CostsDocument(WireModel):
    """Costs for the rules beta_delta and hierarchical: D are the minority classes, H is the majority."""

    majority: StrictInt | Text = Field(examples=["healthy"])
    C_HD: float = Field(ge=0, strict=True, description="taking the majority for a minority class")
    C_DH: float = Field(ge=0, strict=True, description="taking a minority class for the majority")
    C_DD: float | None = Field(default=None, ge=0, strict=True, description="taking one minority class for another")


class PredictQuestion(CarriedFields, RecordField):
    """All of a request but its instances or probabilities."""

    model: Text | None = Field(
        default=None, description="name, name:version or name@alias; or send `probabilities`", examples=["triage"]
    )
    classes: ClassNames | None = Field(default=None, description="with `probabilities`: the names of their columns")
    normalize: StrictBool = Field(
        default=False, description="with `probabilities`: divide each row by its sum, which need not be 1"
    )
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
    rule: usecase.Rule = "expected_benefit"
    threshold: Literal["posterior", "holdout"] | Annotated[float, Field(strict=True)] | None = None
    costs: CostsDocument | None = None
    priors: Priors | None = Field(
        default=None,
        description="class priors where the model is used, by class; `estimate`: estimated from the instances of this"
        " request",
        examples=[{"healthy": 0.98, "ill": 0.02}, "estimate"],
    )
    limits: LimitDocuments | None = Field(
        default=None,
        description="of the batch, by action: how many instances at most, or `at_least` and `at_most`",
        examples=[{"treat": 20, "inspect": {"at_least": 5, "at_most": 9}}],
    )
    resources: ResourceDocuments | None = Field(
        default=None, description="what the actions of the batch use together, and at most"
    )
    explain: StrictBool = Field(default=False, description="say what would change each decision; in JSON answers")

    explore: Annotated[float, Field(gt=0, le=0.5, strict=True)] | None = Field(
        default=None,
        description="the share of recorded decisions whose action is drawn at random; `propensities` has the chance of"
        " each action",
    )

    def question(self) -> usecase.Question:
        costs = usecase.Costs(**dict(self.costs)) if self.costs else None
        rule = self.rule if "rule" in self.model_fields_set else None
        limited = constraints(self.limits, self.resources)
        return usecase.Question(
            self.benefits,
            self.cost_matrix,
            self.actions,
            rule,
            self.threshold,
            costs,
            self.priors,
            self.explain,
            limited,
            explore=self.explore,
        )


class PredictTable(PredictQuestion, TableFields):
    """The same, and how a table is to be read."""


class PredictRequest(PredictQuestion, CarriedIds):
    """Instances of a model, or probabilities of classes, and what is at stake."""

    instances: Annotated[list[Any] | None, WithJsonSchema(INSTANCES)] = Field(
        default=None, description="rows in the model's feature order, or objects by feature name; null where missing"
    )
    probabilities: Annotated[Any, WithJsonSchema(PROBABILITIES)] = Field(
        default=None, description="in place of model and instances: a row per instance, a column for each of `classes`"
    )
