"""Applications that are asked by somebody, without the guard that finds out who it is."""

from __future__ import annotations

from app.access.caller import ANYBODY
from app.api.memory import Budget, Share


class Admitting:
    """A guard that lets everything through, as `caller`, with a budget of its own where there is none."""

    def __init__(self, caller):
        self._caller = caller

    def admit(self, _access, scope, receive):
        state = scope.setdefault("state", {})
        state["access"] = self._caller
        state.setdefault("memory", Share(Budget(2**30)))
        return receive

    def holds(self, _scope):
        return True

    def address(self, scope):
        return scope["client"][0]


def called_by(app, caller=ANYBODY):
    """The ASGI application, with `caller` in the state of each request."""

    async def called(scope, receive, send):
        app.state.guard = Admitting(caller)
        await app(scope, receive, send)

    return called
