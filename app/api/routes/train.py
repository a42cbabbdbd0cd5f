"""Training jobs over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import Discriminator, Field, StrictBool, Tag, WithJsonSchema
from typing_extensions import TypeAliasType

from app.api.deps import CallerDep
from app.api.documentation.learner_schema import learner_schema
from app.api.errors import problems
from app.api.jobs import JobState, Order, accepted_response, ordering
from app.api.permits import TRAIN, needs
from app.api.routes.datasets import EXAMPLE_ID
from app.api.routing import StrictRoute
from app.usecases import train as usecase
from app.usecases.fields import ModelVersion, Name, Names, Text, WireModel
from app.usecases.matrices import MatrixFields
from app.usecases.specs import HOLDOUT, SEED

router = APIRouter(prefix="/train", tags=["train"], route_class=StrictRoute)

Cell = Annotated[Any, WithJsonSchema({"type": ["number", "string", "null"]})]
Label = Annotated[
    Any,
    WithJsonSchema({"oneOf": [{"type": ["number", "string"]}, {"type": "array", "items": {"type": "string"}}]}),
]
Learner = TypeAliasType("Learner", Annotated[dict[str, Any], WithJsonSchema(learner_schema())])  # one schema, by name


class StoredData(WireModel):
    """A data set that was uploaded before."""

    dataset: Text = Field(examples=[EXAMPLE_ID])


class InlineData(WireModel):
    """A small table sent along: kept as a data set like any other."""

    features: Names = Field(examples=[["age", "pain"]])
    rows: Annotated[list[list[Cell]], Field(fail_fast=True)] = Field(examples=[[[63, "mild"], [41, "none"]]])
    labels: Annotated[list[Label], Field(fail_fast=True)] = Field(
        description="one for each row: a class (word or integer) or a number; a list of labels for each row when"
        " multi-label"
    )


def _form(sent: Any) -> str:
    """Which of the two has more of the fields that were sent: errors are about that one."""
    names = sent.keys() if isinstance(sent, dict) else ()
    more = len(InlineData.model_fields.keys() & names) > len(StoredData.model_fields.keys() & names)
    return "InlineData" if more else "StoredData"


Data = Annotated[
    Annotated[StoredData, Tag("StoredData")] | Annotated[InlineData, Tag("InlineData")], Discriminator(_form)
]


class FeatureCost(WireModel):
    """What it costs to learn one feature's value."""

    feature: Text
    cost: float = Field(ge=0)
    group: Text | None = None
    discounted_cost: float | None = Field(default=None, ge=0, description="once another feature of the group is known")


FeatureCosts = Annotated[
    Any,
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
                {"type": "array", "items": FeatureCost.model_json_schema()},
                {"type": "null"},
            ]
        }
    ),
]


class TrainRequest(MatrixFields):
    """What to train, on which data, and how to evaluate it."""

    model: Name = Field(examples=["triage"])
    learner: Learner = Field(examples=[{"kind": "logistic"}])
    data: Data
    feature_costs: FeatureCosts = Field(default=None, description="what it costs to learn each feature's value")
    holdout: float = Field(
        default=HOLDOUT, ge=0, le=0.9, strict=True, description="part held out to evaluate the model; 0: none"
    )
    refit: StrictBool = Field(
        default=True,
        description="whether to fit again on all rows after the evaluation; false publishes the evaluated model",
    )
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)


class JobDocument(JobState):
    """A job that publishes a model, trained (`train`) or imported (`import`), as it stands."""

    model: ModelVersion | None = Field(description="what was published")
    metrics: dict[str, Any] | None = Field(description="on rows that the evaluated model did not see")
    warnings: list[str] | None = Field(
        description="what limits the model's answers, which repeat these sentences; and what is odd about the matrix"
    )

    @classmethod
    def outcome(cls, result: dict[str, Any] | None) -> dict[str, Any]:
        return {name: (result or {}).get(name) for name in ("model", "metrics", "warnings")}


EXAMPLE_KEY = "docs-example"
_EXAMPLE = {
    "model": "triage",
    "learner": {"kind": "random_forest", "calibration": "auto"},
    "data": {"dataset": EXAMPLE_ID},
    "benefits": [[0, -1], [-10, 5]],
    "feature_costs": {"age": 0, "pressure": 0.25, "pain": 0.5},
    "holdout": 0.25,
    "refit": True,
    "seed": 0,
}


@router.post(
    "",
    summary="Start a job that trains and publishes a model",
    status_code=202,
    response_model=JobDocument,
    responses={**accepted_response(JobDocument), **problems(404, 409, 413, 422)},
)
@needs(TRAIN)
async def train(
    body: Annotated[TrainRequest, Body(openapi_examples={"the data set above": {"value": _EXAMPLE}})],
    job_of: Annotated[Order, ordering(EXAMPLE_KEY)],
    caller: CallerDep,
) -> JobDocument:
    caller.need_model(body.model)
    order = dict(body) | {"data": dict(body.data), "matrix": body}
    return JobDocument.of(await job_of(usecase.submit, order))
