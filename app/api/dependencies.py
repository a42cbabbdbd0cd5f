"""Dependencies of routes: stores, the caller, pages."""

from typing import Annotated, cast

from fastapi import Depends, Query, Request

from app.access.caller import Caller
from app.api.exchange import caller_of, exchange_of
from app.stores import Stores


async def _stores(request: Request) -> Stores:
    """The stores as a dependency: `async`, so that it needs no thread, which may all be in use."""
    return cast(Stores, request.app.state.service.stores)


async def _caller(request: Request) -> Caller:
    """The caller as a dependency."""
    return caller_of(request)


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
        exchange_of(request.scope).caller.need_model(reference)
