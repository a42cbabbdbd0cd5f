"""Jobs that turn the scores of another system into a published model, over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, WithJsonSchema

from app.api.deps import CallerDep
from app.api.errors import problems
from app.api.jobs import Order, accepted_response, ordering
from app.api.permits import TRAIN, needs
from app.api.routes.train import JobDocument
from app.api.routing import StrictRoute
from app.errors import Invalid
from app.usecases import calibrate as usecase
from app.usecases.fields import PROBABILITIES, ClassNames, Name, Text, WireModel
from app.usecases.specs import HOLDOUT, SEED

router = APIRouter(prefix="/calibrate", tags=["models"], route_class=StrictRoute)

_SCORES = {"type": "array", "items": {"type": ["number", "array"], "items": {"type": "number"}}}

_BITS = BeforeValidator(
    lambda sent: [int(one) if isinstance(one, bool) else one for one in sent] if isinstance(sent, list) else sent
)  # as of a boolean column of labels


class CalibrateRequest(WireModel):
    """Scores, or probabilities, with the true classes of their rows."""

    model: Name = Field(description="what to publish", examples=["assistant"])
    scores: Annotated[Any, WithJsonSchema(_SCORES)] = Field(
        default=None,
        description="log-odds, ratings or other numbers: of two classes one for each row, the greater the more probable"
        " the second class; or a row with a number for each of `classes`",
    )
    probabilities: Annotated[Any, WithJsonSchema(PROBABILITIES)] = Field(
        default=None, description="in place of scores: a row per instance, a column for each of `classes`"
    )
    classes: Annotated[ClassNames, Field(min_length=2), _BITS] = Field(description="false is 0, true is 1")
    labels: Annotated[list[StrictInt | Text], Field(fail_fast=True), _BITS] = Field(
        description="the true class of each row"
    )
    method: Literal["auto", "sigmoid", "isotonic"] = Field(
        default="auto", description="auto chooses by the log loss on rows that were left out"
    )
    normalize: StrictBool = Field(default=False, description="with `probabilities`: divide each row by its sum")
    holdout: float = Field(default=HOLDOUT, ge=0, le=0.9, strict=True, description="part held out to evaluate; 0: none")
    refit: StrictBool = Field(default=True, description="whether to calibrate again on all rows after the evaluation")
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)

    def order(self) -> dict[str, Any]:
        """The order; Invalid unless it has either scores or probabilities."""
        if (self.scores is None) == (self.probabilities is None):
            place = "/scores" if self.scores is None else "/probabilities"
            raise Invalid.at(place, "send either 'scores' or 'probabilities'")
        if self.normalize and self.probabilities is None:
            raise Invalid.at("/normalize", "this goes with 'probabilities'")
        return dict(self)


EXAMPLE_KEY = "docs-calibration"
_EXAMPLE = {
    "model": "assistant",
    "scores": [-2.1, -1.4, -0.3, 0.2, -0.6, 0.4, 1.1, 2.7],
    "classes": ["spam", "genuine"],
    "labels": ["spam", "spam", "spam", "spam", "genuine", "genuine", "genuine", "genuine"],
}


@router.post(
    "",
    summary="Start a job that calibrates the scores of another system and publishes them as a model",
    status_code=202,
    response_model=JobDocument,
    responses={**accepted_response(JobDocument), **problems(409, 413, 422)},
)
@needs(TRAIN)
async def calibrate(
    body: Annotated[CalibrateRequest, Body(openapi_examples={"eight scores": {"value": _EXAMPLE}})],
    job_of: Annotated[Order, ordering(EXAMPLE_KEY)],
    caller: CallerDep,
) -> JobDocument:
    """The model's feature is `score`, or one for each class, by its name; its classes keep the order of the request."""
    caller.need_model(body.model)
    return JobDocument.of(await job_of(usecase.submit, body.order()))
