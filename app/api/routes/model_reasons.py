"""The texts of reasons that are saved for a model."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Response
from pydantic import BaseModel, Field

from app.api.dependencies import CallerDep, StoresDep, only_own_models
from app.api.errors import problems
from app.api.gate import PREDICT_OR_TRAIN, TRAIN, needs
from app.api.routes.models import ModelName
from app.api.routing import StrictRoute
from app.registry.saved_documents import REASONS
from app.requests import reasons as usecase
from app.requests.reasons import ReasonTexts
from app.requests.saved_matrices import delete

router = APIRouter(
    prefix="/models",
    tags=["models"],
    route_class=StrictRoute,
    dependencies=[Depends(only_own_models)],
)


class ReasonsDocument(BaseModel):
    """The newest version of the texts of reasons."""

    model: str
    version: int
    texts: ReasonTexts
    created_at: datetime
    who: str = Field(description="the name of the API key")


_EXAMPLE = {"age": {"high": "Age above that of most"}, "pain": {"any": "Kind of pain"}}


@router.put(
    "/{name}/reasons",
    summary="Save the texts of a model's reasons",
    responses=problems(404, 409, 413, 422),
)
@needs(TRAIN)
def save_reasons(
    name: ModelName,
    body: Annotated[
        ReasonTexts, Body(openapi_examples={"of two features": {"value": _EXAMPLE}})
    ],
    stores: StoresDep,
    caller: CallerDep,
) -> ReasonsDocument:
    """They stand in answers to `"explain": {"reasons": …}` within a second in every process. Each
    other content is a new version.
    """
    usecase.save(stores, name, body, by=caller)
    return get_reasons(name, stores)


@router.get(
    "/{name}/reasons",
    summary="The texts of a model's reasons",
    responses=problems(404, 422),
)
@needs(PREDICT_OR_TRAIN)
def get_reasons(name: ModelName, stores: StoresDep) -> ReasonsDocument:
    saved, _ = stores.documents.describe(name, REASONS, REASONS)
    return ReasonsDocument(
        model=name,
        version=saved.version,
        texts=saved.document,
        created_at=saved.created_at,
        who=saved.who,
    )


@router.delete(
    "/{name}/reasons",
    summary="Delete the texts of a model's reasons with all versions",
    status_code=204,
    response_class=Response,
    responses=problems(404, 422),
)
@needs(TRAIN)
def delete_reasons(name: ModelName, stores: StoresDep, caller: CallerDep) -> None:
    """Answers have reasons without texts within a second."""
    delete(stores, name, REASONS, REASONS, by=caller)
