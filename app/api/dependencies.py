"""What routes need of the application and of the request: stores, the caller and models."""

from typing import Annotated, Final, cast

from fastapi import Depends, Query, Request, Response

from app.access.caller import Caller
from app.api.exchange import exchange_of
from app.api.limiters import limiters
from app.errors import NotFound
from app.registry.loaded import Loaded
from app.requests.matrices import MatrixFields
from app.stores import Stores

MATRIX_HEADER: Final = "payoff-matrix"  # of the answer


def stores_of(request: Request) -> Stores:
    """The stores of the application."""
    return cast(Stores, request.app.state.stores)


async def _stores(request: Request) -> Stores:
    """The stores as a dependency: `async`, so that it needs no thread, which may all be in use."""
    return stores_of(request)


async def _caller(request: Request) -> Caller:
    """The caller as a dependency."""
    return caller_of(request)


def caller_of(request: Request) -> Caller:
    """The caller of a request that the gate has admitted."""
    caller = exchange_of(request.scope).caller
    assert caller is not None, "the route is open to everybody"
    return caller


StoresDep = Annotated[Stores, Depends(_stores)]
CallerDep = Annotated[Caller, Depends(_caller)]
PageSize = Annotated[int, Query(ge=1, le=500)]
PageToken = Annotated[
    str | None,
    Query(max_length=200, description="`next_page_token` of the page before"),
]


async def only_own_models(request: Request) -> None:
    """Forbidden where the path names a model that the key is not for."""
    reference = request.path_params.get("name", request.path_params.get("ref"))
    if reference is not None:
        caller_of(request).need_model(reference)


async def loaded(request: Request, reference: str) -> Loaded:
    """The model, at once if it is in memory; Forbidden where the key is for other models, NotFound
    at `/model`.

    A store that hangs holds the few threads that load, and none of those that answer.
    """
    caller_of(request).need_model(reference)
    registry = stores_of(request).registry
    model = registry.cache.get(reference)
    if model is not None:
        return model
    return await limiters(request).load.run(registry.load, reference)


async def loaded_by_path(request: Request, reference: str) -> Loaded:
    """The model of a reference in the path: its errors have no place in the body."""
    try:
        return await loaded(request, reference)
    except NotFound as error:
        raise NotFound(error.detail) from error


def with_matrix(response: Response, fields: MatrixFields) -> Response:
    """The answer, with the version of the saved matrix that was used."""
    if fields.saved is not None:
        response.headers[MATRIX_HEADER] = fields.saved
    return response
