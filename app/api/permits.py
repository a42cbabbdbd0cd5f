"""What each route asks of its caller: declared at the route's function, checked where the route is dispatched.

Nothing is derived from the text of a path. A route that declares nothing, a method that a path does not have and a path
that no route matches need the scope `admin`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute, Mount, iter_route_contexts
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from app.access.caller import Scope

if TYPE_CHECKING:  # it imports this module
    from app.api.gate import Guard

SCHEME = "key"  # the name of the security scheme in the OpenAPI document

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])
_MARK = "__payoff_access__"
_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Access:
    """Who may call a route: holders of one of the `scopes`; of any key if there are none; everybody if it `is_open`.

    `uploads` says that the route's bodies may be as large as a data set, `counted` that requests take one off the
    caller's rate.
    """

    scopes: frozenset[Scope]
    is_open: bool = False
    uploads: bool = False
    counted: bool = True

    @property
    def security(self) -> list[dict[str, list[str]]]:
        """The security requirements of an OpenAPI operation, of which a caller has to meet one."""
        if self.is_open:
            return []
        return [{SCHEME: [scope.value]} for scope in Scope if scope in self.scopes] or [{SCHEME: []}]


OPEN = Access(frozenset(), is_open=True)
ANY_KEY = Access(frozenset())
CHECK = replace(ANY_KEY, counted=False)
PREDICT = Access(frozenset({Scope.PREDICT}))
TRAIN = Access(frozenset({Scope.TRAIN}))
UPLOAD = replace(TRAIN, uploads=True)
METRICS = Access(frozenset({Scope.METRICS}))
PREDICT_OR_TRAIN = Access(PREDICT.scopes | TRAIN.scopes)
ADMIN = Access(frozenset({Scope.ADMIN}))
INSTALL = replace(ADMIN, uploads=True)


def needs(access: Access) -> Callable[[_Endpoint], _Endpoint]:
    """Declare what a route asks of its caller, directly at its function."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _MARK, access)
        return endpoint

    return declare


def _name(route: APIRoute) -> str:
    return route.name


class GuardedRoute(APIRoute):
    """A route that asks the guard before anything of the request is read."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.access: Access = getattr(endpoint, _MARK, ADMIN)
        extra = {"security": self.access.security, **(options.pop("openapi_extra", None) or {})}
        options["generate_unique_id_function"] = _name  # generated clients call a method as its function is called here
        super().__init__(path, endpoint, openapi_extra=extra, **options)

    async def handle(self, scope: Connection, receive: Receive, send: Send) -> None:
        access = self.access if scope["method"] in (self.methods or ()) else ADMIN
        guard_of(scope).admit(access, scope)
        await super().handle(scope, receive, send)


class OpenMount(Mount):
    """Files for everybody to read; any other method needs `admin`."""

    async def handle(self, scope: Connection, receive: Receive, send: Send) -> None:
        access = OPEN if scope["method"] in _READS else ADMIN
        guard_of(scope).admit(access, scope)
        await super().handle(scope, receive, send)


def install(app: FastAPI, guard: Guard) -> None:
    """Ask `guard` about every request that `app` gets; TypeError if a route would not."""
    for context in iter_route_contexts(app.routes):
        if not isinstance(context.original_route, GuardedRoute | OpenMount):
            raise TypeError(f"{context.path} is not a guarded route: use GuardedRoute or OpenMount")
    absent = app.router.not_found

    async def guarded(scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            guard.admit(ADMIN, scope)
        await absent(scope, receive, send)

    app.state.guard = guard
    app.router.default = guarded


def guard_of(scope: Connection) -> Guard:
    """The guard of the application that the request is for."""
    return cast("Guard", scope["app"].state.guard)
