"""Benefit matrices that are saved for a model. (The module's name has the routes come before a model's deletion.)"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Response
from pydantic import BaseModel, Field

from app.api.errors import problems
from app.api.guard import PREDICT_OR_TRAIN, TRAIN, needs
from app.api.routes.models import ModelName
from app.api.routing import CallerDep, PortsDep, StrictRoute, need_model
from app.registry.card import NAME
from app.registry.saved_matrices import Saved
from app.registry.snapshot import NUMBER
from app.usecases import saved_matrices as usecase
from app.usecases.matrices import MatrixFields

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute, dependencies=[Depends(need_model)])

MatrixName = Annotated[str, Path(pattern=f"^{NAME}$", examples=["autumn-2026"])]
MatrixReference = Annotated[
    str, Path(pattern=f"^{NAME}(:{NUMBER})?$", description="or `autumn-2026:1`", examples=["autumn-2026"])
]


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


class MatrixVersion(BaseModel):
    """A version of a matrix."""

    model: str
    matrix: str
    version: int
    benefits: dict[str, dict[str, float]] = Field(description="in words: `{class: {action: number}}`")
    actions: list[str] | None = Field(description="their order, where the matrix was saved with one")
    created_at: datetime
    who: str = Field(description="the name of the API key")


class MatrixDocument(MatrixVersion):
    """A version of a matrix, and which others there are."""

    versions: list[int]


def _fields(saved: Saved) -> dict[str, Any]:
    benefits, actions = saved.stated()
    return {**asdict(saved), "benefits": benefits, "actions": actions, "created_at": _time(saved)}


def _time(saved: Saved) -> datetime:
    return datetime.fromtimestamp(saved.created_at, UTC)


_EXAMPLE = {"benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}}


@router.put(
    "/{name}/matrices/{matrix}", summary="Save a benefit matrix under a name", responses=problems(404, 409, 413, 422)
)
@needs(TRAIN)
def save_matrix(
    name: ModelName,
    matrix: MatrixName,
    body: Annotated[MatrixFields, Body(openapi_examples={"two actions": {"value": _EXAMPLE}})],
    ports: PortsDep,
    caller: CallerDep,
) -> MatrixVersion:
    """`"benefits": "autumn-2026"` in a request to the model means its newest version, `"autumn-2026:2"` version 2,
    within a second in every process. Each other content is a new version; versions do not change.
    """
    return MatrixVersion(**_fields(usecase.save(ports, name, matrix, body, by=caller)))


@router.get("/{name}/matrices", summary="List a model's saved matrices by name", responses=problems(404, 422))
@needs(PREDICT_OR_TRAIN)
def list_matrices(name: ModelName, ports: PortsDep) -> MatrixList:
    lines = [
        MatrixLine(matrix=saved.matrix, version=saved.version, versions=count, created_at=_time(saved), who=saved.who)
        for saved, count in usecase.newest(ports, name)
    ]
    return MatrixList(model=name, matrices=lines)


@router.get("/{name}/matrices/{matrix}", summary="A version of a saved matrix", responses=problems(404, 422))
@needs(PREDICT_OR_TRAIN)
def get_matrix(name: ModelName, matrix: MatrixReference, ports: PortsDep) -> MatrixDocument:
    saved, versions = usecase.describe(ports, name, matrix)
    return MatrixDocument(**_fields(saved), versions=versions)


@router.delete(
    "/{name}/matrices/{matrix}",
    summary="Delete a saved matrix with all versions",
    status_code=204,
    response_class=Response,
    responses=problems(404, 422),
)
@needs(TRAIN)
def delete_matrix(name: ModelName, matrix: MatrixName, ports: PortsDep, caller: CallerDep) -> None:
    """Requests that name it are refused within a second. Its numbers are not used again."""
    usecase.delete(ports, name, matrix, by=caller)
