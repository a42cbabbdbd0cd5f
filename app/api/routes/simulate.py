"""`POST /acquire/simulate`: what asking feature by feature would have cost and earned."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field, StrictFloat, StrictInt, StrictStr, WithJsonSchema, model_validator

from app.access.caller import Caller
from app.api.bodies.acquire_documents import TARGET, Target
from app.api.bodies.prediction_requests import INSTANCES
from app.api.codecs.media_types import JSON
from app.api.deps import PortsDep, loaded, naming, who, with_saved
from app.api.errors import problems
from app.api.limiters import limiters
from app.api.permits import PREDICT, needs
from app.api.routing import StrictRoute
from app.registry.loaded import Loaded
from app.usecases.datasets import EXAMPLE_ID
from app.usecases.feature_costs import FeatureCosts
from app.usecases.fields import ModelVersion, Text
from app.usecases.matrices import NamedMatrixFields
from app.usecases.ports import Ports
from app.usecases.saved_matrices import as_named
from app.usecases.stepwise_models import check_askable

router = APIRouter(prefix="/acquire", tags=["acquire"], route_class=StrictRoute)
_BUDGETS = {"oneOf": [{"type": "array", "items": {"type": "number", "minimum": 0}}, {"type": "null"}]}


class SimulateRequest(NamedMatrixFields):
    """Complete rows with their labels, and the budgets to try."""

    model: Text = Field(description="name, name:version or name@alias of a forest or tree", examples=["triage"])
    dataset: Text | None = Field(default=None, description="a data set with the model's features and classes")
    rows: Annotated[list[Any] | None, WithJsonSchema(INSTANCES)] = Field(default=None, description="or rows")
    labels: Annotated[list[StrictInt | StrictFloat | StrictStr], Field(fail_fast=True)] | None = Field(
        default=None, description="with a class, or a number, for each"
    )
    budgets: Annotated[list[Any] | None, Field(max_length=20), WithJsonSchema(_BUDGETS)] = Field(
        default=None, description="of each row; null: some shares of what the dearest row costs"
    )
    feature_costs: FeatureCosts = Field(default=None, description="prices that differ from those of training")
    target: Target = Field(default=None, description=TARGET)

    @model_validator(mode="after")
    def _one_source(self) -> SimulateRequest:
        if (self.dataset is None) == (self.rows is None) or (self.rows is None) != (self.labels is None):
            raise ValueError("send either dataset, or rows with labels")
        return self


class Outcome(BaseModel):
    """Means per row; of benefits only where some were sent."""

    cost: float
    questions: float
    error: float = Field(description="share of rows whose prediction is not their class, or mean squared error")
    benefit: float | None = Field(default=None, description="of the decisions, which the matrix makes")
    net_benefit: float | None = Field(default=None, description="less the cost")


class BudgetOutcomes(BaseModel):
    """The ways to ask within one budget."""

    budget: float | None = Field(description="null: none")
    plain: Outcome = Field(description="until every tree has its answer")
    vote_stopping: Outcome | None = Field(default=None, description="until a forest's vote can no longer change")
    worth_stopping: Outcome | None = Field(
        default=None, description="while more is worth its price; of forests, with benefits or a target"
    )


class Simulation(BaseModel):
    """What was simulated."""

    model: ModelVersion
    rows: int
    measure: Literal["error_rate", "mean_squared_error"] = Field(description="what `error` is")
    nothing: Outcome = Field(description="buying no feature")
    everything: Outcome = Field(description="buying every feature of the model")
    budgets: list[BudgetOutcomes]
    warnings: list[str]


_EXAMPLE = {"model": "triage", "dataset": EXAMPLE_ID, "budgets": [1, 5], "benefits": [[0, -10], [-100, 50]]}


@router.post(
    "/simulate",
    summary="What asking feature by feature would have cost and earned",
    response_model=Simulation,
    responses=problems(404, 409, 422, 503),
)
@needs(PREDICT)
async def simulate(
    body: Annotated[SimulateRequest, Body(openapi_examples={"the data set above": {"value": _EXAMPLE}})],
    request: Request,
    ports: PortsDep,
) -> Response:
    """Complete rows are fed feature by feature as `/acquire` asks, for each budget; missing values cost nothing.

    Send rows that the model was not trained on. The same on the hold-out of training is in the card, under
    `metrics.acquisition`.
    """
    return await limiters(request).long.run(_answer, request, ports, body, await loaded(request, body.model))


def _answer(request: Request, ports: Ports, body: SimulateRequest, model: Loaded) -> Response:
    check_askable(model)
    body, saved = with_saved(request, body, model)
    with as_named(saved):
        answer = _simulate(ports, body, model, who(request))
    return naming(Response(answer.model_dump_json(by_alias=True), media_type=JSON), saved)


def _simulate(ports: Ports, body: SimulateRequest, model: Loaded, caller: Caller) -> Simulation:
    from app.usecases import simulate as usecase  # noqa: PLC0415 - with its compiler it takes 60 MB that many can spare

    asked = usecase.SimulationRequest(**{name: value for name, value in body if name != "model"})
    found = usecase.simulate(ports, model, asked, caller)
    return Simulation(model=ModelVersion(**model.model), **found)
