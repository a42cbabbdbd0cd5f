"""Training jobs over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import Field

from app.api.gate import TRAIN, needs
from app.api.jobs import JobState, Order, ordering, starting
from app.api.routing import StrictRoute
from app.requests.datasets import EXAMPLE_ID
from app.requests.fields import ModelVersion
from app.training import train as usecase
from app.training.train import TrainRequest

router = APIRouter(prefix="/train", tags=["train"], route_class=StrictRoute)


class JobDocument(JobState):
    """A job that publishes a model, trained (`train`) or imported (`import`), as it stands."""

    model: ModelVersion | None = Field(description="what was published")
    metrics: dict[str, Any] | None = Field(
        description="on rows that the evaluated model did not see"
    )
    warnings: list[str] | None = Field(
        description="what limits the model's answers, which repeat these sentences; and what is odd"
        " about the matrix"
    )

    @classmethod
    def outcome(cls, result: dict[str, Any] | None) -> dict[str, Any]:
        return {
            name: (result or {}).get(name) for name in ("model", "metrics", "warnings")
        }


EXAMPLE_KEY = "docs-example"
_EXAMPLE = {
    "model": "triage",
    "learner": {"kind": "random_forest", "calibration": "auto"},
    "data": {"dataset": EXAMPLE_ID},
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
    "feature_costs": {"age": 0, "pressure": 0.25, "pain": 0.5},
    "holdout": 0.25,
    "refit": False,
    "seed": 0,
}


@router.post(
    "",
    summary="Start a job that trains and publishes a model",
    **starting(JobDocument, 404, 409, 413, 422),
)
@needs(TRAIN)
async def train(
    body: Annotated[
        TrainRequest, Body(openapi_examples={"the data set above": {"value": _EXAMPLE}})
    ],
    job_of: Annotated[Order, ordering(EXAMPLE_KEY)],
) -> JobDocument:
    return JobDocument.of(await job_of(usecase.submit, body))
