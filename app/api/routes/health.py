"""Liveness, readiness and metrics."""

from collections.abc import Iterator
from typing import Literal

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from app.api.dependencies import StoresDep
from app.api.errors import problems
from app.api.gate import CHECK, METRICS, OPEN, needs
from app.api.limiters import limiters
from app.api.routing import StrictRoute
from app.api.service import Service
from app.errors import NotReady
from app.stores import Stores

router = APIRouter(tags=["service"], route_class=StrictRoute)


class Health(BaseModel):
    """A sign of life."""

    status: Literal["alive", "ready"]


@router.head("/health/live", include_in_schema=False)
@router.get("/health/live", summary="Is the process alive?")
@needs(OPEN)
async def live() -> Health:
    return Health(status="alive")


@router.head("/health/ready", include_in_schema=False)
@router.get("/health/ready", summary="Can it do its work?", responses=problems(503))
@needs(OPEN)
async def ready(request: Request, stores: StoresDep) -> Health:
    """Ready means that every route answers: models, aliases and keys are known, the database
    answers, all stores can be written, decisions can be recorded, the worker is alive, and the
    service is not about to stop. A service that is not ready goes on answering whatever it can.
    """
    await limiters(request).health.run(request, check_ready, request, stores)
    return Health(status="ready")


def check_ready(request: Request, stores: Stores) -> None:
    """Raise NotReady, with the reasons, where a part of the service does not answer."""
    service: Service = request.app.state.service
    preloader = stores.registry.preloader
    unloaded = (
        f"{len(preloader.awaited)} of the versions that aliases and names mean "
        "are not loaded yet"
    )
    checks = (
        ("the service is stopping", service.stopping.is_set()),
        ("models and aliases are not read yet", not stores.registry.ready),
        (unloaded, not preloader.complete),
        ("changes of keys and models are not read", stores.database.changes.late),
        ("decisions cannot be recorded", not stores.recorder.alive),
    )
    reasons = [text for text, is_wrong in checks if is_wrong]
    parts = (service.keyring, service.worker)
    obstacles = (part.obstacle for part in parts if part is not None)
    reasons += filter(
        None, (*obstacles, stores.database.obstacle(), *_unwritable(stores))
    )
    if reasons:
        raise NotReady("; ".join(reasons))


@router.get("/access", include_in_schema=False, status_code=204)
@needs(CHECK)
async def access() -> None:
    """Answer 204 if the key that was sent is valid, whatever its scopes: a proxy asks before it
    reads a long body.
    """


def _unwritable(stores: Stores) -> Iterator[str]:
    """The stores that cannot be written: training and uploads fail then; predictions go on."""
    storages = (
        ("models", stores.registry.storage),
        ("data sets", stores.datasets.storage),
    )
    for name, storage in storages:
        obstacle = storage.obstacle()
        if obstacle:
            yield f"{name} cannot be written: {obstacle}"


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@needs(METRICS)  # metrics name every model, and its benefits
async def metrics(request: Request) -> Response:
    content = await limiters(request).metrics.run(
        request, request.app.state.service.metrics.report
    )
    return Response(content, media_type=CONTENT_TYPE_LATEST)
