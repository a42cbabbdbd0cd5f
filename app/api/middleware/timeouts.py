"""How long a connection waits for its client, checked for all connections together once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum, auto
from typing import ClassVar
from weakref import WeakSet

from uvicorn.server import ServerState

_SECONDS = 1.0  # between checks
_BODY_BYTES = 16 * 1024  # least progress of a body within its limit
_READ_PART = 16  # an answer has to be read in so many times its limit


class Wait(Enum):
    """What a client has to do next."""

    NOTHING = auto()
    HEAD = auto()  # to send a request line and headers
    BODY = auto()  # to send a part of the body
    READ = auto()  # to read the answer
    CLOSE = auto()  # to close, once the answer is complete


class Waiting:
    """Since when one connection waits for the same thing."""

    LIMITS: ClassVar[Mapping[Wait, float]] = {Wait.HEAD: 10.0, Wait.BODY: 20.0, Wait.READ: 20.0, Wait.CLOSE: 2.0}

    def __init__(self) -> None:
        self._wait = Wait.NOTHING
        self._since = 0.0
        self._progress = 0
        self._most = 0

    def is_over(self, limits: Mapping[Wait, float], wait: Wait, progress: int, now: float) -> bool:
        """Whether the client has done too little of `wait` for too long; `progress` is what it has done so far."""
        if wait is not self._wait or (wait is Wait.HEAD and progress != self._progress):
            self._wait, self._most = wait, 0
            self._begin(progress, now)
        elif wait is Wait.READ and progress > self._progress:
            self._begin(progress, now)  # a further answer
        if wait is Wait.NOTHING or now - self._since < limits[wait]:
            return False
        done = self._has_done(progress)
        self._begin(progress, now)
        return not done

    def _begin(self, progress: int, now: float) -> None:
        self._since, self._progress = now, progress
        self._most = max(self._most, progress)

    def _has_done(self, progress: int) -> bool:
        if self._wait is Wait.BODY:
            return progress - self._progress >= _BODY_BYTES
        if self._wait is Wait.READ:
            return self._progress - progress >= max(self._most // _READ_PART, 1)
        return False


_watched: WeakSet[ServerState] = WeakSet()


def watch(state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
    """Check the connections of a server once a second as long as there are any."""
    if state not in _watched:
        _watched.add(state)
        loop.call_later(_SECONDS, _check, state, loop)


def _check(state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
    now = loop.time()
    for connection in list(state.connections):
        if hasattr(connection, "check"):
            connection.check(now)
    if state.connections:
        loop.call_later(_SECONDS, _check, state, loop)
    else:
        _watched.discard(state)
