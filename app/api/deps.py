"""What routes ask for."""

from __future__ import annotations

from typing import Annotated, Final, cast

from fastapi import Depends, Query, Request, Response

from app.access.caller import Caller
from app.api.limiters import limiters
from app.errors import NotFound
from app.registry.loaded import Loaded
from app.usecases.matrices import HasMatrix
from app.usecases.ports import Ports

MATRIX_HEADER: Final = "payoff-matrix"  # of the answer


def ports(request: Request) -> Ports:
    """The stores."""
    return cast(Ports, request.app.state.ports)


async def _ports(request: Request) -> Ports:
    """The same as a dependency: no thread is needed, of which there may be none left."""
    return ports(request)


async def caller(request: Request) -> Caller:
    """Who asks."""
    return who(request)


def who(request: Request) -> Caller:
    """Who asks, as the guard found out."""
    return cast(Caller, request.scope["state"]["caller"])


PortsDep = Annotated[Ports, Depends(_ports)]
CallerDep = Annotated[Caller, Depends(caller)]
PageSize = Annotated[int, Query(ge=1, le=500)]
PageToken = Annotated[str | None, Query(max_length=200, description="`next_page_token` of the page before")]


async def need_model(request: Request, caller: CallerDep) -> None:
    """Forbidden where the path names a model that the key is not for."""
    named = request.path_params.get("name", request.path_params.get("ref"))
    if named is not None:
        caller.need_model(named)


async def loaded(request: Request, reference: str) -> Loaded:
    """The model, at once if it is in memory; Forbidden where the key is for others, NotFound at `/model`.

    A store that hangs holds the few threads that load, and none of those that answer.
    """
    who(request).need_model(reference)
    registry = ports(request).registry
    model = registry.cached(reference)
    return await limiters(request).load.run(registry.load, reference) if model is None else model


async def loaded_by_path(request: Request, reference: str) -> Loaded:
    """The same where the path names the model, and so no place in the body."""
    try:
        return await loaded(request, reference)
    except NotFound as error:
        raise error.at_place() from error


def naming(response: Response, sent: HasMatrix) -> Response:
    """The answer, with the version of the saved matrix that was used."""
    if sent.saved is not None:
        response.headers[MATRIX_HEADER] = sent.saved.reference
    return response
