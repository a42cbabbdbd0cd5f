"""The routes that are called most, dispatched without the router."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.errors import handled
from app.api.routing import DirectRoute


class Shortcut:
    """ASGI middleware, the innermost one, that dispatches `POST` to the exact paths of `routes`; all else goes on.

    Errors are answered by the application's own exception handlers, so no answer depends on the way it took. O(1).
    """

    def __init__(self, app: ASGIApp, routes: Iterable[DirectRoute]) -> None:
        self._app = app
        self._routes = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            route = self._routes.get(scope["path"])
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["endpoint"], scope["path_params"] = route, route.endpoint, {}
        try:
            response = await route.answer(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - raised again where no handler is for it
            response = await handled(Request(scope, receive, send), error)
        await response(scope, receive, send)
