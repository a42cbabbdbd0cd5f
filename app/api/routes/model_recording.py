"""Which models record their decisions by default. (The module's name has the route come before a model's deletion.)"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends
from pydantic import Field, StrictBool

from app.api.deps import CallerDep, PortsDep, need_model
from app.api.errors import problems
from app.api.permits import TRAIN, needs
from app.api.routes.models import ModelName
from app.api.routing import StrictRoute
from app.usecases import record as usecase
from app.usecases.fields import WireModel
from app.usecases.record import RecordingDocument

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute, dependencies=[Depends(need_model)])


class RecordingRequest(WireModel):
    """What is recorded of requests that do not say so themselves."""

    record: StrictBool = Field(description="whether decisions are recorded", examples=[True])
    instances: StrictBool = Field(default=False, description="whether what was sent of each instance is, too")


@router.put("/{name}/recording", summary="Record a model's decisions by default", responses=problems(404, 422))
@needs(TRAIN)
def set_recording(
    name: ModelName,
    body: Annotated[RecordingRequest, Body(openapi_examples={"decisions alone": {"value": {"record": True}}})],
    ports: PortsDep,
    caller: CallerDep,
) -> RecordingDocument:
    """For all its versions, within a second in every process; `"record": false` in a request leaves it out."""
    default = body.instances if body.record else None
    usecase.set_default(ports, name, default, by=caller)
    return RecordingDocument.of(default)
