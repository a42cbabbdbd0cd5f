"""Applications that are asked by somebody, without the guard that finds out who it is."""

from __future__ import annotations

from app.access.caller import ANYBODY


def called_by(app, caller=ANYBODY):
    """The ASGI application, with `caller` in the state of each request."""

    async def called(scope, receive, send):
        state = scope.setdefault("state", {})
        state["access"], state["caller"], state["client"] = caller, caller.name, caller.client
        await app(scope, receive, send)

    return called
