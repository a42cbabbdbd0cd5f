"""Applications that are asked by somebody, without the guard that finds out who it is."""

from __future__ import annotations

from app.access.caller import ANYBODY


class Admitting:
    """A guard that lets everything through, as `caller`."""

    def __init__(self, caller):
        self._caller = caller

    def admit(self, _access, scope, receive):
        scope.setdefault("state", {})["access"] = self._caller
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
