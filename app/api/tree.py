"""`GET /models/{name}/versions/{version}/tree`: what a tree of classifiers asks for, path by path."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from app.api.charts import media
from app.api.charts.tree import tree_chart
from app.api.deps import need_model
from app.api.deps import ports as ports_of
from app.api.errors import problems
from app.api.models import ModelName, VersionNumber
from app.api.wire import ModelVersion, StrictRoute
from app.usecases import tree as usecase

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute, dependencies=[Depends(need_model)])


class NodeDocument(BaseModel):
    """A node; a case whose score is above `threshold` goes to node `upper`, another to `lower`."""

    asks: list[str] = Field(description="features that no node above asks for, cheapest first")
    cost: float = Field(description="of all that the path has asked for so far, at the prices of training")
    threshold: float
    upper: int | None = Field(description="position of the node among the nodes; null: the case ends here")
    lower: int | None = Field(description="position of the node among the nodes; null: the case ends here")


class TreeDocument(BaseModel):
    """The nodes of a tree, the root first."""

    model: ModelVersion
    nodes: list[NodeDocument]


@router.get(
    "/{name}/versions/{version}/tree",
    summary="What a tree of classifiers asks for, and what each path costs",
    response_model=TreeDocument,
    responses={200: {"content": media.SVG_CONTENT}, **problems(404, 409, 422)},
)
def tree(name: ModelName, version: VersionNumber, request: Request, response: Response) -> TreeDocument | Response:
    """For models of kind `cost_tree`. With `Accept: image/svg+xml` the answer is a drawing."""
    model, stops = usecase.outlined(ports_of(request), name, version)
    response.headers["Vary"] = "Accept"
    names = model.schema.names
    if media.wants_svg(request):
        return media.svg(tree_chart(f"{name}:{version}", names, stops))
    nodes = [
        NodeDocument(
            asks=[names[j] for j in stop.asks],
            cost=stop.cost,
            threshold=stop.threshold,
            upper=None if stop.upper < 0 else stop.upper,
            lower=None if stop.lower < 0 else stop.lower,
        )
        for stop in stops
    ]
    return TreeDocument(model=ModelVersion(**model.model), nodes=nodes)
