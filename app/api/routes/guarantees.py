"""Guarantees that are certified and saved for a version of a model."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request, Response
from pydantic import BaseModel, Field

from app.answering import guarantees as usecase
from app.answering.benefit import certified_on, extent
from app.answering.guarantees import CertifiedRule, GuaranteeRequest
from app.answering.new_rows import evidence_for
from app.api.dependencies import CallerDep, StoresDep, only_own_models
from app.api.errors import problems
from app.api.exchange import caller_of, charge_of
from app.api.gate import PREDICT_OR_TRAIN, TRAIN, needs
from app.api.limiters import limiters, loaded_by_path
from app.api.routes.models import MatrixName, MatrixReference, ModelName, ModelReference
from app.api.routing import StrictRoute
from app.registry.loaded import Loaded
from app.requests.fields import CaseCell, ModelVersion
from app.requests.guarantees import GuaranteeFields
from app.requests.saved_matrices import delete, with_saved
from app.stores import Stores

router = APIRouter(
    prefix="/models",
    tags=["models"],
    route_class=StrictRoute,
    dependencies=[Depends(only_own_models)],
)


class GuaranteeDocument(CertifiedRule):
    """A version of a guarantee, and the version of the model that it is about."""

    name: str
    version: int
    versions: list[int] = Field(description="all of this name")
    model: ModelVersion
    benefits: dict[str, dict[str, float | CaseCell]]
    actions: list[str] | None
    guarantee: GuaranteeFields
    rows_in_words: str | None = Field(description="the rows on which it is certified")
    request: dict[str, str] = Field(description="the fields that ask `/predict` for it")
    created_at: datetime
    who: str = Field(description="the name of the API key")


class GuaranteeList(BaseModel):
    """The newest version of each guarantee of a model, by name."""

    model: str
    guarantees: list[GuaranteeDocument]


_EXAMPLE = {
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
    "guarantee": {
        "action": "treat",
        "otherwise": "wait",
        "wrong": ["healthy"],
        "at_most": 0.5,
        "confidence": 0.75,
    },
}


@router.put(
    "/{ref}/guarantees/{guarantee}",
    summary="Certify an action's risk, and save the guarantee",
    responses=problems(404, 409, 413, 422, 503),
)
@needs(TRAIN)
async def save_guarantee(
    ref: ModelReference,
    guarantee: MatrixName,
    body: Annotated[
        GuaranteeRequest,
        Body(openapi_examples={"few rows, so a low confidence": {"value": _EXAMPLE}}),
    ],
    request: Request,
) -> GuaranteeDocument:
    """With `"rule": "guaranteed", "guarantee": "careful"`, `/predict` takes the action of the
    matrix, but this one only from the cut on. A conflict where nothing is certified.

    The name means the newest guarantee for the version that decides. Recorded requests with it have
    no challengers.
    """
    model = await loaded_by_path(request, ref)
    return await limiters(request).long.run(
        request, _saved, request, model, guarantee, body
    )


def _saved(
    request: Request, model: Loaded, name: str, body: GuaranteeRequest
) -> GuaranteeDocument:
    stores: Stores = request.app.state.service.stores
    caller = caller_of(request)
    charge = charge_of(request)
    body = with_saved(stores, body, model.name, model.classes)
    rows = evidence_for(
        stores, model, body.dataset, body.guarantee, caller=caller, charge=charge
    )
    charge(extent(len(rows.y), len(rows.classes), body))
    result = certified_on(rows, body, body.guarantee)
    saved = usecase.save(stores, model, name, body, result, rows.in_words, by=caller)
    return get_guarantee(model.name, saved.reference, stores)


@router.get(
    "/{name}/guarantees",
    summary="List a model's guarantees by name",
    responses=problems(404, 422),
)
@needs(PREDICT_OR_TRAIN)
def list_guarantees(name: ModelName, stores: StoresDep) -> GuaranteeList:
    saved = [saved.name for saved, _ in stores.documents.newest(name, "guarantee")]
    documents = [get_guarantee(name, guarantee, stores) for guarantee in saved]
    return GuaranteeList(model=name, guarantees=documents)


@router.get(
    "/{name}/guarantees/{guarantee}",
    summary="A version of a guarantee",
    responses=problems(404, 422),
)
@needs(PREDICT_OR_TRAIN)
def get_guarantee(
    name: ModelName, guarantee: MatrixReference, stores: StoresDep
) -> GuaranteeDocument:
    saved, versions = stores.documents.describe(name, "guarantee", guarantee)
    document = saved.document
    return GuaranteeDocument(
        **document["result"],
        name=saved.name,
        version=saved.version,
        versions=versions,
        model=ModelVersion(name=name, version=document["of"]),
        benefits=document["benefits"],
        actions=document["actions"],
        guarantee=document["guarantee"],
        request={"rule": "guaranteed", "guarantee": saved.reference},
        created_at=saved.created_at,
        who=saved.who,
    )


@router.delete(
    "/{name}/guarantees/{guarantee}",
    summary="Delete a guarantee with all versions",
    status_code=204,
    response_class=Response,
    responses=problems(404, 422),
)
@needs(TRAIN)
def delete_guarantee(
    name: ModelName, guarantee: MatrixName, stores: StoresDep, caller: CallerDep
) -> None:
    """Requests that name it are refused within a second. Its numbers are not used again."""
    delete(stores, name, "guarantee", guarantee, by=caller)
