"""`POST /acquire/simulate`: what asking feature by feature would have cost and earned."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from app.answering import simulate as usecase
from app.answering.simulate import SimulateRequest, Simulation
from app.api.bodies import with_matrix
from app.api.codecs.media_types import JSON
from app.api.dependencies import StoresDep
from app.api.errors import problems
from app.api.exchange import caller_of
from app.api.gate import PREDICT, needs
from app.api.limiters import limiters, loaded
from app.api.routing import StrictRoute
from app.registry.loaded import Loaded
from app.requests.datasets import EXAMPLE_ID
from app.requests.fields import ModelVersion
from app.requests.saved_matrices import with_saved
from app.stores import Stores

router = APIRouter(prefix="/acquire", tags=["acquire"], route_class=StrictRoute)


_EXAMPLE = {
    "model": "triage",
    "dataset": EXAMPLE_ID,
    "budgets": [1, 5],
    "benefits": [[0, -10], [-100, 50]],
}


@router.post(
    "/simulate",
    summary="What asking feature by feature would have cost and earned",
    response_model=Simulation,
    responses=problems(404, 409, 422, 503),
)
@needs(PREDICT)
async def simulate(
    body: Annotated[
        SimulateRequest,
        Body(openapi_examples={"the data set above": {"value": _EXAMPLE}}),
    ],
    request: Request,
    stores: StoresDep,
) -> Response:
    """Complete rows are fed feature by feature as `/acquire` asks, for each budget; missing values
    cost nothing.

    Send rows that the model was not trained on. The same on the hold-out of training is in the
    card, under `metrics.acquisition`.
    """
    model = await loaded(request, body.model)
    return await limiters(request).long.run(
        request, _answer, request, stores, body, model
    )


def _answer(
    request: Request, stores: Stores, body: SimulateRequest, model: Loaded
) -> Response:
    body = with_saved(stores, body, model.name, model.classes)
    answer = Simulation(
        model=ModelVersion(**model.named),
        **usecase.simulate(stores, model, body, caller_of(request)),
    )
    return with_matrix(
        Response(answer.model_dump_json(by_alias=True), media_type=JSON), body
    )
