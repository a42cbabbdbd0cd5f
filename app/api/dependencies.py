"""What routes need of the application and of the request: stores, the caller and models."""

from typing import Annotated, Final, cast

from fastapi import Depends, Query, Request, Response

from app.access.caller import Caller
from app.api.limiters import limiters
from app.errors import NotFound
from app.registry.loaded import Loaded
from app.requests.matrices import MatrixFields
from app.stores import Stores

MATRIX_HEADER: Final = "payoff-matrix"  # of the answer


def stores_of(request: Request) -> Stores:
    """The stores."""
    return cast(Stores, request.app.state.stores)


async def _stores(request: Request) -> Stores:
    """The stores as a dependency: no thread is needed, of which there may be none left."""
    return cast(Stores, request.app.state.stores)


async def _caller(request: Request) -> Caller:
    """Who asks, as a dependency."""
    return caller_of(request)


def caller_of(request: Request) -> Caller:
    """Who asks, as the gate found out."""
    return cast(Caller, request.scope["state"]["caller"])


StoresDep = Annotated[Stores, Depends(_stores)]
CallerDep = Annotated[Caller, Depends(_caller)]
PageSize = Annotated[int, Query(ge=1, le=500)]
PageToken = Annotated[
    str | None, Query(max_length=200, description="`next_page_token` of the page before")
]


async def only_own_models(request: Request) -> None:
    """Forbidden where the path names a model that the key is not for."""
    named = request.path_params.get("name", request.path_params.get("ref"))
    if named is not None:
        caller_of(request).need_model(named)


async def loaded(request: Request, reference: str) -> Loaded:
    """The model, at once if it is in memory; Forbidden where the key is for others, NotFound at `/model`.

    A store that hangs holds the few threads that load, and none of those that answer.
    """
    caller_of(request).need_model(reference)
    registry = stores_of(request).registry
    model = registry.cache.get(reference)
    return await limiters(request).load.run(registry.load, reference) if model is None else model


async def loaded_by_path(request: Request, reference: str) -> Loaded:
    """The model that the path names: errors have no place in the body."""
    try:
        return await loaded(request, reference)
    except NotFound as error:
        raise NotFound(error.detail) from error


def with_matrix(response: Response, sent: MatrixFields) -> Response:
    """The answer, with the version of the saved matrix that was used."""
    if sent.saved is not None:
        response.headers[MATRIX_HEADER] = sent.saved
    return response
