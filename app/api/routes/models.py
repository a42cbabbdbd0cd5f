"""Published models, and the benefit matrices that are saved for them, over HTTP.

The routes stand in an order in which each can be tried after the one before: alias, version, model.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Response
from pydantic import BaseModel, Field

from app.api.codecs.media_types import BINARY, JSON
from app.api.dependencies import (
    CallerDep,
    PageSize,
    PageToken,
    StoresDep,
    only_own_models,
)
from app.api.errors import problems
from app.api.gate import PREDICT_OR_TRAIN, TRAIN, needs
from app.api.routing import StrictRoute
from app.registry.card import NAME, Card
from app.registry.index import ModelLine, Move, VersionLine
from app.registry.snapshot import NUMBER
from app.requests import saved_matrices
from app.requests.fields import CaseCell, Text, WireModel
from app.requests.matrices import MatrixFields
from app.training import models as usecase

router = APIRouter(
    prefix="/models",
    tags=["models"],
    route_class=StrictRoute,
    dependencies=[Depends(only_own_models)],
)

# The options of a route whose answer has no body and no media type.
_NO_CONTENT: dict[str, Any] = {"status_code": 204, "response_class": Response}
_REFERENCE_SIGNS = frozenset(":@")
_MAX_VERSION = 2**31 - 1  # of the columns of the index

ModelName = Annotated[str, Path(pattern=f"^{NAME}$", examples=["triage"])]
ModelReference = Annotated[
    str,
    Path(
        pattern=f"^{NAME}(:{NUMBER}|@{NAME})?$",
        description="or `name:3`, `name@alias`",
        examples=["triage"],
    ),
]
AliasName = Annotated[str, Path(pattern=f"^{NAME}$", examples=["champion"])]
VersionNumber = Annotated[int, Path(ge=1, le=_MAX_VERSION, examples=[1])]
MatrixName = Annotated[str, Path(pattern=f"^{NAME}$", examples=["autumn-2026"])]
MatrixReference = Annotated[
    str,
    Path(
        pattern=f"^{NAME}(:{NUMBER})?$",
        description="or `autumn-2026:1`",
        examples=["autumn-2026"],
    ),
]


class ModelList(BaseModel):
    """A page of models, by name."""

    models: list[ModelLine]
    next_page_token: str | None


class ModelDocument(BaseModel):
    """All about a model; versions newest first, alias history oldest first."""

    name: str
    latest: int | None
    versions: list[VersionLine]
    aliases: dict[str, int]
    shadows: dict[str, list[str]] = Field(
        description="by alias: versions that decide in the background"
    )
    alias_history: list[Move]


class AliasTarget(WireModel):
    """Where an alias shall point."""

    version: int = Field(ge=1, le=_MAX_VERSION, strict=True, examples=[1])
    shadow: list[Text] | None = Field(
        default=None,
        description="versions, such as `triage:2`, that decide on recorded requests to the alias in"
        " the background; the report compares them. Left out, they stay as they are, but for one"
        " that the alias means now",
    )


class AliasDocument(BaseModel):
    """Where an alias points."""

    name: str
    alias: str
    version: int
    shadow: list[str]
    warnings: list[str]


class MatrixLine(BaseModel):
    """The newest version of a matrix."""

    matrix: str
    version: int
    versions: int = Field(description="how many there are")
    created_at: datetime
    who: str = Field(description="the name of the API key")


class MatrixList(BaseModel):
    """The matrices of a model, by name."""

    model: str
    matrices: list[MatrixLine]


class MatrixDocument(BaseModel):
    """A version of a matrix, and which others there are."""

    model: str
    matrix: str
    version: int
    benefits: dict[str, dict[str, float | CaseCell]] = Field(
        description="in words: `{class: {action: number}}`"
    )
    actions: list[str] | None = Field(
        description="their order, where the matrix was saved with one"
    )
    created_at: datetime
    who: str = Field(description="the name of the API key")
    versions: list[int]


_MATRIX = {
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
}


@router.get("", summary="List models by name", responses=problems(422))
@needs(PREDICT_OR_TRAIN)
def list_models(
    stores: StoresDep,
    caller: CallerDep,
    page_size: PageSize = 50,
    page_token: PageToken = None,
) -> ModelList:
    lines, token = usecase.page(
        stores, caller, page_size=page_size, page_token=page_token
    )
    return ModelList(models=lines, next_page_token=token)


@router.put(
    "/{name}/aliases/{alias}",
    summary="Point an alias at a version",
    responses=problems(404, 422),
)
@needs(TRAIN)
def set_alias(
    name: ModelName,
    alias: AliasName,
    body: Annotated[
        AliasTarget,
        Body(openapi_examples={"the first version": {"value": {"version": 1}}}),
    ],
    stores: StoresDep,
    caller: CallerDep,
) -> AliasDocument:
    """`name@alias` means that version here at once, and in other processes when they have loaded
    it, mostly within a second. The history keeps who changed it and when.
    """
    promoted = usecase.set_alias(
        stores, name, alias, body.version, body.shadow, by=caller
    )
    warnings = [
        f"{version} is what the alias means now, and no challenger any more"
        for version in promoted
    ]
    shadow = stores.shadows.read(name).get(alias, [])
    return AliasDocument(
        name=name, alias=alias, version=body.version, shadow=shadow, warnings=warnings
    )


@router.delete(
    "/{name}/aliases/{alias}",
    summary="Delete an alias",
    **_NO_CONTENT,
    responses=problems(404, 422),
)
@needs(TRAIN)
def delete_alias(
    name: ModelName, alias: AliasName, stores: StoresDep, caller: CallerDep
) -> None:
    usecase.delete_alias(stores, name, alias, by=caller)


@router.get(
    "/{name}/versions/{version}",
    summary="The card of a version",
    response_model=Card,
    responses=problems(404, 422),
)
@needs(PREDICT_OR_TRAIN)
def get_version(name: ModelName, version: VersionNumber, stores: StoresDep) -> Response:
    """How it was made, from what, how good it is, and the digests of its files.

    `fitted` of a `cost_tree` has what each node asks for, and what each path costs; of a
    `forest_chain` the order of its features, price and error of each step, and the share of cases
    that stops there.
    """
    return Response(
        stores.registry.index.card(name, version).model_dump_json(by_alias=True),
        media_type=JSON,
    )


@router.get(
    "/{name}/versions/{version}/artifact",
    summary="Download the estimator as a joblib file",
    response_class=Response,
    responses={
        200: {
            "description": "The file, whose digest was verified before. Loading a joblib file runs"
            " the code it names",
            "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
            "headers": {
                "ETag": {"description": "its SHA-256", "schema": {"type": "string"}}
            },
        },
        **problems(404, 409, 422),
    },
)
@needs(TRAIN)
def get_artifact(
    name: ModelName, version: VersionNumber, stores: StoresDep
) -> Response:
    """The joblib file, as the service loads it."""
    card, content = stores.registry.artifact(name, version)
    headers = {
        "ETag": f'"{card.sha256["model.joblib"]}"',
        "Content-Disposition": f'attachment; filename="{name}-{version}.joblib"',
    }
    return Response(content, media_type=BINARY, headers=headers)


@router.put(
    "/{name}/matrices/{matrix}",
    summary="Save a benefit matrix under a name",
    responses=problems(404, 409, 413, 422),
)
@needs(TRAIN)
def save_matrix(
    name: ModelName,
    matrix: MatrixName,
    body: Annotated[
        MatrixFields, Body(openapi_examples={"two actions": {"value": _MATRIX}})
    ],
    stores: StoresDep,
    caller: CallerDep,
) -> MatrixDocument:
    """`"benefits": "autumn-2026"` in a request to the model means its newest version,
    `"autumn-2026:2"` version 2, within a second in every process. Each other content is a new
    version; versions do not change.
    """
    return get_matrix(
        name,
        saved_matrices.save(stores, name, matrix, body, by=caller).reference,
        stores,
    )


@router.get(
    "/{name}/matrices",
    summary="List a model's saved matrices by name",
    responses=problems(404, 422),
)
@needs(PREDICT_OR_TRAIN)
def list_matrices(name: ModelName, stores: StoresDep) -> MatrixList:
    lines = [
        {**asdict(saved), "matrix": saved.name, "versions": count}
        for saved, count in stores.documents.newest(name, "matrix")
    ]
    return MatrixList.model_validate({"model": name, "matrices": lines})


@router.get(
    "/{name}/matrices/{matrix}",
    summary="A version of a saved matrix",
    responses=problems(404, 422),
)
@needs(PREDICT_OR_TRAIN)
def get_matrix(
    name: ModelName, matrix: MatrixReference, stores: StoresDep
) -> MatrixDocument:
    saved, versions = stores.documents.describe(name, "matrix", matrix)
    benefits, actions = saved.document
    return MatrixDocument(
        **asdict(saved),
        matrix=saved.name,
        benefits=benefits,
        actions=actions,
        versions=versions,
    )


@router.delete(
    "/{name}/matrices/{matrix}",
    summary="Delete a saved matrix with all versions",
    **_NO_CONTENT,
    responses=problems(404, 422),
)
@needs(TRAIN)
def delete_matrix(
    name: ModelName, matrix: MatrixName, stores: StoresDep, caller: CallerDep
) -> None:
    """Requests that name it are refused within a second. Its numbers are not used again."""
    saved_matrices.delete(stores, name, "matrix", matrix, by=caller)


@router.delete(
    "/{name}/versions/{version}",
    summary="Delete a version",
    **_NO_CONTENT,
    responses=problems(404, 409, 422),
)
@needs(TRAIN)
def delete_version(
    name: ModelName, version: VersionNumber, stores: StoresDep, caller: CallerDep
) -> None:
    """A conflict while an alias points at it. Its number is not used again; the model stays, even
    without versions.
    """
    usecase.delete_version(stores, name, version, by=caller)


@router.get(
    "/{name}",
    summary="Versions, aliases and alias history of a model, or the card of a version",
    response_model=ModelDocument | Card,
    responses=problems(404, 422),
)
@needs(PREDICT_OR_TRAIN)
def get_model(name: ModelReference, stores: StoresDep) -> ModelDocument | Response:
    """`name` is described; `name:3` and `name@alias` are answered with the card of the version that
    they mean.
    """
    if _REFERENCE_SIGNS.isdisjoint(name):
        page = stores.registry.index.model(name)
        return ModelDocument.model_validate(
            {
                **vars(page),
                "latest": page.versions[0].version if page.versions else None,
                "shadows": stores.shadows.read(name),
                "alias_history": page.history,
            }
        )
    return Response(
        usecase.card_of(stores, name).model_dump_json(by_alias=True), media_type=JSON
    )


@router.delete(
    "/{name}", summary="Delete a model", **_NO_CONTENT, responses=problems(404, 422)
)
@needs(TRAIN)
def delete_model(name: ModelName, stores: StoresDep, caller: CallerDep) -> None:
    """With all its versions and aliases. Version numbers are not used again, and the alias history
    is kept.
    """
    usecase.delete(stores, name, by=caller)
