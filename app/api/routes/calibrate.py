"""Jobs that turn the scores of another system into a published model, over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body

from app.api.gate import TRAIN, needs
from app.api.jobs import Order, ordering, starting
from app.api.routes.train import JobDocument
from app.api.routing import StrictRoute
from app.training import calibrate as usecase
from app.training.calibrate import CalibrateRequest

router = APIRouter(prefix="/calibrate", tags=["models"], route_class=StrictRoute)

_EXAMPLE = {
    "model": "assistant",
    "scores": [-2.1, -1.4, -0.3, 0.2, -0.6, 0.4, 1.1, 2.7],
    "classes": ["spam", "genuine"],
    "labels": [
        "spam",
        "spam",
        "spam",
        "spam",
        "genuine",
        "genuine",
        "genuine",
        "genuine",
    ],
}


@router.post(
    "",
    summary="Start a job that calibrates the scores of another system and publishes them as a"
    " model",
    **starting(JobDocument, 409, 413, 422),
)
@needs(TRAIN)
async def calibrate(
    body: Annotated[
        CalibrateRequest, Body(openapi_examples={"eight scores": {"value": _EXAMPLE}})
    ],
    job_of: Annotated[Order, ordering("docs-calibration")],
) -> JobDocument:
    """The model's feature is `score`, or one for each class, by its name; its classes keep the
    order of the request.
    """
    return JobDocument.of(await job_of(usecase.submit, body))
